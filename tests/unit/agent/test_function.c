/* Calls that are timed (src/agent/call): jumps out of them, recursion, forks, other stacks, tables that are
 * full. */
#include "function_rig.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent_rig.h"
#include "wire_agent_entry.h"

/* --- agent_call_function.c --- */

static void test_left_by_a_jump(void **state)
{
    (void)state;
    for (volatile unsigned i = 1; i <= 3; i++) {
        if (setjmp(function_jump) == 0)
            function_caller(2);
        assert_int_equal(function_caller(0), 5);
        assert_int_equal(function_calls_of(function_rig.process), 2 * i);
        assert_int_equal(function_calls_in_histograms(function_rig.process), 2 * i);
    }
    function_no_losses();
}

static AWAY void leave_below(size_t bytes)
{
    volatile char *room = __builtin_alloca(bytes);
    room[0] = 1;
    function_caller(2);
    room[0] = 2;
}

static unsigned count_stale_slots(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < WIRE_AGENT_STALE_COUNT; i++)
        for (unsigned k = 0; k < sizeof function_rig.own->known.stale[i].slots / 8; k++)
            count += (unsigned)__builtin_popcountll(function_rig.own->known.stale[i].slots[k]);
    return count;
}

/* Each slot is known, and where the agent leaves all of them are looked at. */
static void test_left_at_every_depth(void **state)
{
    (void)state;
    for (volatile size_t depth = DEPTHS; depth > 0; depth--)
        if (setjmp(function_jump) == 0)
            leave_below(depth * DEPTH_BYTES);
    assert_int_equal(function_calls_of(function_rig.process), DEPTHS);
    assert_int_equal(count_stale_slots(), DEPTHS - 1); /* the last is still pending */
    assert_int_equal(function_rig.own->known.stale_lost, 0);
}

static void test_recursion(void **state)
{
    (void)state;
    assert_int_equal(function_caller(10 + 50), 5 + 50);
    assert_int_equal(function_calls_of(function_rig.process), 51);
    assert_int_equal(function_calls_in_histograms(function_rig.process), 51);
    assert_int_equal(function_rig.process->losses[WIRE_AGENT_LOSS_UNTIMED], 0);
    assert_int_equal(function_caller(10 + 5000), 5 + 5000); /* deeper than what is remembered */
    assert_int_equal(function_calls_of(function_rig.process), 51 + 5001);
    assert_int_not_equal(function_rig.process->losses[WIRE_AGENT_LOSS_UNTIMED] +
                             function_rig.process->losses[WIRE_AGENT_LOSS_FORGOTTEN],
                         0);
}

