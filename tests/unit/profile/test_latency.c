/* How long calls took: the buckets, rows, percentiles beside a sorted list, written, merged, folded, and what
 * lies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "merge.h"
#include "profile.h"
#include "profile_directory.h"
#include "profile_latency.h"
#include "store.h"

/* --- buckets --- */

static void each_time_is_in_its_bucket(void **state)
{
    (void)state;
    uint64_t random = 88172645463325252;
    for (int i = 0; i < 200000; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        uint64_t ns = random >> (17 + i % 47);
        uint32_t bucket = wire_latency_bucket(ns);
        uint64_t low = wire_latency_low(bucket), high = wire_latency_low(bucket + 1);
        assert_true(bucket < WIRE_LATENCY_BUCKETS);
        assert_true(low <= ns && ns < high);
        assert_true(high - low == 1 || (high - low) * 32 <= low);
    }
}

static void buckets_follow_each_other(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < WIRE_LATENCY_BUCKETS; i++) {
        assert_int_equal(wire_latency_bucket(wire_latency_low(i)), i);
        assert_true(wire_latency_low(i) < wire_latency_low(i + 1));
        if (i > 0)
            assert_int_equal(wire_latency_bucket(wire_latency_low(i) - 1), i - 1);
    }
    assert_int_equal(wire_latency_bucket(UINT64_MAX), WIRE_LATENCY_BUCKETS - 1);
    assert_true(wire_latency_low(WIRE_LATENCY_BUCKETS - 1) > UINT64_C(38) * 3600 * 1000000000);
    assert_int_equal(WIRE_LATENCY_BUCKETS, 1376); /* the views know it */
}

/* --- rows --- */

struct scene {
    struct profile *profile;
    uint32_t processes[2], addresses[2];
};

static struct scene set_scene(void)
{
    struct scene scene = {.profile = profile_new()};
    struct profile *profile = scene.profile;
    uint32_t image = profile_image(profile, PROFILE_IMAGE_FILE, "/bin/a", "01", 0);
    for (uint32_t i = 0; i < 2; i++) {
        scene.processes[i] = profile_process(profile, 7 + (int32_t)i, 0);
        scene.addresses[i] = profile_address(profile, image, 0x10 + 0x10 * i);
        struct profile_address value = profile->addresses[scene.addresses[i]];
        value.function =
            profile_function(profile, image, i ? "quick" : "slow", 0x10 + 0x10 * i, 0x20 + 0x10 * i);
        value.resolution = PROFILE_RESOLVED;
        profile_set_address(profile, scene.addresses[i], &value);
    }
    return scene;
}

static void call(const struct scene *scene, int process, int address, uint64_t ns)
{
    uint32_t row = profile_latency(scene->profile, scene->processes[process], scene->addresses[address]);
    assert_int_not_equal(row, 0);
    profile_add_latency(scene->profile, row, ns, ns, ns);
    assert_true(profile_add_latency_calls(scene->profile, row, wire_latency_bucket(ns), 1));
}

static void rows_are_found_again(void **state)
{
    (void)state;
    struct scene scene = set_scene();
    call(&scene, 0, 0, 5);
    call(&scene, 0, 0, 9);
    call(&scene, 1, 0, 5);
    call(&scene, 0, 1, 5);
    assert_int_equal(scene.profile->latency_count, 4);
    assert_int_equal(scene.profile->latency_bucket_count, 5);
    assert_int_equal(scene.profile->latencies[1].sum_ns, 14);
    assert_int_equal(scene.profile->latencies[1].min_ns, 5);
    assert_int_equal(scene.profile->latencies[1].max_ns, 9);
    assert_int_equal(profile_latency(scene.profile, 9, scene.addresses[0]), 0);
    assert_int_equal(profile_latency(scene.profile, 0, scene.addresses[0]), 0);
    assert_int_equal(profile_latency(scene.profile, 1, 99), 0);
    profile_free(scene.profile);
}

static void sums_stop_at_the_end(void **state)
{
    (void)state;
    struct scene scene = set_scene();
    struct base_error error = {0};
    uint32_t row = profile_latency(scene.profile, 1, scene.addresses[0]);
    for (int i = 0; i < 3; i++) {
        profile_add_latency(scene.profile, row, UINT64_MAX / 3, 0, INT64_MAX);
        profile_add_latency_calls(scene.profile, row, 1, INT64_MAX);
        profile_add_latency_calls(scene.profile, row, WIRE_LATENCY_BUCKETS, 1);
    }
    assert_int_equal(scene.profile->latencies[row].sum_ns, INT64_MAX);
    assert_int_equal(scene.profile->latency_buckets[1].calls, INT64_MAX);
    assert_int_equal(scene.profile->latency_bucket_count, 2);
    assert_int_equal(profile_check(scene.profile, &error), BASE_OK);
    profile_free(scene.profile);
}

/* --- percentiles, beside a list that is sorted --- */

enum { CALLS = 12345 };

