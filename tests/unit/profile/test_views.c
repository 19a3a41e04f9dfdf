/* The views that every profile has, asked through store_query, against figures computed the naive way; the
 * timeline against the cells; and that a flush writes what changed and no more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base_map.h"
#include "profile.h"
#include "profile_directory.h"
#include "profile_statistics.h"
#include "store.h"
#include "store_period.h"
#include "store_timeline.h"
#include "wire_loss.h"

/* --- a random profile: functions f0..f29 of 4 addresses each, f30 and f31 nameless --- */

enum { FUNCTIONS = 32, ADDRESSES = FUNCTIONS * 4, DEEPEST = 14, SAMPLES = 6000 };

struct world {
    struct profile *profile;
    uint32_t addresses[ADDRESSES], threads[2];
    uint16_t counters[2];
    uint64_t random;
};

static struct world new_world(void)
{
    struct world world = {.profile = profile_new(), .random = 77};
    struct profile *profile = world.profile;
    uint32_t image = profile_image(profile, PROFILE_IMAGE_FILE, "/usr/lib/lib,odd.so", "0a", 0);
    uint32_t process = profile_process(profile, 123, 0);
    world.threads[0] = profile_thread(profile, process, 123);
    world.threads[1] = profile_thread(profile, process, 124);
    profile_set_thread_name(profile, world.threads[1], "worker");
    world.counters[0] = (uint16_t)profile_counter(profile, "time.cpu", "ns", false, PROFILE_SUM);
    world.counters[1] = (uint16_t)profile_counter(profile, "calls", "", true, PROFILE_SUM);
    for (uint32_t i = 0; i < ADDRESSES; i++) {
        char name[16];
        world.addresses[i] = profile_address(profile, image, 0x1000 + i);
        if (i / 4 >= 30)
            continue;
        snprintf(name, sizeof name, "f%u", i / 4);
        struct profile_address address = profile->addresses[world.addresses[i]];
        address.function = profile_function(profile, image, name, 0x1000 + i / 4 * 4, 0x1004 + i / 4 * 4);
        address.resolution = PROFILE_RESOLVED;
        profile_set_address(profile, world.addresses[i], &address);
    }
    return world;
}

/* A stack as indices into world.addresses. */
static size_t random_stack(struct world *world, uint32_t *stack)
{
    world->random = base_hash(world->random + 1);
    size_t depth = 1 + world->random % DEEPEST;
    for (size_t level = 0; level < depth; level++)
        stack[level] = (uint32_t)(base_hash(world->random + level) % (level < 3 ? 9 : ADDRESSES));
    return depth;
}

static uint32_t node_of(struct world *world, const uint32_t *stack, size_t depth)
{
    uint32_t addresses[DEEPEST];
    for (size_t i = 0; i < depth; i++)
        addresses[i] = world->addresses[stack[i]];
    return profile_stack(world->profile, addresses, NULL, depth);
}

/* What `flat` groups by: the function, or the address where there is none. */
static uint32_t place_of(uint32_t address)
{
    return address / 4 < 30 ? address / 4 : 30 + address - 120;
}

enum { PLACES = 38 };

static void name_of(uint32_t place, char *name, size_t size)
{
    if (place < 30)
        snprintf(name, size, "f%u", place);
    else
        snprintf(name, size, "lib,odd.so+0x%x", 0x1000 + 120 + place - 30);
}

struct figures {
    int64_t self, total;
    uint64_t hits, total_hits;
};

/* --- asking --- */

static int ask(const char *sql, int each(void *, int, char **, char **), void *context)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    int code = sqlite3_exec(db, sql, each, context, NULL);
    sqlite3_close(db);
    return code;
}

static int first_number(void *context, int count, char **values, char **names)
{
    (void)count, (void)names;
    *(int64_t *)context = values[0] ? strtoll(values[0], NULL, 10) : -1;
    return 0;
}

