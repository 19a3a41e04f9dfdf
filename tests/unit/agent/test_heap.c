/* The agent's heap wrappers, called in this process: every figure against a model that the test keeps
 * itself. */
#include "heap_rig.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>

#include <cmocka.h>

#include "agent_rig.h"

/* What is below site n: its code is shorter than that, and the three lie in some order. */
static struct agent_rig_figures of_site(unsigned number)
{
    uint64_t low = (uint64_t)heap_sites[number], high = low + 4096;
    for (unsigned i = 0; i < SITES; i++)
        if ((uint64_t)heap_sites[i] > low && (uint64_t)heap_sites[i] < high)
            high = (uint64_t)heap_sites[i];
    return agent_rig_read(&heap_rig, heap_rig.process, low, high < low + 512 ? high : low + 512);
}

static void test_counts(void **state)
{
    (void)state;
    void *blocks[5];
    for (unsigned i = 0; i < 5; i++)
        blocks[i] = heap_site_0(100 + i);
    void *other = heap_site_1(1000);
    heap_hooked_free(blocks[1]);
    heap_hooked_free(other);
    heap_hooked_free(NULL);
    struct agent_rig_figures first = of_site(0), second = of_site(1), sum = heap_all();
    assert_int_equal(first.total, 510);
    assert_int_equal(first.count, 5);
    assert_int_equal(first.live, 409);
    assert_int_equal(first.live_count, 4);
    assert_int_equal(first.largest, 104);
    assert_int_equal(first.peak, 510);
    assert_int_equal(second.total, 1000);
    assert_int_equal(second.live_count, 0);
    assert_int_equal(second.peak, 1000);
    assert_int_equal(sum.total, 1510);
    assert_int_equal(heap_rig.process->peak, 1510);
    assert_int_equal(heap_rig.process->live + heap_rig.process->first_live, 409);
    assert_int_equal(of_site(2).count, 0);
    for (unsigned i = 0; i < WIRE_AGENT_LOSSES; i++)
        assert_int_equal(heap_loss(i), 0);
    for (unsigned i = 0; i < 5; i++)
        if (i != 1)
            heap_hooked_free(blocks[i]);
    assert_int_equal(heap_all().live_count, 0);
    assert_int_equal(agent_rig_blocks(&heap_rig, heap_rig.process, NULL), 0);
}

/* The stack below the site is this function, and then its callers up to the start of the program. */
static void test_stacks_are_whole(void **state)
{
    (void)state;
    heap_hooked_free(heap_site_2(1));
    const struct wire_agent_node *nodes = agent_rig_nodes(&heap_rig, heap_rig.process);
    unsigned depth = 0, last = 0;
    for (uint32_t i = 1; i <= heap_rig.process->node_count; i++)
        if (nodes[i].cell != 0)
            last = i;
    assert_int_not_equal(last, 0);
    assert_true(nodes[last].pc > (uint64_t)heap_site_2 && nodes[last].pc < (uint64_t)heap_site_2 + 512);
    uint32_t parent = nodes[last].parent;
    assert_true(nodes[parent].pc > (uint64_t)test_stacks_are_whole &&
                nodes[parent].pc < (uint64_t)test_stacks_are_whole + 2048);
    for (uint32_t i = last; nodes[i].parent != 0; i = nodes[i].parent, depth++) {
        assert_true(nodes[i].cookie >= 100);
        assert_int_equal(nodes[i].flags, 0);
        assert_int_equal(nodes[i].ready, 1);
    }
    assert_in_range(depth, 6, 40); /* site, test, cmocka, main, libc's start, _start */
}

/* --- the model --- */

struct model {
    struct {
        void *block;
        size_t size;
        unsigned site;
    } live[512];
    uint64_t total[SITES], count[SITES], bytes[SITES], blocks[SITES], max[SITES], at_peak[SITES], temporary,
        sum, peak;
    void *last;
};