/* The child returns through its parent's words, and counts for itself. */
static void test_fork(void **state)
{
    (void)state;
    long child = function_caller(3);
    if (child == 0) {
        bool good = function_caller(0) == 5 && !function_is_in((const void *)function_caller, function_seen);
        _exit(good ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid((pid_t)child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(function_calls_of(function_rig.process), 1);
    const struct wire_agent_process *region = agent_rig_process(&function_rig, 1);
    assert_int_equal(function_calls_of(region), 1);
    assert_int_equal(function_calls_in_histograms(region), 1);
    assert_int_equal(region->losses[WIRE_AGENT_LOSS_FORGOTTEN], 0);
}

/* The first hook of a child that gets no region is one that would look for a record. */
static void test_fork_that_is_not_counted(void **state)
{
    (void)state;
    assert_int_equal(function_caller(0), 5);
    function_rig.control->flags = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(function_unwinder(6) == 7 && function_caller(0) == 5 ? 0 : 1);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(function_calls_of(function_rig.process), 1);
}

static char other_stack[64 << 10];

static AWAY void be_suspended(void)
{
    function_caller(4);
}

static bool is_stale_slot(uint64_t slot)
{
    for (unsigned i = 0; i < WIRE_AGENT_STALE_COUNT; i++) {
        const struct wire_agent_stale *stale = &function_rig.own->known.stale[i];
        if (slot >= 4096 && stale->page == slot / 4096 * 4096)
            return stale->slots[slot % 4096 / 512] >> slot / 8 % 64 & 1;
    }
    return false;
}

static void suspend_one(void)
{
    getcontext(&function_inside);
    function_inside.uc_stack.ss_sp = other_stack;
    function_inside.uc_stack.ss_size = sizeof other_stack;
    function_inside.uc_link = &function_outside;
    makecontext(&function_inside, be_suspended, 0);
    swapcontext(&function_outside, &function_inside);
}

/* Of the only record that there is. */
static struct wire_agent_calls *used_calls(void)
{
    struct wire_agent_calls *calls = NULL;
    for (unsigned i = 0; i < WIRE_AGENT_THREADS; i++)
        if (function_rig.own->known.used[i / 64] >> i % 64 & 1)
            calls = &function_rig.own->calls[i];
    assert_non_null(calls);
    return calls;
}

/* What was pending on another stack when the process was forked is known in the child, whatever its parent
 * does meanwhile. */
static void test_fork_beside_another_stack(void **state)
{
    (void)state;
    suspend_one();
    const struct wire_agent_calls *calls = used_calls();
    assert_int_equal(calls->count, 1);
    uint64_t slot = calls->items[0].slot;
    assert_in_range(slot, (uint64_t)other_stack, (uint64_t)other_stack + sizeof other_stack);
    pid_t child = fork();
    if (child == 0) {
        bool good = function_caller(0) == 5 && calls->count == 0 && is_stale_slot(slot) &&
                    function_rig.own->known.stale_lost == 0;
        swapcontext(&function_outside, &function_inside); /* it returns through its parent's word */
        _exit(good ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(calls->count, 1);
    assert_false(is_stale_slot(slot));
    swapcontext(&function_outside, &function_inside);
    assert_int_equal(calls->count, 0);
    assert_int_equal(function_calls_of(function_rig.process), 1);
    assert_int_equal(function_calls_of(agent_rig_process(&function_rig, 1)), 1);
    assert_int_equal(agent_rig_process(&function_rig, 1)->losses[WIRE_AGENT_LOSS_FORGOTTEN], 0);
    assert_int_equal(function_rig.process->losses[WIRE_AGENT_LOSS_FORGOTTEN], 0);
}

static void *suspend_and_end(void *unused)
{
    suspend_one();
    struct wire_agent_calls *calls = used_calls(); /* and one that may open a descriptor */
    calls->items[calls->count++] = (struct wire_agent_pending){.slot = 4096, .how = WIRE_AGENT_OPENED};
    return unused;
}

/* A thread ends while a call of its is pending on a stack that goes on in another one, which has its
 * record. */
static void test_a_thread_ends_beside_another_stack(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, suspend_and_end, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    uint64_t slot = used_calls()->items[0].slot;
    assert_in_range(slot, (uint64_t)other_stack, (uint64_t)other_stack + sizeof other_stack);
    assert_int_equal(used_calls()->count, 2);
    assert_int_equal(function_caller(0), 5);
    assert_int_equal(function_rig.process->thread_count, 1);
    assert_true(is_stale_slot(slot) && is_stale_slot(4096));
    assert_int_equal(function_rig.process->losses[WIRE_AGENT_LOSS_UNTIMED], 1);
    assert_int_equal(function_rig.process->losses[WIRE_AGENT_LOSS_NO_RESULT], 1);
    swapcontext(&function_outside, &function_inside);
    assert_int_equal(function_rig.process->losses[WIRE_AGENT_LOSS_FORGOTTEN], 1);
    assert_int_equal(function_calls_of(function_rig.process), 2);
    assert_int_equal(function_calls_in_histograms(function_rig.process), 1);
}

/* A thread that is in more calls than it can be: those that open descriptors are a loss when they are
 * forgotten. */
static void test_no_room_for_calls(void **state)
{
    (void)state;
    assert_int_equal(function_caller(0), 5);
    struct wire_agent_calls *calls = used_calls();
    for (unsigned i = 0; i < WIRE_AGENT_PENDING; i++)
        calls->items[i] =
            (struct wire_agent_pending){.slot = 4096 + i * 8, .how = i % 4 == 0 ? WIRE_AGENT_OPENED : 0};
    calls->count = WIRE_AGENT_PENDING;
    assert_int_equal(function_caller(0), 5);
    assert_int_equal(calls->count, 0);
    assert_int_equal(function_rig.process->losses[WIRE_AGENT_LOSS_NO_RESULT], (WIRE_AGENT_PENDING + 3) / 4);
    assert_true(is_stale_slot(4096) && is_stale_slot(4096 + (WIRE_AGENT_PENDING - 1) * 8));
    assert_int_equal(function_calls_in_histograms(function_rig.process), 2);
}

/* No room for the list of a thread's calls: they are counted, and timed as soon as there is. */
static void test_no_room_for_the_list(void **state)
{
    (void)state;
    uint64_t room = function_rig.parameters->mapped[WIRE_AGENT_PART_OWN];
    function_rig.parameters->mapped[WIRE_AGENT_PART_OWN] =
        4096; /* and the kernel grows no mapping from its middle */
    for (unsigned i = 0; i < CALLS; i++)
        assert_int_equal(function_caller(0), 5);
    assert_int_equal(function_rig.process->losses[WIRE_AGENT_LOSS_UNTIMED], CALLS);
    assert_in_range(function_rig.process->losses[WIRE_AGENT_LOSS_NO_ROOM], 1, CALLS / 256);
    function_rig.parameters->mapped[WIRE_AGENT_PART_OWN] = room;
    for (unsigned i = 0; i < CALLS; i++)
        assert_int_equal(function_caller(0), 5);
    assert_int_equal(function_rig.process->losses[WIRE_AGENT_LOSS_UNTIMED], CALLS);
    assert_int_equal(function_calls_in_histograms(function_rig.process), CALLS);
    assert_int_equal(used_calls()->count, 0);
}

/* --- two collectors on one entry --- */

static AWAY void *block_body(long what)
{
    static uint64_t blocks[CALLS][2];
    static unsigned used;
    function_seen = RETURN_ADDRESS();
    return what == 0 ? blocks[used++] : (void *)function_timed(what);
}

static AWAY void *block_caller(void *(*allocate)(long), long what)
{
    void *volatile given = allocate(what);
    return given;
}

/* The timed hook goes on into memory's, and that into the body. What the body calls is the allocator's
 * affair. */
static void test_over_another_hook(void **state)
{
    (void)state;
    void *beneath = agent_rig_hook(&function_rig, "agent_entry_malloc", (void *)block_body);
    void *(*allocate)(long);
    *(void **)&allocate =
        agent_rig_hook_published(&function_rig, "agent_entry_function", beneath, WIRE_AGENT_ENTRY_FUNCTION);
    *(void **)&function_timed = agent_rig_hook_published(
        &function_rig, "agent_entry_function", (void *)function_timed_body, WIRE_AGENT_ENTRY_FUNCTION);
    for (int i = 0; i < CALLS; i++)
        assert_non_null(block_caller(allocate, 0));
    function_no_losses();
    assert_int_equal(function_calls_in_histograms(function_rig.process), CALLS);
    assert_int_equal(function_calls_of(function_rig.process), 2 * CALLS); /* of memory, and of time */
    assert_int_equal((uintptr_t)block_caller(allocate, 5), 5);
    assert_int_equal(function_rig.process->losses[WIRE_AGENT_LOSS_INNER], 1);
    assert_int_equal(function_calls_in_histograms(function_rig.process), CALLS + 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, function_set_up, function_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_left_by_a_jump),
        TEST(test_left_at_every_depth),
        TEST(test_recursion),
        TEST(test_fork),
        TEST(test_fork_that_is_not_counted),
        TEST(test_fork_beside_another_stack),
        TEST(test_a_thread_ends_beside_another_stack),
        TEST(test_no_room_for_calls),
        TEST(test_no_room_for_the_list),
        TEST(test_over_another_hook),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
