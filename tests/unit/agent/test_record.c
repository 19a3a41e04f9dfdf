/* Records of threads (agent_record.c): those of threads that have ended serve others, and nobody else's do. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent_rig.h"

enum { STACK = 65536, MANY = 600, LIVING = 100, BLOCKS = 20, FEW = 40 };

typedef void *malloc_function(size_t size);
typedef void free_function(void *block);

static struct agent_rig rig;
static malloc_function *hooked_malloc;
static free_function *hooked_free;

static int set_up(void **state)
{
    (void)state;
    agent_rig_begin(&rig, &(struct agent_rig_options){.small = true});
    hooked_malloc = (malloc_function *)agent_rig_hook(&rig, "agent_entry_malloc", (void *)malloc);
    hooked_free = (free_function *)agent_rig_hook(&rig, "agent_entry_free", (void *)free);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    agent_rig_end(&rig);
    return 0;
}

static void check_counts(uint64_t blocks)
{
    struct agent_rig_figures all = agent_rig_read(&rig, rig.process, 0, 0);
    assert_int_equal(all.count, blocks);
    assert_int_equal(all.live_count, 0);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_NO_RECORD], 0);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_INTERRUPTED], 0);
    assert_int_equal(rig.process->unrecorded, 0);
}

static void *work(void *argument)
{
    void *blocks[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = hooked_malloc(i + 1);
    for (unsigned i = 0; i < BLOCKS; i++)
        hooked_free(blocks[i]);
    return argument;
}

static void run_on(void *stack)
{
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    assert_int_equal(pthread_attr_setstack(&attributes, stack, STACK), 0);
    assert_int_equal(pthread_create(&thread, &attributes, work, NULL), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
}

static void *make_stacks(void)
{
    void *stacks =
        mmap(NULL, (size_t)MANY * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(stacks, MAP_FAILED);
    return stacks;
}

/* One thread after the other, none with the control block of another. */
static void test_one_after_the_other(void **state)
{
    (void)state;
    uint8_t *stacks = make_stacks();
    for (unsigned i = 0; i < MANY; i++)
        run_on(stacks + (size_t)i * STACK);
    munmap(stacks, (size_t)MANY * STACK);
    check_counts(MANY * BLOCKS);
    assert_in_range(rig.process->thread_count, 1, 4);
}

/* The same, and nothing is left of their stacks. */
static void test_stacks_that_go(void **state)
{
    (void)state;
    uint8_t *stacks = make_stacks();
    for (unsigned i = 0; i < MANY; i++) {
        run_on(stacks + (size_t)i * STACK);
        munmap(stacks + (size_t)i * STACK, STACK);
    }
    check_counts(MANY * BLOCKS);
    assert_in_range(rig.process->thread_count, 1, 4);
}

static pthread_barrier_t together;

static void *live(void *argument)
{
    work(argument);
    pthread_barrier_wait(&together);
    pthread_barrier_wait(&together);
    return work(argument);
}

static uint64_t keys_of(uint64_t *keys)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < rig.process->thread_count && count < LIVING + FEW; i++)
        keys[count++] = agent_rig_thread(&rig, i)->key;
    return count;
}

/* Those that live keep theirs, whoever comes and goes. */
static void test_who_lives_keeps_it(void **state)
{
    (void)state;
    pthread_t threads[LIVING];
    uint64_t before[LIVING + FEW], after[LIVING + FEW];
    uint8_t *stacks = make_stacks();
    pthread_barrier_init(&together, NULL, LIVING + 1);
    for (unsigned i = 0; i < LIVING; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, live, NULL), 0);
    pthread_barrier_wait(&together);
    assert_int_equal(keys_of(before), LIVING);
    for (unsigned i = 0; i < MANY; i++)
        run_on(stacks + (size_t)i * STACK);
    assert_in_range(keys_of(after), LIVING + 1, LIVING + FEW);
    for (unsigned i = 0; i < LIVING; i++)
        assert_int_equal(before[i], after[i]);
    pthread_barrier_wait(&together);
    for (unsigned i = 0; i < LIVING; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&together);
    munmap(stacks, (size_t)MANY * STACK);
    check_counts((MANY + 2 * LIVING) * BLOCKS);
}

