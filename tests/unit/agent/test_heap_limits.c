/* Where the agent's heap wrappers come to an end: deep and guarded stacks, full tables, modules that
 * change. */
#include "heap_rig.h"

#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent_rig.h"

/* --- limits --- */

static AWAY void *deeper(unsigned levels, size_t size)
{
    void *volatile block = levels == 0 ? heap_hooked_malloc(size) : deeper(levels - 1, size);
    return block;
}

static void test_deep_stacks(void **state)
{
    (void)state;
    heap_hooked_free(deeper(50, 10));
    assert_int_equal(heap_loss(WIRE_AGENT_LOSS_TOO_DEEP), 0);
    heap_hooked_free(deeper(200, 10));
    assert_int_equal(heap_loss(WIRE_AGENT_LOSS_TOO_DEEP), 1);
    assert_int_equal(heap_all().count, 2);
    heap_hooked_free(deeper(50, 10));
    assert_int_equal(heap_all().total, 30);
}

#define MANY_AT_ONCE 60000
#define FULL_RUNS    40

static size_t size_of(unsigned number)
{
    return number % 50 == 0 ? 5000 : 10 + number % 400;
}

/* One run on a small region: what is live by the figures, in bytes and blocks, and the bytes' variance.
 * Returns how many samples found no place. */
static uint64_t fill_tables(uint64_t seed, struct agent_rig_figures *figures)
{
    static void *blocks[MANY_AT_ONCE];
    uint64_t total = 0;
    agent_rig_end(&heap_rig);
    heap_begin(&(struct agent_rig_options){.memory = 1 << 20});
    heap_rig.control->sample_seed = seed;
    for (unsigned i = 0; i < MANY_AT_ONCE; i++) {
        blocks[i] = heap_site_1(size_of(i));
        total += size_of(i);
    }
    *figures = heap_all();
    assert_int_equal(figures->total, total);
    assert_int_equal(figures->count, MANY_AT_ONCE);
    assert_in_range(heap_rig.process->level, 1, WIRE_AGENT_LEVELS);
    uint64_t known = agent_rig_blocks(&heap_rig, heap_rig.process, NULL);
    assert_in_range(known, 4096, MANY_AT_ONCE - 1); /* how many fit is a matter of addresses */
    assert_int_equal(heap_loss(WIRE_AGENT_LOSS_SAMPLED) + heap_loss(WIRE_AGENT_LOSS_NO_BLOCK),
                     MANY_AT_ONCE - known);
    for (unsigned i = 0; i < MANY_AT_ONCE; i++)
        heap_hooked_free(blocks[i]);
    assert_int_equal(heap_all().live, 0);
    assert_int_equal(heap_all().live_count, 0);
    assert_int_equal(heap_rig.process->live + heap_rig.process->first_live, 0);
    assert_int_equal(heap_loss(WIRE_AGENT_LOSS_UNKNOWN_FREE), MANY_AT_ONCE - known);
    return heap_loss(WIRE_AGENT_LOSS_NO_BLOCK);
}

/* Past the ceiling totals stay exact. What is live is estimated: each time, and in the mean of several,
 * within five of the deviations that it states; and all of it goes away again. */
static void test_full_tables(void **state)
{
    (void)state;
    double truth = 0, off = 0, variance = 0, blocks = 0;
    uint64_t lost = 0;
    for (unsigned i = 0; i < MANY_AT_ONCE; i++)
        truth += (double)size_of(i);
    for (uint64_t seed = 1; seed <= FULL_RUNS; seed++) {
        struct agent_rig_figures figures;
        lost += fill_tables(seed, &figures);
        double one = (double)figures.live - truth;
        assert_true(figures.variance > 0);
        assert_true(one * one <= 25 * figures.variance);
        off += one;
        variance += figures.variance;
        blocks += (double)figures.live_count / FULL_RUNS;
    }
    assert_true(off * off <= 25 * variance);
    assert_true(variance < truth * truth / 400 * FULL_RUNS); /* less than 5 % in each */
    assert_in_range(blocks, 0.95 * MANY_AT_ONCE, 1.05 * MANY_AT_ONCE);
    assert_true(lost < FULL_RUNS); /* or it would be biased */
}