static int by_time(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void make_calls(const struct scene *scene, uint64_t *times)
{
    uint64_t random = 20261121;
    for (int i = 0; i < CALLS; i++) {
        random = random * 6364136223846793005 + 1442695040888963407;
        times[i] = (random >> 40) % 1000 << (random >> 60);
        call(scene, i % 2, 0, times[i]);
    }
    qsort(times, CALLS, sizeof *times, by_time);
}

static const unsigned points[] = {1, 500, 900, 990, 999, 1000};

static void percentiles_are_those_of_the_list(void **state)
{
    (void)state;
    struct scene scene = set_scene();
    struct base_error error = {0};
    struct profile_latency_sum *sums;
    size_t count;
    uint64_t *times = calloc(CALLS, sizeof *times), all = 0;
    make_calls(&scene, times);
    for (int i = 0; i < CALLS; i++)
        all += times[i];
    assert_int_equal(profile_latency_sums(scene.profile, NULL, &sums, &count, &error), BASE_OK);
    assert_int_equal(count, 1);
    assert_int_equal(profile_latency_calls(sums), CALLS);
    assert_int_equal(sums->min_ns, times[0]);
    assert_int_equal(sums->max_ns, times[CALLS - 1]);
    assert_int_equal(sums->sum_ns, all);
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        uint64_t exact = times[(CALLS * points[i] + 999) / 1000 - 1],
                 found = profile_latency_at(sums, points[i]);
        assert_int_equal(wire_latency_bucket(found), wire_latency_bucket(exact));
        assert_true(found >= exact && found - exact <= exact / 32 + 1);
    }
    free(sums);
    free(times);
    profile_free(scene.profile);
}

static void only_some_processes(void **state)
{
    (void)state;
    struct scene scene = set_scene();
    struct base_error error = {0};
    struct profile_latency_sum *sums;
    size_t count;
    const bool taken[] = {false, false, true};
    call(&scene, 0, 0, 1000);
    call(&scene, 1, 1, 30);
    call(&scene, 1, 1, 10);
    assert_int_equal(profile_latency_sums(scene.profile, taken, &sums, &count, &error), BASE_OK);
    assert_int_equal(count, 1);
    assert_int_equal(sums->address, scene.addresses[1]);
    assert_int_equal(profile_latency_calls(sums), 2);
    assert_int_equal(profile_latency_at(sums, 500), 10);
    assert_int_equal(profile_latency_at(sums, 501), 30);
    free(sums);
    profile_free(scene.profile);
}

/* --- the file --- */

static struct profile *write_and_read(struct profile *profile)
{
    struct store *store;
    struct profile *loaded;
    struct base_error error = {0};
    unlink(path);
    assert_int_equal(store_create(path, &store, &error), BASE_OK);
    assert_int_equal(store_flush(store, profile, &error), BASE_OK);
    const struct scene scene = {profile, {1, 2}, {1, 2}};
    call(&scene, 0, 1, 70000); /* into rows that the file has */
    assert_int_equal(store_close(store, profile, false, &error), BASE_OK);
    assert_int_equal(store_load(path, &loaded, &error), BASE_OK);
    return loaded;
}

static void same_rows(const struct profile *profile, const struct profile *loaded)
{
    assert_int_equal(loaded->latency_count, profile->latency_count);
    assert_int_equal(loaded->latency_bucket_count, profile->latency_bucket_count);
    assert_memory_equal(loaded->latencies + 1, profile->latencies + 1,
                        (profile->latency_count - 1) * sizeof *profile->latencies);
    for (size_t i = 1; i < profile->latency_bucket_count; i++)
        assert_true(loaded->latency_buckets[i].latency == profile->latency_buckets[i].latency &&
                    loaded->latency_buckets[i].bucket == profile->latency_buckets[i].bucket &&
                    loaded->latency_buckets[i].calls == profile->latency_buckets[i].calls);
}

static void written_and_merged(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct scene scene = set_scene();
    struct profile_latency_sum *sums;
    size_t count;
    call(&scene, 0, 0, 100);
    call(&scene, 0, 1, 70000);
    call(&scene, 1, 1, 3);
    struct profile *loaded = write_and_read(scene.profile), *into = profile_new();
    same_rows(scene.profile, loaded);
    for (int i = 0; i < 2; i++)
        assert_int_equal(merge_add(into, loaded, path, &error), BASE_OK);
    assert_int_equal(into->latency_count, 7); /* each recording has its processes */
    assert_int_equal(profile_check(into, &error), BASE_OK);
    assert_int_equal(profile_latency_sums(into, NULL, &sums, &count, &error), BASE_OK);
    assert_int_equal(count, 2);
    assert_int_equal(profile_latency_calls(&sums[0]), 2);
    assert_int_equal(profile_latency_calls(&sums[1]), 6);
    assert_int_equal(sums[1].sum_ns, 2 * 140003);
    free(sums);
    const struct scene again = {loaded, {1, 2}, {1, 2}};
    call(&again, 1, 1, 3); /* rows that were read are found */
    assert_int_equal(loaded->latency_count, scene.profile->latency_count);
    assert_int_equal(loaded->latency_bucket_count, scene.profile->latency_bucket_count);
    profile_free(scene.profile);
    profile_free(loaded);
    profile_free(into);
}

