/* What comes into the agent's heap wrappers while a thread is in one: inner calls, handlers of signals at
 * each instruction, jumps and exceptions out of it. */
#include "heap_rig.h"

#include <malloc.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <ucontext.h>

#include <cmocka.h>

#include "agent_rig.h"

/* --- being inside --- */

static void *body_that_allocates(size_t size)
{
    heap_hooked_free(heap_hooked_malloc(50));
    return malloc(size);
}

static void test_inner_calls_are_not_counted(void **state)
{
    (void)state;
    malloc_function *outer =
        (malloc_function *)agent_rig_hook(&heap_rig, "agent_entry_malloc", (void *)body_that_allocates);
    void *block = outer(20);
    assert_int_equal(heap_all().count, 1);
    assert_int_equal(heap_all().total, 20);
    assert_int_equal(heap_loss(WIRE_AGENT_LOSS_INTERRUPTED), 0);
    heap_hooked_free(block);
    assert_int_equal(heap_all().live, 0);
}

/* As realloc(NULL, size) does it: the entry that it goes on to would return into the agent. */
void *body_that_goes_on(size_t size);
__asm__(".text\n.type body_that_goes_on, @function\nbody_that_goes_on:\n\t"
        "movq heap_hooked_malloc@GOTPCREL(%rip), %rax\n\tjmpq *(%rax)\n.size body_that_goes_on, . - "
        "body_that_goes_on");

static void test_a_tail_call_is_not_counted(void **state)
{
    (void)state;
    malloc_function *outer =
        (malloc_function *)agent_rig_hook(&heap_rig, "agent_entry_malloc", (void *)body_that_goes_on);
    void *blocks[2] = {outer(20), outer(30)};
    assert_int_equal(heap_all().count, 2);
    assert_int_equal(heap_all().total, 50);
    assert_int_equal(heap_loss(WIRE_AGENT_LOSS_INTERRUPTED), 0);
    heap_hooked_free(heap_hooked_malloc(7)); /* nothing stays inside */
    assert_int_equal(heap_all().count, 3);
    for (unsigned i = 0; i < 2; i++)
        heap_hooked_free(blocks[i]);
    assert_int_equal(heap_all().live, 0);
}

static void *from_handler;
static void handler(int number)
{
    (void)number;
    from_handler = heap_hooked_malloc(33);
}

static void *body_that_is_interrupted(size_t size)
{
    raise(SIGUSR1);
    return malloc(size);
}

static void catch (void (*function)(int), int flags)
{
    struct sigaction action = {.sa_handler = function, .sa_flags = flags};
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
}

static void test_a_handler_in_a_hook_is_a_loss(void **state)
{
    (void)state;
    malloc_function *outer =
        (malloc_function *)agent_rig_hook(&heap_rig, "agent_entry_malloc", (void *)body_that_is_interrupted);
    catch (handler, 0);
    void *block = outer(20);
    assert_non_null(from_handler);
    assert_int_equal(heap_all().count, 1);
    assert_int_equal(heap_loss(WIRE_AGENT_LOSS_INTERRUPTED), 1);
    free(from_handler);
    heap_hooked_free(block);
    raise(SIGUSR1); /* outside of a hook it counts, and its stack passes the signal frame */
    assert_int_equal(heap_all().count, 2);
    assert_int_equal(heap_loss(WIRE_AGENT_LOSS_NO_ROWS) + heap_loss(WIRE_AGENT_LOSS_CUT), 0);
    const struct wire_agent_node *nodes = agent_rig_nodes(&heap_rig, heap_rig.process);
    unsigned exact = 0;
    for (uint32_t i = 1; i <= heap_rig.process->node_count; i++)
        exact += nodes[i].flags == WIRE_AGENT_NODE_EXACT;
    assert_int_equal(exact, 1);
    heap_hooked_free(from_handler);
}

/* --- a handler at each instruction of a hook, the agent's own too --- */

#define TRAP_FLAG UINT64_C(0x100)
#define STEPS     1024

static malloc_function *stepped;
static uint64_t stepped_calls, step, wanted_step;

static void *body_of_step(size_t size)
{
    static uint64_t blocks[2 * STEPS][2];
    (void)size;
    uint64_t number = __atomic_fetch_add(&stepped_calls, 1, __ATOMIC_RELAXED); /* it is interrupted, too */
    return blocks[number % (2 * STEPS)];
}

static void step_handler(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    if (step++ != wanted_step)
        return;
    stepped(33);
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG; /* no more steps */
}

static void set_trap_flag(bool on)
{
    uint64_t flags = __builtin_ia32_readeflags_u64();
    __builtin_ia32_writeeflags_u64(on ? flags | TRAP_FLAG : flags & ~TRAP_FLAG);
}