static void model_add(struct model *model, unsigned slot, void *block, size_t size, unsigned site)
{
    assert_non_null(block);
    model->live[slot].block = block;
    model->live[slot].size = size;
    model->live[slot].site = site;
    model->total[site] += size;
    model->count[site]++;
    model->blocks[site]++;
    model->bytes[site] += size;
    model->max[site] = model->bytes[site] > model->max[site] ? model->bytes[site] : model->max[site];
    model->sum += size;
    model->last = block;
    if (model->sum > model->peak) {
        model->peak = model->sum;
        memcpy(model->at_peak, model->bytes, sizeof model->at_peak);
    }
}

static void model_remove(struct model *model, unsigned slot)
{
    model->temporary += model->live[slot].block == model->last;
    model->bytes[model->live[slot].site] -= model->live[slot].size;
    model->blocks[model->live[slot].site]--;
    model->sum -= model->live[slot].size;
    model->live[slot].block = NULL;
}

static uint32_t random_state = 12345;
static uint32_t draw(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

static void compare(const struct model *model)
{
    uint64_t bytes;
    for (unsigned i = 0; i < SITES; i++) {
        struct agent_rig_figures figures = of_site(i);
        assert_int_equal(figures.total, model->total[i]);
        assert_int_equal(figures.count, model->count[i]);
        assert_int_equal(figures.live, model->bytes[i]);
        assert_int_equal(figures.live_count, model->blocks[i]);
        assert_int_equal(figures.max, model->max[i]);
        assert_int_equal(figures.peak, model->at_peak[i]);
    }
    assert_int_equal(heap_all().temporary, model->temporary);
    assert_int_equal(heap_rig.process->peak, model->peak);
    assert_int_equal(heap_rig.process->live + heap_rig.process->first_live, model->sum);
    agent_rig_blocks(&heap_rig, heap_rig.process, &bytes);
    assert_int_equal(bytes, model->sum);
}

static void test_random_operations(void **state)
{
    (void)state;
    static struct model model;
    memset(&model, 0, sizeof model);
    for (unsigned i = 0; i < 60000; i++) {
        unsigned slot = draw() % (i < 30000 ? 512 : 200), site = draw() % SITES;
        size_t size = draw() % 16 == 0 ? draw() % 200000 : draw() % 300;
        if (model.live[slot].block != NULL) {
            void *block = model.live[slot].block;
            model_remove(&model, slot);
            heap_hooked_free(block);
        } else {
            model_add(&model, slot, heap_sites[site](size), size, site);
        }
        if (i % 10007 == 0)
            compare(&model);
    }
    compare(&model);
    for (unsigned i = 0; i < 512; i++)
        heap_hooked_free(model.live[i].block);
    assert_int_equal(heap_all().live_count, 0);
    assert_int_equal(heap_loss(WIRE_AGENT_LOSS_UNKNOWN_FREE), 0);
}

static void test_other_shapes(void **state)
{
    (void)state;
    void *posix = NULL;
    void *blocks[] = {heap_hooked_calloc(7, 11), heap_hooked_aligned(64, 100),
                      heap_hooked_reallocarray(NULL, 5, 6), heap_hooked_realloc(NULL, 13)};
    errno = 77;
    assert_int_equal(heap_hooked_posix(&posix, 128, 17), 0);
    assert_int_equal((uint64_t)posix % 128, 0);
    assert_int_equal(errno, 77);
    assert_int_equal(heap_all().total, 77 + 100 + 30 + 13 + 17);
    assert_int_equal(heap_all().count, 5);
    for (unsigned i = 0; i < 7; i++)
        assert_int_equal(((uint64_t *)blocks[0])[i], 0);
    assert_int_equal(heap_hooked_posix(&posix, 3, 17), EINVAL); /* refused: nothing is counted */
    assert_int_equal(heap_all().count, 5);
    for (unsigned i = 0; i < 4; i++)
        heap_hooked_free(blocks[i]);
    heap_hooked_free(posix);
    assert_int_equal(heap_all().live, 0);
}

static void test_reallocation(void **state)
{
    (void)state;
    char *block = heap_hooked_malloc(100);
    memset(block, 'x', 100);
    block = heap_hooked_realloc(block, 100000);
    assert_int_equal(block[99], 'x');
    assert_int_equal(heap_all().total, 100100);
    assert_int_equal(heap_all().count, 2);
    assert_int_equal(heap_all().live, 100000);
    assert_int_equal(heap_all().live_count, 1);
    assert_int_equal(heap_all().temporary, 1);
    size_t volatile most = PTRDIFF_MAX - 4096;
    errno = 0;
    assert_null(heap_hooked_realloc(block, most)); /* fails: the block stays */
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(block[99], 'x');
    size_t volatile many = SIZE_MAX / 2;
    assert_null(heap_hooked_reallocarray(block, many, 3));
    assert_int_equal(heap_all().live, 100000);
    assert_int_equal(heap_all().live_count, 1);
    assert_int_equal(heap_all().total, 100100);
    assert_int_equal(heap_all().temporary, 1);
    assert_int_equal(heap_rig.process->live + heap_rig.process->first_live, 100000);
    assert_int_equal(heap_rig.process->peak, 100000);
    assert_int_equal(heap_all().peak, 100000);
    assert_null(heap_hooked_realloc(block, 0)); /* as glibc does it: released */
    assert_int_equal(heap_all().live_count, 0);
    assert_int_equal(agent_rig_blocks(&heap_rig, heap_rig.process, NULL), 0);
}

/* 300,000 blocks at once: thirteen tables, and none is lost. */
static void test_many_blocks(void **state)
{
    (void)state;
    enum { MANY = 300000 };
    static void *blocks[MANY];
    uint64_t bytes;
    for (unsigned i = 0; i < MANY; i++)
        blocks[i] = heap_site_0(i % 100);
    assert_int_equal(agent_rig_blocks(&heap_rig, heap_rig.process, &bytes), MANY);
    assert_int_equal(heap_all().live, bytes);
    assert_in_range(heap_rig.process->block_used / MANY, 16, 64); /* bytes a block */
    for (unsigned i = 0; i < MANY; i++)
        heap_hooked_free(blocks[(uint64_t)i * 7919 % MANY]);
    assert_int_equal(heap_all().live_count, 0);
    assert_int_equal(agent_rig_blocks(&heap_rig, heap_rig.process, NULL), 0);
    assert_int_equal(heap_loss(WIRE_AGENT_LOSS_UNKNOWN_FREE), 0);
}

/* --- threads --- */

#define THREADS 8
static void *volatile mailbox[64];
static pthread_barrier_t together;

static void *worker(void *argument)
{
    uint32_t own = (uint32_t)(uintptr_t)argument * 7919 + 1;
    uint64_t total = 0;
    heap_hooked_free(NULL);
    pthread_barrier_wait(&together); /* all have their records */
    for (unsigned i = 0; i < 20000; i++) {
        own = own * 1664525u + 1013904223u;
        size_t size = own >> 8 & 1023;
        void *block = heap_site_0(size);
        total += size;
        block = __atomic_exchange_n(&mailbox[own >> 20 & 63], block, __ATOMIC_ACQ_REL);
        if (block != NULL)
            heap_hooked_free(block); /* most often another thread's */
    }
    return (void *)total;
}

static void run_threads(unsigned count, uint64_t *total)
{
    pthread_t threads[96];
    void *result;
    pthread_barrier_init(&together, NULL, count);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, worker, (void *)(uintptr_t)i), 0);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(pthread_join(threads[i], &result), 0);
        *total += (uint64_t)result;
    }
    pthread_barrier_destroy(&together);
}

