/* The model against plain arrays that are searched from end to end, and folding against its promises. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base_map.h"
#include "profile.h"
#include "profile_statistics.h"
#include "wire_loss.h"

/* --- interning --- */

static void the_same_key_gives_the_same_index(void **state)
{
    (void)state;
    enum { KEYS = 700 };
    struct profile *profile = profile_new();
    uint32_t image[2] = {profile_image(profile, PROFILE_IMAGE_FILE, "/bin/a", "01", 0),
                         profile_image(profile, PROFILE_IMAGE_FILE, "/bin/a", "02", 0)};
    uint32_t strings[KEYS] = {0}, addresses[2][KEYS] = {{0}}, functions[KEYS] = {0}, levels[KEYS] = {0};
    uint64_t random = 5;
    for (int i = 0; i < 20000; i++) {
        char name[32];
        random = base_hash(random + 1);
        uint32_t key = (uint32_t)(random % KEYS), which = (uint32_t)(random >> 32 & 1);
        snprintf(name, sizeof name, "f%u", key);
        uint32_t string = profile_string(profile, name);
        uint32_t address = profile_address(profile, image[which], key * 4096ull);
        uint32_t function = profile_function(profile, image[0], name, key, key + 1);
        uint32_t level = profile_inlined(profile, name, "x.c", key, 0);
        assert_true(string && address && function && level);
        assert_true(!strings[key] || strings[key] == string);
        assert_true(!addresses[which][key] || addresses[which][key] == address);
        assert_true(!functions[key] || functions[key] == function);
        assert_true(!levels[key] || levels[key] == level);
        strings[key] = string, addresses[which][key] = address, functions[key] = function,
        levels[key] = level;
        assert_string_equal(profile_text(profile, string), name);
    }
    assert_int_equal(profile->function_count, KEYS + 1);
    assert_int_equal(profile->inlined_count, KEYS + 1);
    assert_int_equal(profile->address_count, 2 * KEYS + 1);
    assert_int_equal(profile_string(profile, ""), 0);
    assert_int_equal(profile_string(profile, NULL), 0);
    assert_string_equal(profile_text(profile, 0), "");
    assert_string_equal(profile_text(profile, UINT32_MAX), "");
    assert_string_equal(profile_text(profile, profile->images[image[1]].name), "a");
    assert_int_equal(profile_check(profile, NULL), BASE_OK);
    profile_free(profile);
}

struct plain_cell {
    uint32_t node, thread, cpu, counter;
    int64_t value;
    uint64_t samples;
};

static void nodes_and_cells_agree_with_an_array(void **state)
{
    (void)state;
    enum { MOST = 4000 };
    struct profile *profile = profile_new();
    uint32_t image = profile_image(profile, PROFILE_IMAGE_FILE, "/bin/a", "", 0),
             process = profile_process(profile, 1, 0);
    for (int i = 0; i < 30; i++)
        profile_address(profile, image, (uint64_t)i);
    for (int i = 0; i < 3; i++)
        profile_thread(profile, process, i);
    profile_counter(profile, "a", "ns", false, PROFILE_SUM);
    profile_counter(profile, "b", "", true, PROFILE_SUM);
    struct profile_node *nodes = calloc(MOST, sizeof *nodes);
    struct plain_cell *cells = calloc(MOST, sizeof *cells);
    uint32_t node_count = 1, cell_count = 0;
    uint64_t random = 9;
    for (int i = 0; i < 3000; i++) {
        random = base_hash(random + 1);
        struct profile_node wanted = {(uint32_t)(random % node_count), 1 + (uint32_t)(random >> 20) % 30,
                                      (uint32_t)(random >> 40) % 2};
        uint32_t at = 1;
        while (at < node_count && memcmp(&nodes[at], &wanted, sizeof wanted) != 0)
            at++;
        nodes[at] = wanted;
        node_count += at == node_count;
        assert_int_equal(profile_node(profile, wanted.parent, wanted.address, wanted.flags), at);
        struct plain_cell cell = {(uint32_t)(random >> 5) % node_count,
                                  1 + (uint32_t)(random >> 30) % 3,
                                  (uint32_t)(random >> 33) % 2,
                                  1 + (uint32_t)(random >> 35) % 2,
                                  0,
                                  0};
        uint32_t c = 0;
        while (c < cell_count && memcmp(&cells[c], &cell, 4 * sizeof(uint32_t)) != 0)
            c++;
        if (c == cell_count)
            cells[cell_count++] = cell;
        cells[c].value += i - 50;
        cells[c].samples += 2;
        profile_count(
            profile, (struct profile_key){cell.node, cell.thread, (uint16_t)cell.cpu, (uint16_t)cell.counter},
            i - 50, 2);
    }
    assert_int_equal(profile->node_count, node_count);
    assert_int_equal(profile->cell_count, cell_count);
    for (uint32_t i = 0; i < cell_count; i++) {
        assert_int_equal(profile->cells[i].node, cells[i].node);
        assert_int_equal(profile->cells[i].value, cells[i].value);
        assert_int_equal(profile->cells[i].samples, cells[i].samples);
    }
    assert_int_equal(profile_check(profile, NULL), BASE_OK);
    free(nodes);
    free(cells);
    profile_free(profile);
}

