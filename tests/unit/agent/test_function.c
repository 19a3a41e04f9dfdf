/* Return addresses that are replaced (agent_return.c), calls that are timed by them (agent_call_function.c),
 * and their histograms (agent_latency.c). */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent_rig.h"
#include "wire_agent_call.h"
#include "wire_agent_entry.h"

#define AWAY __attribute__((noinline, noclone))

enum {
    CALLS = 1000,
    THREADS = 8,
    NEAR_BYTES = 512,
    DEPTHS = 12000,
    DEPTH_BYTES = 32 /* AddressSanitizer's step of alloca() */
};
enum { MANY_THREADS = 80, GROUPS = 64 }; /* so many threads have histograms of their own */

typedef long timed_function(long depth);

static struct agent_rig rig;
static timed_function *timed, *unwinder;
static jmp_buf jump;
static ucontext_t outside, inside;
static uint64_t seen, seen_after, seen_by_unwinder;

/* What stands where the return address of the caller's caller... of whoever calls this, is. */
#define RETURN_ADDRESS() ((uint64_t)__builtin_extract_return_addr(__builtin_return_address(0)))

static AWAY long unwinder_body(long value)
{
    seen_by_unwinder = RETURN_ADDRESS();
    return value + 1;
}

/* 0: returns; 1: unwinds first; 2: jumps out; 3: forks; 4: waits on its stack; more: calls itself that often
 * less ten. */
static AWAY long timed_body(long what)
{
    seen = RETURN_ADDRESS();
    if (what == 1)
        what = unwinder(what);
    if (what == 2 && seen != 0)
        longjmp(jump, 1);
    if (what == 3)
        return fork();
    if (what == 4)
        swapcontext(&inside, &outside);
    if (what > 10)
        return timed(what - 1) + 1;
    __asm__ volatile("" ::: "memory");
    return 5;
}

static AWAY long unwinding_body(long value)
{
    seen = RETURN_ADDRESS();
    long result = unwinder(value);
    seen_after = *(uint64_t *)((uint64_t)__builtin_frame_address(0) + 8);
    return result;
}

static int set_up(void **state)
{
    (void)state;
    agent_rig_begin(&rig, &(struct agent_rig_options){.flags = WIRE_AGENT_FOLLOW});
    rig.control->ns_of_ticks = UINT64_C(1) << 32;
    rig.process->timed = 1;
    timed = (timed_function *)agent_rig_hook_whole(&rig, "agent_entry_function", (void *)timed_body);
    unwinder = (timed_function *)agent_rig_hook_whole(&rig, "agent_entry_unwind", (void *)unwinder_body);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    agent_rig_end(&rig);
    return 0;
}

static AWAY long caller(long what)
{
    long volatile result = timed(what);
    return result;
}

static AWAY long second_caller(long what)
{
    long volatile result = timed(what);
    return result + 1; /* else the compiler makes one of two */
}

static bool is_in(const void *function, uint64_t address)
{
    return address - (uint64_t)function < NEAR_BYTES;
}

static uint64_t calls_of(const struct wire_agent_process *process)
{
    return agent_rig_read(&rig, process, 0, 0).count;
}

static const struct wire_agent_latency *latencies(const struct wire_agent_process *process)
{
    return (const void *)((uintptr_t)process + rig.layout.latencies);
}

static uint64_t calls_in_histograms(const struct wire_agent_process *process)
{
    uint64_t calls = 0;
    for (uint32_t i = 1; i <= process->latency_count; i++)
        for (uint32_t b = 0; b < WIRE_LATENCY_BUCKETS; b++)
            calls += latencies(process)[i].buckets[b];
    return calls;
}

/* Those that have calls: of two that are made at once, one stays empty. */
static uint32_t used_histograms(const struct wire_agent_process *process)
{
    uint32_t used = 0;
    for (uint32_t i = 1; i <= process->latency_count; i++)
        used += latencies(process)[i].least != 0;
    return used;
}