static void check_threads(unsigned count)
{
    uint64_t total = 0, bytes;
    for (unsigned i = 0; i < 64; i++)
        mailbox[i] = NULL;
    run_threads(count, &total);
    uint64_t blocks = agent_rig_blocks(&heap_rig, heap_rig.process, &bytes);
    assert_int_equal(heap_all().total, total);
    assert_int_equal(heap_all().count, (uint64_t)count * 20000);
    assert_int_equal(heap_all().live, bytes);
    assert_int_equal(heap_all().live_count, blocks);
    assert_int_equal(heap_loss(WIRE_AGENT_LOSS_UNKNOWN_FREE), 0);
    for (unsigned i = 0; i < 64; i++)
        heap_hooked_free(mailbox[i]);
    assert_int_equal(heap_all().live, 0);
    assert_int_equal(agent_rig_blocks(&heap_rig, heap_rig.process, NULL), 0);
}

static void test_threads(void **state)
{
    (void)state;
    check_threads(THREADS);
    /* At most 64 blocks of 1 KiB and one more in each thread's hands; the maximum is known to 1/64 for each
     * thread. */
    assert_in_range(heap_rig.process->peak, 15000, (THREADS + 64) * 1024);
}

static void test_more_threads_than_groups(void **state)
{
    (void)state;
    check_threads(90);
    assert_in_range(heap_rig.process->thread_count, 65,
                    91); /* one that ended early may have left its record */
    assert_int_equal(heap_rig.process->group_count, heap_rig.process->thread_count);
}