static int64_t ask_number(const char *sql)
{
    int64_t number = -2;
    assert_int_equal(ask(sql, first_number, &number), SQLITE_OK);
    return number;
}

struct flat_check {
    struct figures figures[2][PLACES];
    uint64_t samples;
    int rows;
};

static int check_flat_row(void *context, int count, char **values, char **names)
{
    (void)names;
    struct flat_check *check = context;
    char name[32];
    assert_int_equal(count, 10);
    bool exact = !strcmp(values[2], "calls");
    uint32_t place = 0;
    for (; place < PLACES; place++) {
        name_of(place, name, sizeof name);
        if (!strcmp(name, values[0]))
            break;
    }
    assert_true(place < PLACES);
    const struct figures *truth = &check->figures[exact][place];
    assert_string_equal(values[1], "lib,odd.so");
    assert_int_equal(strtoll(values[3], NULL, 10), truth->self);
    assert_int_equal(strtoll(values[4], NULL, 10), truth->total);
    assert_int_equal(strtoull(values[9], NULL, 10), truth->hits);
    struct profile_interval self = profile_wilson(truth->hits, check->samples),
                            total = profile_wilson(truth->total_hits, check->samples);
    const double expected[4] = {self.low, self.high, total.low, total.high};
    for (int i = 0; i < 4; i++) {
        assert_true(!values[5 + i] == exact);
        if (!exact)
            assert_true(strtod(values[5 + i], NULL) - expected[i] < 1e-8 &&
                        expected[i] - strtod(values[5 + i], NULL) < 1e-8);
    }
    check->rows++;
    return 0;
}

static void add_naively(struct flat_check *check, const uint32_t *stack, size_t depth, bool exact,
                        int64_t value)
{
    uint64_t seen = 0;
    for (size_t i = 0; i < depth; i++) {
        struct figures *figures = &check->figures[exact][place_of(stack[i])];
        bool before = seen >> place_of(stack[i]) & 1;
        seen |= 1ull << place_of(stack[i]);
        figures->total += before ? 0 : value; /* recursion counts once */
        figures->total_hits += !before;
        figures->self += i + 1 == depth ? value : 0;
        figures->hits += i + 1 == depth;
    }
}

static int sum_stacks(void *context, int count, char **values, char **names)
{
    (void)count, (void)names;
    uint64_t *sums = context;
    sums[!strcmp(values[0], "calls")] += strtoull(values[2], NULL, 10);
    sums[2] += base_hash_bytes(values[1], strlen(values[1])) * strtoull(values[2], NULL, 10);
    return 0;
}

static uint64_t hash_of_stack(const uint32_t *stack, size_t depth)
{
    char text[DEEPEST * 32] = "", name[32];
    for (size_t i = 0; i < depth; i++) {
        name_of(place_of(stack[i]), name, sizeof name);
        strcat(strcat(text, i ? ";" : ""), name);
    }
    return base_hash_bytes(text, strlen(text));
}