static void test_every_call_of_handlers_counts_or_is_a_loss(void **state)
{
    (void)state;
    struct sigaction action = {.sa_sigaction = step_handler, .sa_flags = SA_SIGINFO}, before;
    stepped = (malloc_function *)agent_rig_hook(&heap_rig, "agent_entry_malloc", (void *)body_of_step);
    stepped_calls = step = wanted_step = 0;
    stepped(20);
    assert_int_equal(sigaction(SIGTRAP, &action, &before), 0);
    for (; wanted_step < STEPS; wanted_step += 3) { /* more than there are; all of them take seconds */
        step = 0;
        set_trap_flag(true);
        stepped(20);
        set_trap_flag(false);
    }
    assert_int_equal(sigaction(SIGTRAP, &before, NULL), 0);
    assert_true(heap_loss(WIRE_AGENT_LOSS_INTERRUPTED) > 0);
    assert_int_equal(heap_all().count + heap_loss(WIRE_AGENT_LOSS_INTERRUPTED), stepped_calls);
}

static struct wire_agent_thread *own_record(void)
{
    for (unsigned i = 0; i < heap_rig.process->thread_count; i++) {
        struct wire_agent_thread *thread = agent_rig_thread(&heap_rig, i);
        if (thread->key != 0)
            return thread;
    }
    return NULL;
}

/* As a handler finds it that comes while the record is made. */
static void test_a_handler_before_there_is_a_record(void **state)
{
    (void)state;
    heap_hooked_free(heap_site_0(1));
    struct wire_agent_thread *own = own_record();
    assert_non_null(own);
    const uint64_t key = own->key;
    assert_int_equal(key & 1, 0);
    own->key |= 1;
    catch (handler, 0);
    raise(SIGUSR1);
    assert_non_null(from_handler);
    assert_int_equal(own->key, key | 1);
    assert_int_equal(heap_all().count, 1);
    assert_int_equal(heap_loss(WIRE_AGENT_LOSS_INTERRUPTED), 1);
    assert_int_equal(heap_rig.process->thread_count, 1);
    heap_hooked_free(heap_site_1(2)); /* it never came back to what it interrupted */
    assert_int_equal(own->key, key);
    assert_int_equal(heap_all().count, 2);
    assert_int_equal(heap_loss(WIRE_AGENT_LOSS_NO_RECORD), 0);
    assert_int_equal(heap_rig.process->unrecorded, 0);
    free(from_handler);
}

static jmp_buf way_out;
static void *body_that_jumps(size_t size)
{
    (void)size;
    longjmp(way_out, 1);
}

static void test_a_hook_that_was_left(void **state)
{
    (void)state;
    malloc_function *outer =
        (malloc_function *)agent_rig_hook(&heap_rig, "agent_entry_malloc", (void *)body_that_jumps);
    heap_hooked_free(heap_hooked_malloc(1));
    if (setjmp(way_out) == 0)
        outer(20);
    heap_hooked_free(heap_hooked_malloc(2));
    assert_int_equal(heap_all().count, 2);
    assert_int_equal(heap_all().total, 3);
}

/* An allocator's operator new that throws is jumped to, with the caller's own frame on top. */
static void *seen_caller;
static AWAY void *throwing_body(size_t size)
{
    assert_int_equal(size, 77);
    seen_caller = __builtin_return_address(0);
    return NULL;
}
static void *plain_new(size_t size)
{
    return size == 77 ? NULL : malloc(size);
}

static AWAY uint64_t call_new(malloc_function *function, size_t size, void **result)
{
    *result = function(size);
    return (uint64_t)__builtin_extract_return_addr(seen_caller);
}

static void test_new(void **state)
{
    (void)state;
    malloc_function *hooked =
        (malloc_function *)agent_rig_hook(&heap_rig, "agent_entry_new", (void *)throwing_body);
    heap_rig.process->layers[0] = (struct wire_agent_layer){
        .start = (uint64_t)hooked, .end = (uint64_t)hooked + 1, .plain_new = (uint64_t)plain_new};
    heap_rig.process->layer_count = 1;
    void *block;
    call_new(hooked, 10, &block);
    assert_non_null(block);
    assert_null(seen_caller);
    assert_int_equal(heap_all().total, 10);
    heap_hooked_free(block);
    uint64_t caller = call_new(hooked, 77, &block);
    assert_true(caller > (uint64_t)call_new && caller < (uint64_t)call_new + 256);
    assert_int_equal(heap_all().count, 1);
    assert_int_equal(heap_rig.process->losses[WIRE_AGENT_LOSS_NO_RECORD], 0);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, heap_set_up, heap_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_inner_calls_are_not_counted),
        TEST(test_a_tail_call_is_not_counted),
        TEST(test_a_handler_in_a_hook_is_a_loss),
        TEST(test_every_call_of_handlers_counts_or_is_a_loss),
        TEST(test_a_handler_before_there_is_a_record),
        TEST(test_a_hook_that_was_left),
        TEST(test_new),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