static void *come_and_go(void *argument)
{
    for (unsigned i = 0; i < MANY; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, NULL) == 0)
            pthread_join(thread, NULL);
        work(NULL);
    }
    return argument;
}

/* Several at once make threads, whose control blocks the C library uses again while records are taken. */
static void test_at_once(void **state)
{
    (void)state;
    pthread_t makers[8];
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&makers[i], NULL, come_and_go, NULL), 0);
    for (unsigned i = 0; i < 8; i++)
        pthread_join(makers[i], NULL);
    check_counts(8 * MANY * 2 * BLOCKS);
    assert_in_range(rig.process->thread_count, 8, FEW);
}

/* Words that are of a region with more records, as a child's might be: that of this thread, and one of another
 * where this one's is to be. */
static void test_places_of_more_records(void **state)
{
    enum { BEYOND = 5000 };
    uint64_t *places = (void *)((uint8_t *)rig.process + WIRE_AGENT_PLACES_AT), key = 0;
    for (unsigned i = 0; i < 2; i++) {
        work(NULL);
        for (unsigned k = 0; k < WIRE_AGENT_PLACES; k++)
            if (places[k] != 0) {
                key = places[k] >> 16;
                places[k] = wire_agent_place_word(i == 0 ? key : key + 64, BEYOND);
            }
        work(NULL);
        check_counts(2 * BLOCKS);
        assert_int_equal(rig.process->thread_count, 2);
        assert_int_equal(agent_rig_thread(&rig, 1)->key, key);
        tear_down(state);
        set_up(state);
    }
}

static void *have_the_record(void *argument)
{
    work(argument);
    pthread_barrier_wait(&together);
    pthread_barrier_wait(&together);
    return argument;
}

static uint32_t inside;

static void *look_inside(size_t size)
{
    inside = rig.process->unrecorded;
    return malloc(size);
}

/* Who gets no record looks for one now and then, not at each event; and finds it when there is one. */
static void test_no_record(void **state)
{
    enum { ROUNDS = 50, EVENTS = ROUNDS * 2 * BLOCKS, PAGE = 4096 };
    (void)state;
    struct wire_agent_place place = wire_agent_place(rig.control, &rig.layout, WIRE_AGENT_PART_THREADS, 0);
    void *behind = (void *)(rig.parameters->control + place.address + WIRE_AGENT_THREAD_BYTES);
    assert_ptr_equal(mmap(behind, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
                     behind);
    pthread_t owner;
    pthread_barrier_init(&together, NULL, 2);
    assert_int_equal(pthread_create(&owner, NULL, have_the_record, NULL), 0);
    pthread_barrier_wait(&together);
    uint32_t looked = rig.parameters->looked;
    for (unsigned i = 0; i < ROUNDS; i++)
        work(NULL);
    assert_int_equal(rig.process->losses[WIRE_AGENT_LOSS_NO_RECORD], EVENTS);
    assert_in_range(rig.parameters->looked - looked, 2, EVENTS / 128);
    malloc_function *looking =
        (malloc_function *)agent_rig_hook(&rig, "agent_entry_malloc", (void *)look_inside);
    assert_int_equal(rig.process->unrecorded, 0);
    hooked_free(looking(1)); /* tally may not take the agent out meanwhile */
    assert_int_equal(inside, 1);
    assert_int_equal(rig.process->unrecorded, 0);
    pthread_barrier_wait(&together);
    pthread_join(owner, NULL);
    pthread_barrier_destroy(&together);
    for (unsigned i = 0; i < ROUNDS; i++)
        work(NULL);
    assert_in_range(agent_rig_read(&rig, rig.process, 0, 0).count, ROUNDS / 2 * BLOCKS,
                    (ROUNDS + 1) * BLOCKS);
    free(looking(1));
    assert_int_equal(inside, 0); /* its record tells */
    munmap(behind, PAGE);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_one_after_the_other),    TEST(test_stacks_that_go),
        TEST(test_who_lives_keeps_it),     TEST(test_at_once),
        TEST(test_places_of_more_records), TEST(test_no_record),
    };
    return cmocka_run_group_tests_name("agent_record", tests, NULL, NULL);
}
