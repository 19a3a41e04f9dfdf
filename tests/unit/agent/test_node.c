/* The index of nodes (agent_node.c): every path has a node, whoever grows the table and wherever that ends. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent_rig.h"

enum { PATHS = 4000, THREADS = 8, ROUNDS = 20 };

typedef uint32_t child_function(uint32_t parent, uint64_t pc, uint32_t cookie, uint32_t flags);

static struct agent_rig rig;
static child_function *child;

static int set_up(void **state)
{
    (void)state;
    agent_rig_begin(&rig, &(struct agent_rig_options){.flags = WIRE_AGENT_FOLLOW, .small = true});
    child = (child_function *)agent_rig_symbol(&rig, "agent_node_child");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    agent_rig_end(&rig);
    return 0;
}

static bool is_child(uint32_t node, uint64_t pc)
{
    const struct wire_agent_node *nodes = agent_rig_nodes(&rig, rig.process);
    return node != 0 && nodes[node].pc == pc && nodes[node].parent == 0 && nodes[node].ready == 1;
}

static void make_all(void)
{
    uint32_t made[PATHS];
    for (uint64_t i = 0; i < PATHS; i++) {
        made[i] = child(0, i * 16, 1, 0);
        assert_true(is_child(made[i], i * 16));
    }
    for (uint64_t i = 0; i < PATHS; i++)
        assert_int_equal(child(0, i * 16, 1, 0), made[i]);
    assert_int_equal(rig.process->node_count, PATHS);
    assert_true((UINT64_C(1) << (rig.process->index_place & 255)) >= 2 * PATHS);
    assert_int_equal(rig.process->index_lock, 0);
}

static void test_one_thread(void **state)
{
    (void)state;
    make_all();
}

/* It was left by a jump, or interrupted by this one: it never comes back. */
static void test_who_grows_is_gone(void **state)
{
    (void)state;
    rig.process->index_lock = 1;
    make_all();
}

/* Tables that are given up leave less room: the last ones are fuller than half. */
static void test_space_that_was_given_up(void **state)
{
    (void)state;
    rig.process->index_used = rig.layout.index_bytes - sizeof(uint32_t) * (512 + 1024 + 2048 + 4096);
    for (uint64_t i = 0; i < PATHS; i++)
        assert_true(is_child(child(0, i * 16, 1, 0), i * 16));
    assert_int_equal(rig.process->index_used, rig.layout.index_bytes);
}

static void *make_nodes(void *argument)
{
    uint64_t *bad = argument;
    for (uint64_t i = 0; i < PATHS; i++)
        *bad += !is_child(child(0, i * 16, 1, 0), i * 16);
    return NULL;
}

static void make_together(void)
{
    pthread_t threads[THREADS];
    uint64_t bad[THREADS] = {0};
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, make_nodes, &bad[i]), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(bad[i], 0);
    assert_int_equal(rig.process->index_lock, 0);
}

/* Each reaches the end of the table while another one grows it, which gets no processor for some time. */
static void test_threads(void **state)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        make_together();
        assert_in_range(rig.process->node_count, PATHS, THREADS * PATHS);
        tear_down(state);
        set_up(state);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_thread, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_who_grows_is_gone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_space_that_was_given_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_threads, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