static void no_losses(void)
{
    for (unsigned i = 0; i < WIRE_AGENT_LOSSES; i++)
        assert_int_equal(rig.process->losses[i], 0);
}

/* --- agent_return.c --- */

static void test_a_word_for_each_place(void **state)
{
    (void)state;
    assert_int_equal(caller(0), 5);
    uint64_t first = seen;
    assert_false(is_in((const void *)caller, first)); /* it is replaced */
    assert_int_equal(second_caller(0), 6);
    assert_int_not_equal(seen, first);
    assert_int_equal(caller(0), 5);
    assert_int_equal(seen, first); /* always the same */
    const uint64_t *returns = (const void *)((uintptr_t)rig.process + rig.layout.returns);
    unsigned used = 0;
    for (unsigned i = 0; i < WIRE_AGENT_RETURNS; i++)
        used += returns[i] != 0;
    assert_int_equal(used, 2);
    no_losses();
}

/* What reads return addresses finds them as they were, and the call that it was in ends as far as times are
 * concerned. */
static void test_put_back(void **state)
{
    (void)state;
    timed_function *old = timed;
    timed = (timed_function *)agent_rig_hook_whole(&rig, "agent_entry_function", (void *)unwinding_body);
    seen_after = 0;
    assert_int_equal(caller(4), 5);
    assert_false(is_in((const void *)caller, seen));
    assert_true(is_in((const void *)caller, seen_after));
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_PUT_BACK], 1);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_FORGOTTEN], 0);
    assert_int_equal(calls_in_histograms(rig.process), 1);
    timed = old;
}

static timed_function *loaded;

static AWAY long loading_body(long value)
{
    seen = RETURN_ADDRESS();
    long result = value > 10 ? timed(value - 1) : loaded(value);
    seen_after = *(uint64_t *)((uint64_t)__builtin_frame_address(0) + 8);
    return result;
}

/* As if another thread had found that nobody answers. */
static AWAY long silent_body(long value)
{
    rig.process->silent = 1;
    long result = value > 10 ? timed(value - 1) : value;
    seen_after = *(uint64_t *)((uint64_t)__builtin_frame_address(0) + 8);
    return result;
}

/* Nobody answers the loader's bell: what is loaded then is not hooked, and finds a stack without any word of
 * ours. */
static void test_abandoned(void **state)
{
    (void)state;
    timed_function *old = timed;
    timed = (timed_function *)agent_rig_hook_whole(&rig, "agent_entry_function", (void *)loading_body);
    loaded = (timed_function *)agent_rig_hook(&rig, "agent_entry_objects", (void *)unwinder_body);
    rig.control->patience_ms = 1;
    seen_after = 0;
    caller(13);
    assert_int_equal(rig.process->silent, 1);
    assert_true(is_in((const void *)caller, seen_after)); /* of the outermost of four */
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_NO_ANSWER], 1);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_PUT_BACK], 4);
    caller(4); /* nor is any replaced again */
    assert_true(is_in((const void *)caller, seen));
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_UNTIMED], 1);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_FORGOTTEN], 0);
    timed = old;
}

/* Another thread's stack is put back when it comes to the agent. */
static void test_abandoned_elsewhere(void **state)
{
    (void)state;
    timed_function *old = timed;
    timed = (timed_function *)agent_rig_hook_whole(&rig, "agent_entry_function", (void *)silent_body);
    seen_after = 0;
    caller(11);
    assert_true(is_in((const void *)caller, seen_after));
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_PUT_BACK], 1);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_UNTIMED], 1);
    timed = old;
}

enum { SPIN_TICKS = 50000000 };

static void *(*allocating)(size_t size);
static char block[64];

static AWAY void *looking_allocator(size_t size)
{
    unwinder((long)size);
    return block;
}

static AWAY long allocating_body(long value)
{
    seen = RETURN_ADDRESS();
    allocating((size_t)value);
    seen_after = *(uint64_t *)((uint64_t)__builtin_frame_address(0) + 8);
    for (uint64_t end = __builtin_ia32_rdtsc() + SPIN_TICKS; __builtin_ia32_rdtsc() < end;) {
    }
    return 5;
}