static void sums_stop_at_the_ends(void **state)
{
    (void)state;
    struct profile *profile = profile_new();
    uint16_t counter = (uint16_t)profile_counter(profile, "a", "ns", false, PROFILE_SUM);
    profile_count(profile, (struct profile_key){0, 0, PROFILE_NO_CPU, counter}, INT64_MAX, UINT64_MAX);
    profile_count(profile, (struct profile_key){0, 0, PROFILE_NO_CPU, counter}, 1, 1);
    assert_true(profile->cells[0].value == INT64_MAX && profile->cells[0].samples == UINT64_MAX);
    profile_lose(profile, WIRE_LOSS_RING_FULL, UINT64_MAX);
    profile_lose(profile, WIRE_LOSS_RING_FULL, 1);
    profile_lose(profile, PROFILE_LOSSES, 1);
    assert_true(profile->losses[WIRE_LOSS_RING_FULL] == UINT64_MAX);
    assert_int_equal(profile_node(profile, 0, 77, 0), 0); /* no such address */
    assert_int_equal(profile_address(profile, 77, 1), 0); /* no such image */
    profile_free(profile);
}

/* --- folding --- */

struct tree {
    struct profile *profile;
    uint32_t addresses[300], threads[2];
    uint16_t counter;
    uint64_t random;
};

static struct tree new_tree(uint32_t max_nodes)
{
    struct tree tree = {.profile = profile_new(), .random = max_nodes};
    tree.profile->max_nodes = max_nodes;
    uint32_t image = profile_image(tree.profile, PROFILE_IMAGE_FILE, "/bin/a", "", 0);
    uint32_t process = profile_process(tree.profile, 1, 0);
    for (int i = 0; i < 300; i++)
        tree.addresses[i] = profile_address(tree.profile, image, (uint64_t)i * 8);
    tree.threads[0] = profile_thread(tree.profile, process, 1);
    tree.threads[1] = profile_thread(tree.profile, process, 2);
    tree.counter = (uint16_t)profile_counter(tree.profile, "time.cpu", "ns", false, PROFILE_SUM);
    return tree;
}

/* A random stack, below address 0 or 1; half of them come from a small hot set. */
static size_t random_stack(struct tree *tree, uint32_t *stack)
{
    tree->random = base_hash(tree->random + 1);
    uint64_t seed = tree->random % 2 ? tree->random % 40 : tree->random;
    size_t depth = 2 + base_hash(seed) % 12;
    for (size_t level = 0; level < depth; level++)
        stack[level] = tree->addresses[base_hash(seed + level * 977) % (level < 2 ? 3 : 300)];
    return depth;
}

struct totals {
    int64_t value;
    uint64_t samples, by_thread[3], by_cpu[2];
};

static struct totals sum(const struct profile *profile)
{
    struct totals totals = {0};
    for (size_t i = 0; i < profile->cell_count; i++) {
        const struct profile_cell *cell = &profile->cells[i];
        totals.value += cell->value;
        totals.samples += cell->samples;
        totals.by_thread[cell->thread] += cell->samples;
        totals.by_cpu[cell->cpu] += cell->samples;
    }
    return totals;
}

static uint64_t samples_on_folded(const struct profile *profile)
{
    uint64_t samples = 0;
    for (size_t i = 0; i < profile->cell_count; i++)
        samples += profile->nodes[profile->cells[i].node].address == profile->folded_address
                       ? profile->cells[i].samples
                       : 0;
    return samples;
}

static bool node_is_stack(const struct profile *profile, uint32_t node, const uint32_t *stack, size_t depth)
{
    while (depth && node && profile->nodes[node].address == stack[depth - 1])
        node = profile->nodes[node].parent, depth--;
    return !depth && !node;
}

/* Every total stays exact, by thread and by CPU; the loss is what lies on (folded) nodes; a stack being made
 * survives. */
static void folding_loses_no_figure(void **state)
{
    (void)state;
    struct tree tree = new_tree(1500);
    struct profile *profile = tree.profile;
    struct totals expected = {0};
    uint64_t folds = 0, survived = 0;
    for (int i = 0; i < 30000; i++) {
        uint32_t stack[16];
        size_t depth = random_stack(&tree, stack), thread = tree.random >> 50 & 1,
               cpu = tree.random >> 51 & 1;
        uint32_t node = profile_stack(profile, stack, NULL, depth);
        assert_true(node != 0);
        profile_count(profile, (struct profile_key){node, tree.threads[thread], (uint16_t)cpu, tree.counter},
                      i, 1);
        expected.value += i, expected.samples++, expected.by_thread[tree.threads[thread]]++,
            expected.by_cpu[cpu]++;
        bool folded = profile->nodes[node].address == profile->folded_address && profile->folded_address;
        assert_true(folded || node_is_stack(profile, node, stack, depth));
        if (profile_folds(profile) == folds)
            continue;
        folds = profile_folds(profile);
        survived += !folded;
        assert_int_equal(profile_check(profile, NULL), BASE_OK);
        struct totals now = sum(profile);
        assert_memory_equal(&now, &expected, sizeof now);
        assert_int_equal(profile->losses[WIRE_LOSS_FOLDED], samples_on_folded(profile));
        assert_in_range(profile->live_nodes, 1500 * 5 / 8, 1500 * 7 / 8); /* about a quarter came free */
    }
    assert_true(folds > 10);
    assert_int_equal(survived, folds);
    assert_int_equal(profile->losses[WIRE_LOSS_OUT_OF_MEMORY], 0);
    profile_free(profile);
}

