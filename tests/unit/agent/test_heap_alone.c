/* The first thread's way of counting while it is alone, and what becomes of it when others come: its tables
 * of blocks, its peak, its temporary blocks. */
#include "heap_rig.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent_rig.h"

#define MANY 20000

static void *blocks[MANY];

static struct wire_agent_tables tables(void)
{
    return wire_agent_tables(heap_rig.process->block_tables);
}

static void run_thread(void *(*start)(void *), void *argument)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, start, argument), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void *release_half(void *argument)
{
    (void)argument;
    for (unsigned i = 0; i < MANY; i += 2)
        heap_hooked_free(blocks[i]);
    return NULL;
}

static void *fill_released_half(void *argument)
{
    (void)argument;
    for (unsigned i = 0; i < MANY; i += 2)
        blocks[i] = heap_site_1(50);
    return NULL;
}

/* Tables are the first thread's until another one inserts, and then as they were. */
static void test_tables_of_the_first_thread(void **state)
{
    (void)state;
    uint64_t bytes;
    for (unsigned i = 0; i < MANY; i++)
        blocks[i] = heap_site_0(100);
    uint32_t own = tables().count;
    assert_in_range(own, 5, 20);
    assert_int_equal(tables().shared, own); /* none */
    run_thread(release_half, NULL);         /* another thread takes out of them */
    assert_int_equal(tables().count, own);
    assert_int_equal(agent_rig_blocks(&heap_rig, heap_rig.process, &bytes), MANY / 2);
    assert_int_equal(bytes, MANY / 2 * 100);
    run_thread(fill_released_half, NULL); /* but does not put into them */
    assert_int_equal(tables().shared, own);
    assert_in_range(tables().count, own + 1, own + 2);
    heap_hooked_free(blocks[1]);
    blocks[1] = heap_site_0(100); /* the first thread finds that it is alone no more */
    assert_int_equal(tables().shared, 0);
    assert_int_equal(agent_rig_blocks(&heap_rig, heap_rig.process, &bytes), MANY);
    assert_int_equal(bytes, MANY / 2 * 150);
    assert_int_equal(heap_all().live, bytes);
    for (unsigned i = 0; i < MANY; i++)
        heap_hooked_free(blocks[i]);
    assert_int_equal(agent_rig_blocks(&heap_rig, heap_rig.process, NULL), 0);
    assert_int_equal(heap_all().live_count, 0);
    assert_int_equal(heap_loss(WIRE_AGENT_LOSS_UNKNOWN_FREE) + heap_loss(WIRE_AGENT_LOSS_NO_BLOCK), 0);
}

/* The largest table that fits is for all, so that a thread that comes late has a place. */
static void test_a_thread_that_comes_to_full_tables(void **state)
{
    (void)state;
    agent_rig_end(&heap_rig);
    heap_begin(&(struct agent_rig_options){.memory = 1 << 20});
    unsigned count = 0;
    while (tables().shared == tables().count && count < MANY)
        blocks[count++] = heap_site_0(16);
    assert_true(count > 0 && count < MANY);
    uint64_t end = wire_agent_table_before(tables().count + 1) * sizeof(struct wire_agent_bucket);
    assert_int_equal(tables().shared, tables().count - 1);
    assert_true(end > heap_rig.layout.block_bytes); /* no larger one fits */
    assert_int_equal(agent_rig_blocks(&heap_rig, heap_rig.process, NULL), count);
    for (unsigned i = 0; i < count; i++)
        heap_hooked_free(blocks[i]);
    run_thread(fill_released_half, NULL);
    assert_int_equal(heap_all().count, count + MANY / 2);
}

/* Where sizes say what the agent reads, no slot is taken without a locked instruction. */
static void test_tables_with_empty_pages(void **state)
{
    (void)state;
    agent_rig_end(&heap_rig);
    heap_begin(&(struct agent_rig_options){.flags = WIRE_AGENT_EMPTY});
    for (unsigned i = 0; i < MANY; i++)
        blocks[i] = heap_site_0(16);
    assert_in_range(tables().count, 5, 20);
    assert_int_equal(tables().shared, 0);
    for (unsigned i = 0; i < MANY; i++)
        heap_hooked_free(blocks[i]);
}