/* An allocator that looks at its stack, inside its own hook: it finds all of it, and the call ends there for
 * us. */
static void test_put_back_inside(void **state)
{
    (void)state;
    timed_function *old = timed;
    timed = (timed_function *)agent_rig_hook_whole(&rig, "agent_entry_function", (void *)allocating_body);
    allocating = (void *(*)(size_t))agent_rig_hook(&rig, "agent_entry_malloc", (void *)looking_allocator);
    uint64_t begun = __builtin_ia32_rdtsc();
    assert_int_equal(caller(16), 5);
    uint64_t ended = __builtin_ia32_rdtsc();
    assert_false(is_in((const void *)caller, seen));
    assert_true(is_in((const void *)caller, seen_after));
    timed = old;
    assert_int_equal(caller(0), 5); /* now it is told */
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_PUT_BACK], 1);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_FORGOTTEN], 0);
    assert_int_equal(calls_in_histograms(rig.process), 2);
    for (uint32_t i = 1; i <= rig.process->latency_count; i++)
        assert_true(latencies(rig.process)[i].most <= ended - begun - SPIN_TICKS);
}

/* A timed function that leaves by a tail call to what unwinds leaves it its own return address. */
static void test_put_back_after_a_tail_call(void **state)
{
    (void)state;
    uint8_t *at = rig.code + rig.code_used;
    timed_function *old = timed;
    memcpy(at, (const uint8_t[]){0x48, 0xb8}, 2); /* mov rax, unwinder; jmp rax */
    memcpy(at + 2, &unwinder, sizeof unwinder);
    memcpy(at + 10, (const uint8_t[]){0xff, 0xe0}, 2);
    rig.code_used += 64;
    timed = (timed_function *)agent_rig_hook_whole(&rig, "agent_entry_function", at);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(caller(4), 5);
        assert_true(is_in((const void *)caller, seen_by_unwinder));
        assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_PUT_BACK], i);
    }
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_FORGOTTEN], 0);
    assert_int_equal(calls_in_histograms(rig.process), 3);
    timed = old;
}

/* Also when nothing is counted any more. */
static void test_put_back_while_leaving(void **state)
{
    (void)state;
    timed_function *old = timed;
    timed = (timed_function *)agent_rig_hook_whole(&rig, "agent_entry_function", (void *)unwinding_body);
    assert_int_equal(caller(4), 5);
    rig.process->state = WIRE_AGENT_LEFT;
    assert_int_equal(caller(4), 5);
    assert_true(is_in((const void *)caller, seen)); /* not replaced */
    assert_true(is_in((const void *)caller, seen_after));
    rig.process->state = WIRE_AGENT_RUNNING;
    assert_int_equal(calls_of(rig.process), 1);
    timed = old;
}

/* Code that nobody described called: its return address is its own. */
static void test_generated_caller(void **state)
{
    (void)state;
    static const uint8_t code[] = {0x48, 0x83, 0xec, 0x08,        /* sub rsp, 8 */
                                   0xff, 0xd6,                    /* call rsi */
                                   0x48, 0x83, 0xc4, 0x08, 0xc3}; /* add rsp, 8; ret */
    uint8_t *at = rig.code + rig.code_used;
    memcpy(at, code, sizeof code);
    rig.code_used += 64;
    long (*generated)(long, timed_function *) = (long (*)(long, timed_function *))(void *)at;
    assert_int_equal(generated(0, timed), 5);
    assert_int_equal(seen, (uint64_t)at + 6);
    assert_int_equal(calls_of(rig.process), 1);
    assert_int_equal(calls_in_histograms(rig.process), 0);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_UNTIMED], 1);
}

static void test_not_timed(void **state)
{
    (void)state;
    rig.process->timed = 0;
    assert_int_equal(caller(0), 5);
    assert_true(is_in((const void *)caller, seen));
    assert_int_equal(calls_of(rig.process), 1);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_UNTIMED], 1);
}