static void views_agree_with_naive_figures(void **state)
{
    (void)state;
    struct world world = new_world();
    struct flat_check check = {0};
    struct store *store;
    uint64_t sums[3] = {0}, expected[3] = {0};
    for (int i = 0; i < SAMPLES; i++) {
        uint32_t stack[DEEPEST];
        size_t depth = random_stack(&world, stack);
        bool exact = i % 3 == 0;
        profile_count(world.profile,
                      (struct profile_key){node_of(&world, stack, depth), world.threads[i % 2],
                                           (uint16_t)(i % 2), world.counters[exact]},
                      i, 1);
        add_naively(&check, stack, depth, exact, i);
        check.samples += !exact;
        expected[exact] += (uint64_t)i;
        expected[2] += hash_of_stack(stack, depth) * (uint64_t)i;
    }
    profile_lose(world.profile, WIRE_LOSS_STACK_CUT, 7);
    assert_int_equal(store_create(path, &store, NULL), BASE_OK);
    assert_int_equal(store_close(store, world.profile, false, NULL), BASE_OK);
    int rows = 0;
    for (int i = 0; i < 2 * PLACES; i++)
        rows += check.figures[i % 2][i / 2].total_hits > 0;
    assert_int_equal(ask("SELECT * FROM flat", check_flat_row, &check), SQLITE_OK);
    assert_int_equal(check.rows, rows);
    assert_int_equal(ask("SELECT * FROM stacks", sum_stacks, sums), SQLITE_OK);
    assert_memory_equal(sums, expected, sizeof sums);
    assert_int_equal(ask_number("SELECT count FROM losses WHERE number = 3"), 7);
    assert_int_equal(ask_number("SELECT count(*) FROM losses"), 1);
    assert_int_equal(ask_number("SELECT count(*) FROM threads WHERE pid = 123"), 2);
    assert_int_equal(ask_number("SELECT tid FROM threads WHERE name = 'worker'"), 124);
    assert_int_equal(
        ask_number("SELECT count(*) FROM counters WHERE (id, name, unit, exact) IN (VALUES(1, 'time.cpu',"
                   " 'ns', 0)) OR (name = 'calls' AND exact = 1)"),
        2);
    profile_free(world.profile);
}

/* --- the timeline --- */

struct timeline_truth {
    struct profile *profile;
    uint64_t next, *per_node;
};

static bool check_sample(void *context, const struct store_timeline_sample *sample)
{
    struct timeline_truth *truth = context;
    uint64_t i = truth->next++;
    assert_int_equal(sample->time_ns, i % 50 == 49 ? (i - 3) * 1000 : i * 1000);
    assert_int_equal(sample->thread, 1 + i % 2);
    assert_int_equal(sample->cpu, i % 5 ? i % 5 : PROFILE_NO_CPU);
    assert_int_equal(sample->counter, 1);
    assert_true(sample->node < truth->profile->node_count);
    truth->per_node[sample->node]++;
    return true;
}

/* Through folds and flushes every sample ends on the node where its cell ended. */
static void the_timeline_follows_folding(void **state)
{
    (void)state;
    struct world world = new_world();
    struct profile *profile = world.profile;
    struct store *store;
    profile->max_nodes = 900;
    assert_int_equal(store_create(path, &store, NULL), BASE_OK);
    enum { COUNT = 40000 };
    for (uint64_t i = 0; i < COUNT; i++) {
        uint32_t stack[DEEPEST];
        size_t depth = random_stack(&world, stack);
        uint32_t node = node_of(&world, stack, depth), thread = world.threads[i % 2];
        uint16_t cpu = i % 5 ? (uint16_t)(i % 5) : PROFILE_NO_CPU;
        profile_count(profile, (struct profile_key){node, thread, cpu, world.counters[0]}, 1, 1);
        profile_timeline_add(profile, i % 50 == 49 ? (i - 3) * 1000 : i * 1000, thread, node, cpu,
                             world.counters[0]);
        if (i % 7000 == 0)
            assert_int_equal(store_flush(store, profile, NULL), BASE_OK);
    }
    assert_true(profile_folds(profile) > 20);
    assert_int_equal(store_close(store, profile, false, NULL), BASE_OK);
    struct timeline_truth truth = {.profile = profile,
                                   .per_node = calloc(profile->node_count, sizeof(uint64_t))};
    assert_int_equal(store_timeline_each(path, check_sample, &truth, NULL), BASE_OK);
    assert_int_equal(truth.next, COUNT);
    for (size_t i = 0; i < profile->cell_count; i++)
        truth.per_node[profile->cells[i].node] -= profile->cells[i].samples;
    for (size_t i = 0; i < profile->node_count; i++)
        assert_int_equal(truth.per_node[i], 0);
    free(truth.per_node);
    profile_free(profile);
}