/* All subtrees equally cold: still a quarter goes, and a hot stack stays. */
static void equal_heat_folds_a_quarter(void **state)
{
    (void)state;
    struct tree tree = new_tree(1001);
    struct profile *profile = tree.profile;
    uint32_t hot[3] = {tree.addresses[0], tree.addresses[1], tree.addresses[2]};
    profile_count(
        profile, (struct profile_key){profile_stack(profile, hot, NULL, 3), tree.threads[0], 0, tree.counter},
        1, 100000);
    for (uint32_t i = 0; profile_folds(profile) == 0; i++) {
        uint32_t stack[2] = {tree.addresses[3 + i / 280], tree.addresses[10 + i % 280]};
        profile_count(
            profile,
            (struct profile_key){profile_stack(profile, stack, NULL, 2), tree.threads[0], 0, tree.counter}, 1,
            1);
    }
    assert_in_range(profile->live_nodes, 700, 760);
    assert_true(node_is_stack(profile, profile_stack(profile, hot, NULL, 3), hot, 3));
    assert_int_equal(profile_folds(profile), 1);
    profile_free(profile);
}

/* One chain as long as the limit has nothing that may go: it stays, the rest is counted under the root. */
static void what_cannot_fold_stays(void **state)
{
    (void)state;
    struct tree tree = new_tree(100);
    struct profile *profile = tree.profile;
    uint32_t stack[140];
    for (size_t i = 0; i < 140; i++)
        stack[i] = tree.addresses[i];
    uint32_t node = profile_stack(profile, stack, NULL, 140);
    assert_true(node && profile->nodes[node].address == profile->folded_address);
    profile_count(profile, (struct profile_key){node, tree.threads[0], 0, tree.counter}, 5, 1);
    assert_int_equal(profile->losses[WIRE_LOSS_FOLDED], 1);
    assert_int_equal(profile_folds(profile), 0);
    assert_int_equal(profile->live_nodes, 101);
    assert_int_equal(profile_check(profile, NULL), BASE_OK);
    profile_free(profile);
}

static void check_finds_what_is_wrong(void **state)
{
    (void)state;
    struct tree tree = new_tree(100);
    struct profile *profile = tree.profile;
    uint32_t node = profile_stack(profile, tree.addresses, NULL, 3);
    profile_count(profile, (struct profile_key){node, 1, 0, tree.counter}, 1, 1);
    assert_int_equal(profile_check(profile, NULL), BASE_OK);
    profile->nodes[1].parent = node; /* a cycle */
    assert_int_equal(profile_check(profile, NULL), BASE_EFORMAT);
    profile->nodes[1].parent = 50;
    assert_int_equal(profile_check(profile, NULL), BASE_EFORMAT);
    profile->nodes[1].parent = 0;
    profile->cells[0].counter = 9;
    assert_int_equal(profile_check(profile, NULL), BASE_EFORMAT);
    profile->cells[0].counter = tree.counter;
    profile->addresses[1].inlined = 4;
    assert_int_equal(profile_check(profile, NULL), BASE_EFORMAT);
    profile_free(profile);
}

/* Known values: Newcombe, Statistics in Medicine 17 (1998), table I, method 3 (81/263, 15/148, 0/20, 1/29,
 * 29/29). */
static void wilson_gives_published_values(void **state)
{
    (void)state;
    static const struct {
        uint64_t hits, samples;
        double low, high;
    } cases[] = {{81, 263, 0.2553, 0.3662},
                 {15, 148, 0.0624, 0.1605},
                 {0, 20, 0, 0.1611},
                 {1, 29, 0.0061, 0.1718},
                 {29, 29, 0.8830, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct profile_interval interval = profile_wilson(cases[i].hits, cases[i].samples);
        assert_float_equal(interval.low, cases[i].low, 0.00006);
        assert_float_equal(interval.high, cases[i].high, 0.00006);
    }
    assert_float_equal(profile_maximum_margin(2304), 0.0204167, 0.000001);
    assert_float_equal(profile_maximum_margin(0), 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_key_gives_the_same_index),
        cmocka_unit_test(nodes_and_cells_agree_with_an_array),
        cmocka_unit_test(sums_stop_at_the_ends),
        cmocka_unit_test(folding_loses_no_figure),
        cmocka_unit_test(equal_heat_folds_a_quarter),
        cmocka_unit_test(what_cannot_fold_stays),
        cmocka_unit_test(check_finds_what_is_wrong),
        cmocka_unit_test(wilson_gives_published_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