/* --- agent_call_function.c --- */

static void test_left_by_a_jump(void **state)
{
    (void)state;
    for (volatile unsigned i = 1; i <= 3; i++) {
        if (setjmp(jump) == 0)
            caller(2);
        assert_int_equal(caller(0), 5);
        assert_int_equal(calls_of(rig.process), 2 * i);
        assert_int_equal(calls_in_histograms(rig.process), 2 * i);
    }
    no_losses();
}

static AWAY void leave_below(size_t bytes)
{
    volatile char *room = __builtin_alloca(bytes);
    room[0] = 1;
    caller(2);
    room[0] = 2;
}

static unsigned count_stale_slots(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < WIRE_AGENT_STALE_COUNT; i++)
        for (unsigned k = 0; k < sizeof rig.own->known.stale[i].slots / 8; k++)
            count += (unsigned)__builtin_popcountll(rig.own->known.stale[i].slots[k]);
    return count;
}

/* Each slot is known, and where the agent leaves all of them are looked at. */
static void test_left_at_every_depth(void **state)
{
    (void)state;
    for (volatile size_t depth = DEPTHS; depth > 0; depth--)
        if (setjmp(jump) == 0)
            leave_below(depth * DEPTH_BYTES);
    assert_int_equal(calls_of(rig.process), DEPTHS);
    assert_int_equal(count_stale_slots(), DEPTHS - 1); /* the last is still pending */
    assert_int_equal(rig.own->known.stale_lost, 0);
}

static void test_recursion(void **state)
{
    (void)state;
    assert_int_equal(caller(10 + 50), 5 + 50);
    assert_int_equal(calls_of(rig.process), 51);
    assert_int_equal(calls_in_histograms(rig.process), 51);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_UNTIMED], 0);
    assert_int_equal(caller(10 + 5000), 5 + 5000); /* deeper than what is remembered */
    assert_int_equal(calls_of(rig.process), 51 + 5001);
    assert_int_not_equal(
        rig.process->losses[WIRE_AGENT_LOSS_UNTIMED] + rig.process->losses[WIRE_AGENT_LOSS_FORGOTTEN], 0);
}

/* The child returns through its parent's words, and counts for itself. */
static void test_fork(void **state)
{
    (void)state;
    long child = caller(3);
    if (child == 0) {
        bool good = caller(0) == 5 && !is_in((const void *)caller, seen);
        _exit(good ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid((pid_t)child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(calls_of(rig.process), 1);
    const struct wire_agent_process *region = agent_rig_process(&rig, 1);
    assert_int_equal(calls_of(region), 1);
    assert_int_equal(calls_in_histograms(region), 1);
    assert_int_equal(region->losses[WIRE_AGENT_LOSS_FORGOTTEN], 0);
}

/* The first hook of a child that gets no region is one that would look for a record. */
static void test_fork_that_is_not_counted(void **state)
{
    (void)state;
    assert_int_equal(caller(0), 5);
    rig.control->flags = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(unwinder(6) == 7 && caller(0) == 5 ? 0 : 1);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(calls_of(rig.process), 1);
}

static char other_stack[64 << 10];

static AWAY void be_suspended(void)
{
    caller(4);
}

static bool is_stale_slot(uint64_t slot)
{
    for (unsigned i = 0; i < WIRE_AGENT_STALE_COUNT; i++) {
        const struct wire_agent_stale *stale = &rig.own->known.stale[i];
        if (slot >= 4096 && stale->page == slot / 4096 * 4096)
            return stale->slots[slot % 4096 / 512] >> slot / 8 % 64 & 1;
    }
    return false;
}

static void suspend_one(void)
{
    getcontext(&inside);
    inside.uc_stack.ss_sp = other_stack;
    inside.uc_stack.ss_size = sizeof other_stack;
    inside.uc_link = &outside;
    makecontext(&inside, be_suspended, 0);
    swapcontext(&outside, &inside);
}

/* Of the only record that there is. */
static struct wire_agent_calls *used_calls(void)
{
    struct wire_agent_calls *calls = NULL;
    for (unsigned i = 0; i < WIRE_AGENT_THREADS; i++)
        if (rig.own->known.used[i / 64] >> i % 64 & 1)
            calls = &rig.own->calls[i];
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
        bool good =
            caller(0) == 5 && calls->count == 0 && is_stale_slot(slot) && rig.own->known.stale_lost == 0;
        swapcontext(&outside, &inside); /* it returns through its parent's word */
        _exit(good ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(calls->count, 1);
    assert_false(is_stale_slot(slot));
    swapcontext(&outside, &inside);
    assert_int_equal(calls->count, 0);
    assert_int_equal(calls_of(rig.process), 1);
    assert_int_equal(calls_of(agent_rig_process(&rig, 1)), 1);
    assert_int_equal(agent_rig_process(&rig, 1)->losses[WIRE_AGENT_LOSS_FORGOTTEN], 0);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_FORGOTTEN], 0);
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
    assert_int_equal(caller(0), 5);
    assert_int_equal(rig.process->thread_count, 1);
    assert_true(is_stale_slot(slot) && is_stale_slot(4096));
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_UNTIMED], 1);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_NO_RESULT], 1);
    swapcontext(&outside, &inside);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_FORGOTTEN], 1);
    assert_int_equal(calls_of(rig.process), 2);
    assert_int_equal(calls_in_histograms(rig.process), 1);
}