/* A thread that may use no table because all are the first thread's says nothing about how full they are. */
static void test_a_thread_that_has_no_table(void **state)
{
    (void)state;
    agent_rig_end(&heap_rig);
    heap_begin(&(struct agent_rig_options){.memory = 1 << 20});
    unsigned count = 0;
    while (tables().shared == tables().count && count < MANY / 2)
        blocks[count++] = heap_site_0(16);
    uint32_t word = heap_rig.process->block_tables;
    heap_rig.process->block_tables = wire_agent_tables_word(tables().count, tables().count);
    run_thread(fill_released_half, NULL);
    assert_int_equal(heap_rig.process->level, 0);
    assert_int_equal(heap_loss(WIRE_AGENT_LOSS_NO_BLOCK), MANY / 2);
    assert_int_equal(heap_all().count, count + MANY / 2);
    heap_rig.process->block_tables = word;
    run_thread(fill_released_half, NULL); /* and now they are full */
    assert_true(heap_rig.process->level > 0);
}

struct step {
    size_t size;
    void *block;
};

static void *allocate_step(void *argument)
{
    struct step *step = argument;
    step->block = heap_site_1(step->size);
    return NULL;
}

/* What the first thread held at its peak is known until others pass it, and then what they all hold. */
static void test_peak_of_one_then_two(void **state)
{
    (void)state;
    void *first = heap_site_0(100000), *second = heap_site_0(60000);
    heap_hooked_free(first);
    assert_int_equal(wire_agent_peak(heap_rig.process), 160000);
    struct step step = {50000, NULL};
    run_thread(allocate_step, &step); /* 110,000: below */
    assert_int_equal(wire_agent_peak(heap_rig.process), 160000);
    assert_int_equal(heap_all().peak, 160000);
    struct step large = {90000, NULL};
    run_thread(allocate_step, &large); /* 200,000 */
    assert_int_equal(wire_agent_peak(heap_rig.process), 200000);
    assert_int_equal(heap_all().peak, 200000);
    heap_hooked_free(large.block);
    void *third = heap_site_0(40000);
    assert_int_equal(heap_all().peak, 200000);
    void *fourth = heap_site_2(120000); /* 270,000 */
    assert_int_equal(wire_agent_peak(heap_rig.process), 270000);
    assert_int_equal(heap_all().peak, 270000);
    heap_hooked_free(second);
    heap_hooked_free(third);
    heap_hooked_free(fourth);
    heap_hooked_free(step.block);
    assert_int_equal(heap_all().live, 0);
    assert_int_equal(heap_all().peak, 270000);
}

/* --- temporary blocks --- */

static uint8_t only_place[64];

static void *allocate_in_place(size_t size)
{
    (void)size;
    return only_place;
}
static void release_nothing(void *block)
{
    (void)block;
}

static malloc_function *place_malloc;
static free_function *place_free;

static void *replace_block(void *argument)
{
    (void)argument;
    place_free(only_place);
    place_malloc(30);
    return NULL;
}

/* A thread's last allocation is what lies there if it is still the same block, and not another thread's at
 * the same address. */
static void test_temporary(void **state)
{
    (void)state;
    place_malloc =
        (malloc_function *)agent_rig_hook(&heap_rig, "agent_entry_malloc", (void *)allocate_in_place);
    place_free = (free_function *)agent_rig_hook(&heap_rig, "agent_entry_free", (void *)release_nothing);
    place_malloc(10);
    place_free(only_place);
    assert_int_equal(heap_all().temporary, 1);
    place_malloc(20);
    run_thread(replace_block, NULL);
    assert_int_equal(heap_all().temporary, 1);
    place_free(only_place);
    assert_int_equal(heap_all().temporary, 1);
    assert_int_equal(heap_all().live_count, 0);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, heap_set_up, heap_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_tables_of_the_first_thread), TEST(test_a_thread_that_comes_to_full_tables),
        TEST(test_tables_with_empty_pages),    TEST(test_a_thread_that_has_no_table),
        TEST(test_peak_of_one_then_two),       TEST(test_temporary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