/* Samples out of order, of a thread that others do not have, and of one whose samples stand for more. */
static void a_list_is_in_order_of_time_with_figures(void **state)
{
    (void)state;
    struct world world = new_world();
    struct profile *profile = world.profile;
    struct store_timeline_list list;
    struct base_error error = {0};
    uint32_t node = profile_stack(profile, world.addresses, NULL, 1);
    enum { COUNT = 20000 };
    for (uint32_t i = 0; i < COUNT; i++) {
        profile_count(profile, (struct profile_key){node, world.threads[i % 2], 3, world.counters[0]},
                      i % 2 ? 2500 : 1000, 1);
        profile_timeline_add(profile, (COUNT - i) * 10, world.threads[i % 2], node, 3, world.counters[0]);
    }
    struct store *store;
    assert_int_equal(store_create(path, &store, NULL), BASE_OK);
    assert_int_equal(store_close(store, profile, false, NULL), BASE_OK);
    assert_int_equal(store_timeline_read(path, profile, &list, &error), BASE_OK);
    assert_int_equal(list.count, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(list.items[i].time_ns, (i + 1) * 10);
        assert_int_equal(list.items[i].thread, world.threads[(i + 1) % 2]);
        assert_int_equal(list.items[i].value, i % 2 ? 1000 : 2500);
        assert_true(list.items[i].node == node && list.items[i].cpu == 3);
    }
    store_timeline_list_free(&list);
    struct profile *other = profile_new(); /* an earlier state of the file: none of this is in it yet */
    assert_int_equal(store_timeline_read(path, other, &list, &error), BASE_OK);
    assert_int_equal(list.count, 0);
    profile_free(other);
    profile_free(profile);
}

/* Cells with so many samples that a mean makes no sense, as a corrupt file may have them. */
static void figures_of_nonsense_are_none(void **state)
{
    (void)state;
    struct world world = new_world();
    struct store_timeline_list list;
    uint32_t node = profile_stack(world.profile, world.addresses, NULL, 1);
    profile_count(world.profile, (struct profile_key){node, world.threads[0], 3, world.counters[0]},
                  INT64_MIN, UINT64_MAX);
    profile_timeline_add(world.profile, 5, world.threads[0], node, 3, world.counters[0]);
    struct store *store;
    assert_int_equal(store_create(path, &store, NULL), BASE_OK);
    assert_int_equal(store_close(store, world.profile, false, NULL), BASE_OK);
    assert_int_equal(store_timeline_read(path, world.profile, &list, NULL), BASE_OK);
    assert_true(list.count == 1 && list.items[0].value == 0);
    store_timeline_list_free(&list);
    profile_free(world.profile);
}

static const struct store_timeline_item *item_of(const struct store_timeline_list *list,
                                                 const struct profile_cell *cell)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].node == cell->node && list->items[i].thread == cell->thread)
            return &list->items[i];
    return NULL;
}