/* A thread that is in more calls than it can be: those that open descriptors are a loss when they are
 * forgotten. */
static void test_no_room_for_calls(void **state)
{
    (void)state;
    assert_int_equal(caller(0), 5);
    struct wire_agent_calls *calls = used_calls();
    for (unsigned i = 0; i < WIRE_AGENT_PENDING; i++)
        calls->items[i] =
            (struct wire_agent_pending){.slot = 4096 + i * 8, .how = i % 4 == 0 ? WIRE_AGENT_OPENED : 0};
    calls->count = WIRE_AGENT_PENDING;
    assert_int_equal(caller(0), 5);
    assert_int_equal(calls->count, 0);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_NO_RESULT], (WIRE_AGENT_PENDING + 3) / 4);
    assert_true(is_stale_slot(4096) && is_stale_slot(4096 + (WIRE_AGENT_PENDING - 1) * 8));
    assert_int_equal(calls_in_histograms(rig.process), 2);
}

/* No room for the list of a thread's calls: they are counted, and timed as soon as there is. */
static void test_no_room_for_the_list(void **state)
{
    (void)state;
    uint64_t room = rig.parameters->mapped[WIRE_AGENT_PART_OWN];
    rig.parameters->mapped[WIRE_AGENT_PART_OWN] = 4096; /* and the kernel grows no mapping from its middle */
    for (unsigned i = 0; i < CALLS; i++)
        assert_int_equal(caller(0), 5);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_UNTIMED], CALLS);
    assert_in_range(rig.process->losses[WIRE_AGENT_LOSS_NO_ROOM], 1, CALLS / 256);
    rig.parameters->mapped[WIRE_AGENT_PART_OWN] = room;
    for (unsigned i = 0; i < CALLS; i++)
        assert_int_equal(caller(0), 5);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_UNTIMED], CALLS);
    assert_int_equal(calls_in_histograms(rig.process), CALLS);
    assert_int_equal(used_calls()->count, 0);
}

/* --- two collectors on one entry --- */