/* realloc that fails gives back what a sample stood for. */
static void test_reallocation_past_the_ceiling(void **state)
{
    (void)state;
    agent_rig_end(&heap_rig);
    heap_begin(&(struct agent_rig_options){.memory = 1 << 20});
    heap_rig.process->level = 1;
    void *blocks[400];
    for (unsigned i = 0; i < 400; i++)
        blocks[i] = heap_site_0(300);
    uint64_t live = heap_all().live, live_count = heap_all().live_count;
    assert_true(live > 0);
    size_t volatile most = PTRDIFF_MAX - 4096;
    for (unsigned i = 0; i < 400; i++)
        assert_null(heap_hooked_realloc(blocks[i], most));
    assert_int_equal(heap_all().live, live);
    assert_int_equal(heap_all().live_count, live_count);
    assert_int_equal(heap_all().total, 400 * 300);
    for (unsigned i = 0; i < 400; i++)
        heap_hooked_free(blocks[i]);
    assert_int_equal(heap_all().live, 0);
    assert_int_equal(heap_all().live_count, 0);
}

/* Each bit of `path` chooses another way: 2^levels stacks, more nodes than fit. */
static AWAY void *wander_b(unsigned path, unsigned levels);
static AWAY void *wander_a(unsigned path, unsigned levels)
{
    void *volatile block = levels == 0 ? heap_hooked_malloc(1)
                           : path & 1  ? wander_a(path >> 1, levels - 1)
                                       : wander_b(path >> 1, levels - 1);
    return block;
}
static AWAY void *wander_b(unsigned path, unsigned levels)
{
    void *volatile block = levels == 0 ? heap_hooked_malloc(1)
                           : path & 1  ? wander_a(path >> 1, levels - 1)
                                       : wander_b(path >> 1, levels - 1);
    return block;
}

static void wander_everywhere(unsigned levels)
{
    for (unsigned i = 0; i < 1u << levels; i++)
        heap_hooked_free(wander_a(i, levels));
}

static void test_many_stacks(void **state)
{
    (void)state;
    uint32_t nodes = 0;
    for (unsigned round = 1; round <= 2; round++) {
        wander_everywhere(12);
        assert_int_equal(heap_all().count, round * 4096);
        assert_int_equal(heap_loss(WIRE_AGENT_LOSS_NO_NODE), 0);
        assert_true(round == 1 || heap_rig.process->node_count == nodes); /* all of them were found again */
        nodes = heap_rig.process->node_count;
        assert_in_range(nodes, 4096 * 3 - 2, 4096 * 3 + 30);
    }
    agent_rig_end(&heap_rig);
    heap_begin(&(struct agent_rig_options){.memory = 1 << 20});
    wander_everywhere(13);
    assert_int_not_equal(heap_loss(WIRE_AGENT_LOSS_NO_NODE) + heap_loss(WIRE_AGENT_LOSS_NO_CELL), 0);
    assert_int_equal(heap_all().count + heap_loss(WIRE_AGENT_LOSS_NO_CELL), 8192);
}

static void test_modules_change(void **state)
{
    (void)state;
    heap_hooked_free(heap_site_0(1));
    agent_rig_modules(&heap_rig, 500);
    heap_hooked_free(heap_site_0(1));
    agent_rig_modules(&heap_rig, 900);
    heap_hooked_free(heap_site_0(1));
    const struct wire_agent_node *nodes = agent_rig_nodes(&heap_rig, heap_rig.process);
    unsigned leaves = 0;
    for (uint32_t i = 1; i <= heap_rig.process->node_count; i++)
        leaves += nodes[i].cell != 0;
    assert_int_equal(leaves, 3);
    assert_int_equal(heap_all().count, 3);
}

/* Tally, publishing all the time: each table is of one cookie, which is its generation. */
static atomic_bool published_enough;
static void *publish_tables(void *argument)
{
    (void)argument;
    while (!atomic_load(&published_enough)) {
        uint32_t next = heap_rig.process->generation + 1;
        struct wire_agent_module *table =
            (void *)((uint8_t *)heap_rig.process + heap_rig.layout.modules[next & 1]);
        for (uint32_t i = WIRE_AGENT_MODULES; i-- > 0;) { /* towards who copies */
            __atomic_store_n(&table[i].cookie, next, __ATOMIC_RELAXED);
            for (volatile unsigned j = 0; j < 5; j++)
                ; /* as long as it takes to copy it a few times */
        }
        heap_rig.process->module_count[next & 1] = WIRE_AGENT_MODULES;
        __atomic_store_n(&heap_rig.process->generation, next, __ATOMIC_RELEASE);
        usleep(next % 2 == 0 ? 50 : 0); /* the other half: the older table is written again at once */
    }
    return NULL;
}

