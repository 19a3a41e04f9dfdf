/* From the agent's cells to counters of exceptions, mapped memory and functions: only differences are added,
 * only of the collector they are of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shared_counts.h"

enum { NODES = 8, CELLS = 4 };

static struct profile *profile;
static struct shared_counts counts;
static struct shared_counts_published published;
static struct shared_cookie cookie;
static struct wire_agent_node nodes[NODES + 1];
static struct wire_agent_cell cells[CELLS + 1];
static uint32_t thread, unknown;

/* Roots 1 of exceptions, 3 of mappings, 5 of blocks, 7 of functions, and below each a node with a cell. */
static int set_up(void **state)
{
    static const enum wire_agent_collector roots[CELLS] = {WIRE_AGENT_THROWS, WIRE_AGENT_MAP, WIRE_AGENT_HEAP,
                                                           WIRE_AGENT_FUNCTION};
    (void)state;
    profile = profile_new();
    memset(nodes, 0, sizeof nodes);
    memset(cells, 0, sizeof cells);
    published = (struct shared_counts_published){0};
    thread = profile_thread(profile, profile_process(profile, 7, 0), 0);
    unknown = profile_address(profile, profile_image(profile, PROFILE_IMAGE_SPECIAL, "(unknown)", "", 0), 0);
    cookie.image = profile_image(profile, PROFILE_IMAGE_FILE, "/bin/a", "01", 0);
    cookie.bias = 0x10000;
    for (uint32_t i = 0; i < CELLS; i++) {
        nodes[1 + 2 * i] = (struct wire_agent_node){.pc = roots[i], .ready = 1};
        nodes[2 + 2 * i] = (struct wire_agent_node){
            .pc = 0x10101, .parent = 1 + 2 * i, .cookie = 1, .cell = i + 1, .ready = 1};
        cells[i + 1].node = 2 + 2 * i;
    }
    const uint32_t which = 1u << WIRE_AGENT_THROWS | 1u << WIRE_AGENT_MAP | 1u << WIRE_AGENT_FUNCTION;
    return shared_counts_init(&counts, profile, which, SHARED_TIME, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    shared_counts_published_free(&published);
    profile_free(profile);
    return 0;
}

static void publish(void)
{
    const struct shared_tree tree = {
        .nodes = nodes, .cells = cells, .node_count = NODES, .cell_count = CELLS};
    struct shared_nodes view = {
        .profile = profile, .tree = &tree, .cookies = &cookie, .cookie_count = 1, .special_unknown = unknown};
    assert_int_equal(shared_counts_publish(&counts, &view, &published, thread, NULL), BASE_OK);
    assert_int_equal(profile_check(profile, NULL), BASE_OK);
}

static int64_t sum_of(const char *name)
{
    uint32_t counter = profile_counter_named(profile, name);
    int64_t sum = 0;
    assert_int_not_equal(counter, 0);
    for (size_t i = 0; i < profile->cell_count; i++)
        sum += profile->cells[i].counter == counter ? profile->cells[i].value : 0;
    return sum;
}

static void test_differences(void **state)
{
    (void)state;
    cells[1].count = 4;
    cells[2].count = 2, cells[2].total = 5 * 4096, cells[2].freed_own = 4096;
    cells[3].count = 100, cells[3].total = 1000;
    for (unsigned i = 0; i < 2; i++) { /* published twice, counted once */
        publish();
        assert_int_equal(sum_of("throw.count"), 4);
        assert_int_equal(sum_of("map.total"), 5 * 4096);
        assert_int_equal(sum_of("map.live"), 4 * 4096);
    }
    cells[1].count = 6;
    cells[2].freed_own = 5 * 4096;
    publish();
    assert_int_equal(sum_of("throw.count"), 6);
    assert_int_equal(sum_of("map.total"), 5 * 4096);
    assert_int_equal(sum_of("map.live"), 0);
    assert_int_equal(profile_counter_named(profile, "heap.total"), 0);
}

/* The agent's clock ticks; a call is counted when it begins and timed when it ends. */
static void test_functions(void **state)
{
    (void)state;
    counts.ns_of_tick = 0.5;
    cells[4].count = 3;
    publish();
    assert_int_equal(sum_of("function.calls"), 3);
    assert_int_equal(sum_of("function.time"), 0);
    cells[4].total = 3000;
    for (unsigned i = 0; i < 2; i++) {
        publish();
        assert_int_equal(sum_of("function.calls"), 3);
        assert_int_equal(sum_of("function.time"), 1500);
    }
    counts.ns_of_tick = 1e9;
    cells[4].total = UINT64_MAX;
    publish();
    assert_int_equal(sum_of("function.time"), INT64_MAX);
}

/* The target may have written anything. */
static void test_hostile(void **state)
{
    (void)state;
    cells[1].count = UINT64_MAX;
    cells[2].count = 1, cells[2].total = 10, cells[2].freed_own = 11;
    cells[3].count = 1, cells[3].node = UINT64_C(1) << 40;
    nodes[4].parent = 4; /* a cycle */
    publish();
    assert_int_equal(sum_of("throw.count"), INT64_MAX);
    assert_int_equal(sum_of("map.total"), 0);
    nodes[4].parent = 3;
    nodes[4].cookie = 77;
    publish();
    assert_int_equal(sum_of("map.total"), 10);
    assert_int_equal(sum_of("map.live"), 0);
}

/* Each sample has a length of its own: value and number are distinguished, and only what is new. */
static void test_time(void **state)
{
    (void)state;
    static const enum shared_count kinds[] = {SHARED_TIME, SHARED_USER_TIME, SHARED_REAL_TIME};
    static const char *const names[] = {"time.cpu", "time.user", "time.real"};
    for (int kind = 0; kind < 3; kind++) {
        const char *name = names[kind], *other = names[(kind + 1) % 3];
        struct profile *fresh = profile_new();
        struct profile *before = profile;
        profile = fresh;
        thread = profile_thread(profile, profile_process(profile, 7, 0), 0);
        unknown =
            profile_address(profile, profile_image(profile, PROFILE_IMAGE_SPECIAL, "(unknown)", "", 0), 0);
        cookie.image = profile_image(profile, PROFILE_IMAGE_FILE, "/bin/a", "01", 0);
        assert_int_equal(shared_counts_init(&counts, profile, 1u << WIRE_AGENT_TIME, kinds[kind], NULL),
                         BASE_OK);
        assert_int_equal(profile_counter_named(profile, other), 0);
        nodes[1].pc = WIRE_AGENT_TIME;
        nodes[2].flags = WIRE_AGENT_NODE_EXACT;
        cells[1].total = 8000000;
        cells[1].count = 1;
        publish();
        cells[1].total += 20000000;
        cells[1].count += 2;
        publish();
        publish();
        assert_int_equal(sum_of(name), 28000000);
        uint64_t samples = 0;
        for (size_t i = 0; i < profile->cell_count; i++)
            samples += profile->cells[i].samples;
        assert_int_equal(samples, 3);
        assert_int_equal(counts.samples, 3);
        assert_int_equal(counts.sampled_ns, 28000000);
        shared_counts_published_free(&published);
        profile = before;
        profile_free(fresh);
    }
}

static void test_nothing_asked_for(void **state)
{
    (void)state;
    struct profile *empty = profile_new();
    assert_int_equal(shared_counts_init(&counts, empty, 1u << WIRE_AGENT_HEAP, SHARED_TIME, NULL), BASE_OK);
    assert_int_equal(empty->counter_count, 1);
    cells[1].count = 4;
    publish();
    assert_int_equal(sum_of("throw.count"), 0);
    profile_free(empty);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(test_differences), TEST(test_functions), TEST(test_time),
                                       TEST(test_hostile), TEST(test_nothing_asked_for)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