static AWAY void *block_body(long what)
{
    static uint64_t blocks[CALLS][2];
    static unsigned used;
    seen = RETURN_ADDRESS();
    return what == 0 ? blocks[used++] : (void *)timed(what);
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
    void *beneath = agent_rig_hook(&rig, "agent_entry_malloc", (void *)block_body);
    void *(*allocate)(long);
    *(void **)&allocate =
        agent_rig_hook_told(&rig, "agent_entry_function", beneath, WIRE_AGENT_ENTRY_FUNCTION);
    *(void **)&timed =
        agent_rig_hook_told(&rig, "agent_entry_function", (void *)timed_body, WIRE_AGENT_ENTRY_FUNCTION);
    for (int i = 0; i < CALLS; i++)
        assert_non_null(block_caller(allocate, 0));
    no_losses();
    assert_int_equal(calls_in_histograms(rig.process), CALLS);
    assert_int_equal(calls_of(rig.process), 2 * CALLS); /* of memory, and of time */
    assert_int_equal((uintptr_t)block_caller(allocate, 5), 5);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_INNER], 1);
    assert_int_equal(calls_in_histograms(rig.process), CALLS + 1);
}

/* --- agent_latency.c --- */

static void test_histogram(void **state)
{
    (void)state;
    for (int i = 0; i < CALLS; i++)
        assert_int_equal(i % 2 ? caller(0) + 1 : second_caller(0), 6);
    assert_int_equal(rig.process->latency_count, 1); /* of a function, whoever calls */
    const struct wire_agent_latency *latency = &latencies(rig.process)[1];
    assert_int_equal(latency->function, (uint64_t)timed);
    assert_int_equal(calls_in_histograms(rig.process), CALLS);
    uint64_t least = ~latency->least, low = 0, high = 0;
    assert_true(least > 0 && least <= latency->most);
    assert_int_not_equal(latency->buckets[wire_latency_bucket(least)], 0);
    assert_int_not_equal(latency->buckets[wire_latency_bucket(latency->most)], 0);
    for (uint32_t b = 0; b < WIRE_LATENCY_BUCKETS; b++) {
        low += latency->buckets[b] * wire_latency_low(b);
        high += latency->buckets[b] * wire_latency_low(b + 1);
    }
    assert_true(low <= latency->sum && latency->sum < high);
    assert_true(latency->sum >= agent_rig_read(&rig, rig.process, 0, 0).total);
    no_losses();
}

static void test_no_room(void **state)
{
    (void)state;
    rig.process->latency_count = WIRE_AGENT_LATENCIES - 1;
    assert_int_equal(caller(0), 5);
    assert_int_equal(caller(0), 5);
    assert_int_equal(calls_of(rig.process), 2);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_NO_HISTOGRAM], 2);
}

static void *call_often(void *unused)
{
    for (int i = 0; i < CALLS * 20; i++)
        caller(0);
    return unused;
}

static void run_threads(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(calls_of(rig.process), THREADS * CALLS * 20);
    assert_int_equal(calls_in_histograms(rig.process), THREADS * CALLS * 20);
    no_losses();
}

static void test_threads(void **state)
{
    (void)state;
    run_threads();
    assert_in_range(rig.process->latency_count, 1, THREADS);
}

/* Those that come late share one, and so do all when there is little room. */
static void test_threads_share(void **state)
{
    (void)state;
    rig.process->group_count = 1000;
    run_threads();
    assert_int_equal(used_histograms(rig.process), 1);
    assert_int_equal(latencies(rig.process)[1].group, 0);
}

static pthread_barrier_t all_there;

static void *call_together(void *unused)
{
    pthread_barrier_wait(&all_there);
    for (int i = 0; i < CALLS; i++)
        caller(0);
    pthread_barrier_wait(&all_there);
    return unused;
}

/* More threads at once than have histograms of their own: these have, and the others share one. */
static void test_more_threads_than_groups(void **state)
{
    (void)state;
    pthread_t threads[MANY_THREADS];
    assert_int_equal(pthread_barrier_init(&all_there, NULL, MANY_THREADS), 0);
    for (int i = 0; i < MANY_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call_together, NULL), 0);
    for (int i = 0; i < MANY_THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    pthread_barrier_destroy(&all_there);
    assert_int_equal(calls_of(rig.process), MANY_THREADS * CALLS);
    assert_int_equal(calls_in_histograms(rig.process), MANY_THREADS * CALLS);
    assert_int_equal(used_histograms(rig.process), GROUPS + 1);
    no_losses();
}