/* What is left is of the period alone, once; losses stay what they were; more can be counted. */
static void a_period_is_all_that_is_left(void **state)
{
    (void)state;
    struct world world = new_world();
    struct profile *profile = world.profile;
    struct store_timeline_list list;
    struct store_period period = {.from_ns = 2000, .to_ns = 5000};
    profile->max_nodes = 900;
    for (uint64_t i = 0; i < 9000; i++) {
        uint32_t stack[DEEPEST];
        size_t depth = random_stack(&world, stack);
        uint32_t node = node_of(&world, stack, depth);
        profile_count(profile, (struct profile_key){node, world.threads[i % 2], 0, world.counters[0]}, 7, 1);
        profile_count(profile, (struct profile_key){node, world.threads[0], 0, world.counters[1]}, 1, 1);
        profile_timeline_add(profile, i, world.threads[i % 2], node, 0, world.counters[0]);
    }
    struct store *store;
    assert_int_equal(store_create(path, &store, NULL), BASE_OK);
    assert_int_equal(store_close(store, profile, false, NULL), BASE_OK);
    profile_free(profile);
    struct base_error error = {0};
    assert_int_equal(store_load(path, &profile, &error), BASE_OK);
    uint64_t folded = profile->losses[WIRE_LOSS_FOLDED], samples = 0;
    assert_true(folded > 0);
    assert_int_equal(store_timeline_read(path, profile, &list, &error), BASE_OK);
    store_period_cut(&list, &period);
    assert_int_equal(list.count, 3000);
    assert_true(list.items[0].time_ns == 2000 && list.items[2999].time_ns == 4999);
    assert_int_equal(store_period_keep(profile, &list, &error), BASE_OK);
    assert_int_equal(profile_check(profile, &error), BASE_OK);
    for (size_t i = 0; i < profile->cell_count; i++) {
        const struct profile_cell *cell = &profile->cells[i];
        assert_int_equal(cell->counter, world.counters[0]);
        assert_int_equal(cell->value, 7 * (int64_t)cell->samples);
        assert_non_null(item_of(&list, cell));
        samples += cell->samples;
    }
    assert_int_equal(samples, 3000);
    assert_int_equal(profile->losses[WIRE_LOSS_FOLDED], folded);
    store_timeline_list_free(&list);
    profile_free(profile);
}

static bool count_sample(void *context, const struct store_timeline_sample *sample)
{
    (void)sample;
    ++*(uint64_t *)context;
    return true;
}

/* The block that reaches the limit is whole, what comes after it is counted, and a fold is recorded of all
 * the same. */
static void a_full_timeline_ends_and_says_so(void **state)
{
    (void)state;
    struct world world = new_world();
    struct profile *profile = world.profile;
    uint64_t bytes, kept = 0;
    profile_timeline_limit(profile, 60000);
    enum { COUNT = 60000 };
    for (uint64_t i = 0, time = 0; i < COUNT; i++) {
        uint32_t stack[DEEPEST];
        random_stack(&world, stack);
        time += base_hash(i) % 1000000;
        profile_timeline_add(profile, time, world.threads[0], node_of(&world, stack, 1), 0,
                             world.counters[0]);
    }
    struct store *store;
    assert_int_equal(store_create(path, &store, NULL), BASE_OK);
    assert_int_equal(store_close(store, profile, false, NULL), BASE_OK);
    uint64_t samples = profile_timeline_size(profile, &bytes);
    assert_true(bytes >= 60000 && bytes < 200000 && samples > 0 && samples % 16384 == 0 && samples < COUNT);
    assert_int_equal(ask_number("SELECT sum(length(bytes)) FROM data_timeline WHERE fold = 0"), bytes);
    assert_int_equal(store_timeline_each(path, count_sample, &kept, NULL), BASE_OK);
    assert_int_equal(kept, samples);
    assert_int_equal(profile->losses[WIRE_LOSS_TIMELINE_FULL], COUNT - samples);
    profile_free(profile);
}

/* --- what a flush writes --- */

static bool same_rows(const struct profile *one, const struct profile *two)
{
    return one->address_count == two->address_count && one->function_count == two->function_count &&
           one->cell_count == two->cell_count && one->live_nodes == two->live_nodes &&
           one->folded_address == two->folded_address &&
           !memcmp(one->losses, two->losses, sizeof one->losses) &&
           !memcmp(one->functions, two->functions, one->function_count * sizeof *one->functions) &&
           !memcmp(one->threads, two->threads, one->thread_count * sizeof *one->threads) &&
           !memcmp(one->images, two->images, one->image_count * sizeof *one->images) &&
           !memcmp(one->nodes, two->nodes, two->node_count * sizeof *one->nodes);
}