/* The whole of its table is of the generation that it says. */
static void check_table(const struct wire_agent_process *child)
{
    const struct wire_agent_module *table =
        (const void *)((const uint8_t *)child + heap_rig.layout.modules[child->generation & 1]);
    assert_int_equal(child->state, WIRE_AGENT_RUNNING);
    for (uint32_t i = 0; child->generation != 0 && i < WIRE_AGENT_MODULES; i++)
        assert_int_equal(table[i].cookie, child->generation);
}

/* Children of forks copy their parent's table while it changes. */
static void test_modules_change_in_a_fork(void **state)
{
    (void)state;
    pthread_t publisher;
    unsigned copied = 0;
    atomic_store(&published_enough, false);
    heap_rig.process->silent = 1;
    heap_rig.control->flags = WIRE_AGENT_FOLLOW;
    assert_int_equal(pthread_create(&publisher, NULL, publish_tables, NULL), 0);
    while (__atomic_load_n(&heap_rig.process->generation, __ATOMIC_ACQUIRE) < 4)
        usleep(100); /* the rig's own table is gone */
    for (unsigned i = 0; i < 1000; i++) {
        struct wire_agent_process *child = agent_rig_process(&heap_rig, 1);
        heap_rig.control->next_region = 1;
        memset(child, 0, heap_rig.layout.returns);
        pid_t pid = fork();
        if (pid == 0) {
            heap_hooked_free(malloc(1)); /* its first hook */
            _exit(0);
        }
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        check_table(child);
        copied += child->generation != 0;
    }
    atomic_store(&published_enough, true);
    pthread_join(publisher, NULL);
    assert_true(copied > 500);
}

/* Code without rows that has some number in rbp: jit_call(rbp, hooked malloc). */
typedef void jit_call(uint64_t fp, malloc_function *function);
static jit_call *make_jit(void)
{
    static const uint8_t code[] = {0x55,                   /* push %rbp */
                                   0x48, 0x89, 0xfd,       /* mov %rdi,%rbp */
                                   0xbf, 24,   0,    0, 0, /* mov $24,%edi */
                                   0xff, 0xd6,             /* call *%rsi */
                                   0x5d, 0xc3};            /* pop %rbp; ret */
    uint8_t *at = heap_rig.code + heap_rig.code_used;
    memcpy(at, code, sizeof code);
    heap_rig.code_used += 64;
    return (jit_call *)(void *)at;
}

static ucontext_t main_context, coroutine_context;
static jit_call *jit;
static uint64_t jit_fp;
static void coroutine(void)
{
    jit(jit_fp, heap_hooked_malloc);
}

static void run_on(uint8_t *stack, size_t size, uint64_t fp)
{
    jit_fp = fp;
    assert_int_equal(getcontext(&coroutine_context), 0);
    coroutine_context.uc_stack.ss_sp = stack;
    coroutine_context.uc_stack.ss_size = size;
    coroutine_context.uc_link = &main_context;
    makecontext(&coroutine_context, coroutine, 0);
    assert_int_equal(swapcontext(&main_context, &coroutine_context), 0);
}

/* Two stacks of one thread with a guard page between them, and a frame that leads into that: nothing is read
 * there. */
static void test_stacks_with_a_guard(void **state)
{
    (void)state;
    enum { STACK = 65536, GUARD = 4096 };
    uint8_t *low = mmap(NULL, 2 * STACK + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(low != MAP_FAILED);
    uint8_t *guard = low + STACK, *high = guard + GUARD;
    assert_int_equal(mprotect(guard, GUARD, PROT_NONE), 0);
    jit = make_jit();
    run_on(high, STACK, (uint64_t)high + STACK - 64); /* the window reaches the end of this stack */
    run_on(low, STACK, (uint64_t)guard + 64);
    run_on(high, STACK, (uint64_t)guard + GUARD - 8);
    assert_int_equal(heap_all().count, 3);
    munmap(low, 2 * STACK + GUARD);
}

static void test_without_modules(void **state)
{
    (void)state;
    agent_rig_end(&heap_rig);
    heap_begin(&(struct agent_rig_options){.no_rows = true});
    heap_hooked_free(heap_site_0(1));
    assert_int_equal(heap_all().count, 1);
    assert_int_equal(heap_loss(WIRE_AGENT_LOSS_NO_MAPPING), 1);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, heap_set_up, heap_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_deep_stacks),     TEST(test_full_tables),         TEST(test_reallocation_past_the_ceiling),
        TEST(test_many_stacks),     TEST(test_modules_change),      TEST(test_modules_change_in_a_fork),
        TEST(test_without_modules), TEST(test_stacks_with_a_guard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