static void test_crowded(void **state)
{
    (void)state;
    rig.process->latency_count = WIRE_AGENT_LATENCIES / 2;
    run_threads();
    assert_int_equal(used_histograms(rig.process), 1);
}

/* --- agent_call_rest.c --- */

enum { HANDLERS = 400, CALLS_OF_HANDLER = 300 };

static int handlers_left;
static bool handlers_wait;

/* Some hundred calls; with `handlers_wait` the next signal is there when it ends. */
static void handle_one(int number)
{
    if (handlers_wait && handlers_left-- > 1)
        raise(number);
    for (int i = 0; i < CALLS_OF_HANDLER; i++)
        caller(0);
}

static void handle_many(bool wait)
{
    struct sigaction action = {.sa_handler = handle_one}, before;
    handlers_wait = wait;
    handlers_left = HANDLERS;
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    for (int i = 0; i < (wait ? 1 : HANDLERS); i++)
        raise(SIGUSR1);
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
}

/* Each handler ends where the next one begins: after so many calls the thread rests, and after a rest they
 * count again. */
static void test_a_thread_that_stands_still(void **state)
{
    (void)state;
    handle_many(true);
    uint64_t rested = rig.process->losses[WIRE_AGENT_LOSS_RESTED];
    assert_true(rested > HANDLERS * CALLS_OF_HANDLER / 2 && rested < HANDLERS * CALLS_OF_HANDLER);
    assert_true(calls_of(rig.process) > HANDLERS * CALLS_OF_HANDLER / 10);
    assert_int_equal(calls_of(rig.process) + rested, HANDLERS * CALLS_OF_HANDLER);
}

/* Nothing waits: what was interrupted gets on, though it is the same place each time. */
static void test_a_thread_that_gets_on(void **state)
{
    (void)state;
    handle_many(false);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_RESTED], 0);
    assert_int_equal(calls_of(rig.process), HANDLERS * CALLS_OF_HANDLER);
}

static void test_a_thread_that_may_not_ask(void **state)
{
    (void)state;
    rig.parameters->forbidden = WIRE_AGENT_CALL_PENDING;
    handle_many(true);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_RESTED], 0);
}

static void handle_shortly(int number)
{
    (void)number;
    caller(0);
}

/* A handler's stack was walked last; what the program calls behind it is known from before. */
static void test_a_thread_behind_its_handler(void **state)
{
    (void)state;
    enum { LATER_CALLS = 100000 };
    struct sigaction action = {.sa_handler = handle_shortly}, old;
    sigset_t waits, before;
    assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
    sigemptyset(&waits);
    sigaddset(&waits, SIGUSR2);
    assert_int_equal(sigprocmask(SIG_BLOCK, &waits, &before), 0);
    raise(SIGUSR2);
    for (volatile int i = 0; i < LATER_CALLS; i++) {
        caller(0);
        if (i == 10)
            raise(SIGUSR1);
    }
    const struct timespec at_once = {0, 0};
    assert_int_equal(sigtimedwait(&waits, NULL, &at_once), SIGUSR2);
    assert_int_equal(sigprocmask(SIG_SETMASK, &before, NULL), 0);
    assert_int_equal(sigaction(SIGUSR1, &old, NULL), 0);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_RESTED], 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_word_for_each_place),
        TEST(test_put_back),
        TEST(test_put_back_after_a_tail_call),
        TEST(test_put_back_while_leaving),
        TEST(test_put_back_inside),
        TEST(test_abandoned),
        TEST(test_abandoned_elsewhere),
        TEST(test_generated_caller),
        TEST(test_not_timed),
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
        TEST(test_histogram),
        TEST(test_no_room),
        TEST(test_threads),
        TEST(test_threads_share),
        TEST(test_more_threads_than_groups),
        TEST(test_crowded),
        TEST(test_a_thread_that_stands_still),
        TEST(test_a_thread_that_gets_on),
        TEST(test_a_thread_that_may_not_ask),
        TEST(test_a_thread_behind_its_handler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