static void folding_changes_nothing(void **state)
{
    (void)state;
    struct scene scene = set_scene();
    struct profile *profile = scene.profile;
    struct base_error error = {0};
    uint32_t thread = profile_thread(profile, 1, 0);
    uint16_t counter = (uint16_t)profile_counter(profile, "function.calls", "calls", true, PROFILE_SUM);
    profile->max_nodes = 100;
    call(&scene, 0, 0, 100);
    for (uint32_t i = 0; i < 200; i++) {
        uint32_t address = profile_address(profile, 1, 0x1000 + i);
        profile_count(
            profile,
            (struct profile_key){profile_node(profile, 0, address, 0), thread, PROFILE_NO_CPU, counter},
            1 + i, 1);
    }
    assert_true(profile_folds(profile) > 0);
    call(&scene, 0, 0, 100);
    assert_int_equal(profile->latency_count, 2);
    assert_int_equal(profile->latency_buckets[1].calls, 2);
    assert_int_equal(profile_check(profile, &error), BASE_OK);
    profile_free(profile);
}

static uint64_t number_of(sqlite3 *db, const char *column)
{
    char sql[128];
    sqlite3_stmt *row;
    snprintf(sql, sizeof sql, "SELECT %s FROM latency WHERE function = 'slow'", column);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &row, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(row), SQLITE_ROW);
    uint64_t value = (uint64_t)sqlite3_column_int64(row, 0);
    sqlite3_finalize(row);
    return value;
}

/* The view says what this module says. */
static void the_view_agrees(void **state)
{
    (void)state;
    struct scene scene = set_scene();
    struct base_error error = {0};
    struct profile_latency_sum *sums;
    size_t count;
    sqlite3 *db;
    uint64_t *times = calloc(CALLS, sizeof *times);
    make_calls(&scene, times);
    call(&scene, 1, 0, UINT64_C(1) << 50); /* 13 days: in the last bucket, which has no end */
    profile_free(write_and_read(scene.profile));
    assert_int_equal(profile_latency_sums(scene.profile, NULL, &sums, &count, &error), BASE_OK);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(number_of(db, "calls"), CALLS + 1);
    assert_int_equal(number_of(db, "p50_ns"), profile_latency_at(sums, 500));
    assert_int_equal(number_of(db, "p90_ns"), profile_latency_at(sums, 900));
    assert_int_equal(number_of(db, "p99_ns"), profile_latency_at(sums, 990));
    assert_int_equal(number_of(db, "p999_ns"), profile_latency_at(sums, 999));
    assert_int_equal(number_of(db, "max_ns"), UINT64_C(1) << 50);
    assert_int_equal(number_of(db, "min_ns"), sums->min_ns);
    assert_int_equal(number_of(db, "sum_ns"), sums->sum_ns);
    sqlite3_close(db);
    free(sums);
    free(times);
    profile_free(scene.profile);
}

static void a_file_that_lies(void **state)
{
    (void)state;
    struct base_error error = {0};
    static const char *const lies[] = {"UPDATE data_latency SET process = 9",
                                       "UPDATE data_latency SET process = 0",
                                       "UPDATE data_latency SET address = 99",
                                       "UPDATE data_latency SET address = 0",
                                       "UPDATE data_latency SET sum_ns = -1",
                                       "UPDATE data_latency SET min_ns = -1",
                                       "UPDATE data_latency SET max_ns = -1",
                                       "UPDATE data_latency_calls SET latency = 7",
                                       "UPDATE data_latency_calls SET latency = 0",
                                       "UPDATE data_latency_calls SET bucket = 1376",
                                       "UPDATE data_latency_calls SET bucket = -1",
                                       "UPDATE data_latency_calls SET calls = -1",
                                       "DROP TABLE data_latency",
                                       "DROP TABLE data_latency_calls"};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct scene scene = set_scene();
        struct profile *loaded;
        sqlite3 *db;
        profile_free(write_and_read(scene.profile));
        profile_free(scene.profile);
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db, lies[i], NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(db);
        assert_int_equal(store_load(path, &loaded, &error), BASE_EFORMAT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_time_is_in_its_bucket),
        cmocka_unit_test(buckets_follow_each_other),
        cmocka_unit_test(rows_are_found_again),
        cmocka_unit_test(sums_stop_at_the_end),
        cmocka_unit_test(only_some_processes),
        cmocka_unit_test(percentiles_are_those_of_the_list),
        cmocka_unit_test(written_and_merged),
        cmocka_unit_test(folding_changes_nothing),
        cmocka_unit_test(the_view_agrees),
        cmocka_unit_test(a_file_that_lies),
    };
    return cmocka_run_group_tests(tests, profile_directory_make, profile_directory_remove);
}