/* --- sizes and samples --- */

static size_t usable(void *block)
{
    (void)block;
    return 48;
}

static void test_overhead(void **state)
{
    (void)state;
    heap_rig.process->layers[0] = (struct wire_agent_layer){.start = (uint64_t)heap_hooked_malloc,
                                                            .end = (uint64_t)heap_hooked_malloc + 1,
                                                            .usable_size = (uint64_t)usable,
                                                            .header_bytes = 8};
    heap_rig.process->layer_count = 1;
    heap_rig.control->flags = WIRE_AGENT_INCLUDE;
    heap_hooked_free(heap_hooked_malloc(40)); /* nobody has said yet that these are all */
    assert_int_equal(heap_all().total, 0);
    heap_rig.process->layers_known = 1;
    heap_hooked_free(heap_hooked_malloc(40));
    assert_int_equal(heap_all().total, 56);
    heap_rig.control->flags = WIRE_AGENT_DELTA;
    heap_hooked_free(heap_hooked_malloc(40));
    assert_int_equal(heap_all().total, 56 + 16);
    assert_int_equal(heap_all().live, 0);
}

/* Sums of samples are within five of their own stated deviations of the truth, and the deviation is what it
 * must be. */
static void check_samples(uint64_t mean, size_t size, unsigned blocks)
{
    agent_rig_end(&heap_rig);
    heap_begin(&(struct agent_rig_options){.sample_bytes = mean});
    void *keep[64] = {NULL};
    for (unsigned i = 0; i < blocks; i++) {
        heap_hooked_free(keep[i % 64]);
        keep[i % 64] = heap_site_0(size);
    }
    struct agent_rig_figures sum = heap_all();
    double truth = (double)size * blocks, off = (double)sum.total - truth;
    assert_true(off * off <= 25 * sum.variance + truth * truth * 1e-8);
    double off_count = (double)sum.count / WIRE_AGENT_SCALE - blocks;
    double size_or_one = size != 0 ? (double)size : 1;
    assert_true(off_count * off_count * size_or_one * size_or_one <=
                25 * sum.variance + truth * truth * 1e-8 + 25 * (double)mean * blocks);
    for (unsigned i = 0; i < 64; i++)
        heap_hooked_free(keep[i]);
    assert_int_equal(heap_all().live, 0);
    assert_int_equal(heap_all().live_count, 0);
    assert_int_equal(heap_loss(WIRE_AGENT_LOSS_UNKNOWN_FREE), 0);
    if (size > 0 && size * 100 < mean) /* the variance of a Poisson sum: truth * mean */
        assert_in_range((uint64_t)(sum.variance / (truth * (double)mean) * 100), 50, 160);
}

static void test_samples(void **state)
{
    (void)state;
    check_samples(10000, 16, 200000);
    check_samples(10000, 90, 100000);
    check_samples(10000, 5000, 20000);
    check_samples(10000, 100000, 500);
    check_samples(10000, 1000000, 100);
    check_samples(524288, 100, 500000);
    check_samples(64, 0, 50000);
    check_samples(1, 24, 1000);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, heap_set_up, heap_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_counts),
        TEST(test_stacks_are_whole),
        TEST(test_random_operations),
        TEST(test_other_shapes),
        TEST(test_reallocation),
        TEST(test_many_blocks),
        TEST(test_threads),
        TEST(test_more_threads_than_groups),
        TEST(test_overhead),
        TEST(test_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