static void check_same(const struct profile *written)
{
    struct profile *loaded;
    struct base_error error = {0};
    if (store_load(path, &loaded, &error) < 0)
        fail_msg("%s", error.text);
    assert_true(same_rows(written, loaded));
    for (size_t i = loaded->node_count; i < written->node_count; i++)
        assert_int_equal(written->nodes[i].address, 0); /* freed slots at the end have no row */
    for (size_t i = 0; i < loaded->cell_count; i++) {
        const struct profile_cell *one = &written->cells[i], *two = &loaded->cells[i];
        assert_true(one->node == two->node && one->thread == two->thread && one->cpu == two->cpu &&
                    one->counter == two->counter && one->value == two->value && one->samples == two->samples);
    }
    profile_free(loaded);
}

/* Folding, slots used again, names that come late: after each flush the file is the model. */
static void each_flush_makes_the_file_the_model(void **state)
{
    (void)state;
    struct world world = new_world();
    struct store *store;
    world.profile->max_nodes = 700;
    assert_int_equal(store_create(path, &store, NULL), BASE_OK);
    for (int round = 0; round < 30; round++) {
        for (int i = 0; i < 10 + round * 20; i++) {
            uint32_t stack[DEEPEST];
            size_t depth = random_stack(&world, stack);
            profile_count(world.profile,
                          (struct profile_key){node_of(&world, stack, depth), world.threads[i % 2],
                                               i % 3 ? (uint16_t)i : PROFILE_NO_CPU, world.counters[0]},
                          -i, 1);
        }
        char name[16];
        snprintf(name, sizeof name, "t%d", round);
        profile_set_thread_name(world.profile, world.threads[round % 2], name);
        assert_int_equal(store_flush(store, world.profile, NULL), BASE_OK);
        check_same(world.profile);
    }
    assert_true(profile_folds(world.profile) > 3);
    assert_int_equal(store_close(store, world.profile, false, NULL), BASE_OK);
    check_same(world.profile);
    profile_free(world.profile);
}

/* Rows that did not change are not written: what somebody else put there stays. */
static void a_flush_writes_what_changed(void **state)
{
    (void)state;
    struct world world = new_world();
    struct store *store;
    sqlite3 *db;
    assert_int_equal(store_create(path, &store, NULL), BASE_OK);
    for (uint32_t i = 0; i < 100; i++)
        profile_count(world.profile, (struct profile_key){node_of(&world, &i, 1), 1, 0, 1}, 1, 1);
    assert_int_equal(store_flush(store, world.profile, NULL), BASE_OK);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "UPDATE data_cells SET value = 99; UPDATE data_nodes SET flags = 99",
                                  NULL, NULL, NULL),
                     0);
    sqlite3_close(db);
    uint32_t changed = 41;
    profile_count(world.profile, (struct profile_key){node_of(&world, &changed, 1), 1, 0, 1}, 1, 1);
    assert_int_equal(store_flush(store, world.profile, NULL), BASE_OK);
    assert_int_equal(ask_number("SELECT count(*) FROM data_cells WHERE value <> 99"), 1);
    assert_int_equal(ask_number("SELECT id FROM data_cells WHERE value = 2"), 42);
    assert_int_equal(ask_number("SELECT count(*) FROM data_nodes WHERE flags <> 99"), 0);
    assert_int_equal(store_close(store, world.profile, false, NULL), BASE_OK);
    profile_free(world.profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(views_agree_with_naive_figures, profile_directory_clean),
        cmocka_unit_test_teardown(the_timeline_follows_folding, profile_directory_clean),
        cmocka_unit_test_teardown(a_list_is_in_order_of_time_with_figures, profile_directory_clean),
        cmocka_unit_test_teardown(figures_of_nonsense_are_none, profile_directory_clean),
        cmocka_unit_test_teardown(a_period_is_all_that_is_left, profile_directory_clean),
        cmocka_unit_test_teardown(a_full_timeline_ends_and_says_so, profile_directory_clean),
        cmocka_unit_test_teardown(each_flush_makes_the_file_the_model, profile_directory_clean),
        cmocka_unit_test_teardown(a_flush_writes_what_changed, profile_directory_clean),
    };
    return cmocka_run_group_tests(tests, profile_directory_make, profile_directory_remove);
}
