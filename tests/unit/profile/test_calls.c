/* Edges against a plain array that is searched from end to end; what a flush writes of them; the views; files
 * of version 1 and files that lie. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base_map.h"
#include "profile.h"
#include "profile_directory.h"
#include "store.h"

enum { ADDRESSES = 40, THREADS = 3 };

static struct profile *new_profile(void)
{
    struct profile *profile = profile_new();
    uint32_t image = profile_image(profile, PROFILE_IMAGE_FILE, "/bin/a", "01", 0),
             process = profile_process(profile, 7, 0);
    assert_non_null(profile);
    for (uint32_t i = 0; i < ADDRESSES; i++) {
        char name[16];
        uint32_t index = profile_address(profile, image, 0x1000 + i);
        struct profile_address address = profile->addresses[index];
        snprintf(name, sizeof name, "f%u", i / 4);
        if (i < ADDRESSES - 4)
            address.function = profile_function(profile, image, name, 0x1000 + i / 4 * 4, 0x1004 + i / 4 * 4);
        profile_set_address(profile, index, &address);
    }
    for (int i = 0; i < THREADS; i++)
        profile_thread(profile, process, 70 + i);
    return profile;
}

static struct profile_edge random_edge(uint64_t *random)
{
    *random = base_hash(*random + 1);
    return (struct profile_edge){.site = (uint32_t)(*random % 13),
                                 .callee = 1 + (uint32_t)((*random >> 16) % 12),
                                 .thread = (uint32_t)((*random >> 32) % (THREADS + 1)),
                                 .kind = 1 + (uint32_t)((*random >> 48) % 4)};
}

static bool same_key(const struct profile_edge *one, const struct profile_edge *two)
{
    return one->site == two->site && one->callee == two->callee && one->thread == two->thread &&
           one->kind == two->kind;
}

static void edges_agree_with_an_array(void **state)
{
    (void)state;
    enum { MOST = 5000 };
    struct profile *profile = new_profile();
    struct profile_edge *plain = calloc(MOST, sizeof *plain);
    size_t count = 1;
    uint64_t random = 3;
    assert_int_equal(profile_counts_calls(profile), 0);
    for (uint64_t i = 0; i < 8000; i++) {
        struct profile_edge wanted = random_edge(&random);
        size_t at = 1;
        while (at < count && !same_key(&plain[at], &wanted))
            at++;
        if (at == count)
            plain[count++] = wanted;
        uint32_t edge = profile_edge(profile, wanted.site, wanted.callee, wanted.thread, wanted.kind);
        assert_int_equal(edge, at);
        if (i % 7) {
            plain[at].calls += i;
            profile_add_calls(profile, edge, i);
        } else {
            plain[at].calls = i;
            profile_set_calls(profile, edge, i);
        }
        assert_true(count < MOST);
    }
    assert_int_equal(profile->edge_count, count);
    for (size_t i = 1; i < count; i++)
        assert_true(same_key(&profile->edges[i], &plain[i]) && profile->edges[i].calls == plain[i].calls);
    assert_int_equal(profile_check(profile, NULL), BASE_OK);
    free(plain);
    profile_free(profile);
}

static void the_counter_comes_with_the_first_edge(void **state)
{
    (void)state;
    struct profile *profile = new_profile();
    uint32_t edge = profile_edge(profile, 0, 1, 0, PROFILE_CALL_ENTRY);
    uint32_t counter = profile_counts_calls(profile);
    assert_true(edge && counter);
    assert_int_equal(counter, profile_calls_counter(profile));
    assert_string_equal(profile_text(profile, profile->counters[counter].name), "calls");
    assert_string_equal(profile_text(profile, profile->counters[counter].unit), "calls");
    assert_true(profile->counters[counter].exact);
    profile_free(profile);
}

static void what_is_no_edge_is_refused(void **state)
{
    (void)state;
    struct profile *profile = new_profile();
    assert_int_equal(profile_edge(profile, 1, 0, 0, PROFILE_CALL_DIRECT), 0);
    assert_int_equal(profile_edge(profile, 1, ADDRESSES + 1, 0, PROFILE_CALL_DIRECT), 0);
    assert_int_equal(profile_edge(profile, ADDRESSES + 1, 1, 0, PROFILE_CALL_DIRECT), 0);
    assert_int_equal(profile_edge(profile, 1, 1, THREADS + 1, PROFILE_CALL_DIRECT), 0);
    assert_int_equal(profile_edge(profile, 1, 1, 0, 0), 0);
    assert_int_equal(profile_edge(profile, 1, 1, 0, PROFILE_CALL_KINDS), 0);
    profile_add_calls(profile, 0, 5);
    profile_set_calls(profile, 1, 5);
    assert_int_equal(profile->edge_count, 1);
    assert_int_equal(profile->edges[0].calls, 0);
    assert_int_equal(profile_counts_calls(profile), 0);
    profile_free(profile);
}

static void sums_stop_at_the_top(void **state)
{
    (void)state;
    struct profile *profile = new_profile();
    uint32_t edge = profile_edge(profile, 1, 2, 1, PROFILE_CALL_DIRECT);
    profile_add_calls(profile, edge, INT64_MAX);
    profile_add_calls(profile, edge, 1);
    assert_true(profile->edges[edge].calls == INT64_MAX);
    profile_add_calls(profile, edge, UINT64_MAX);
    assert_true(profile->edges[edge].calls == INT64_MAX);
    profile_set_calls(profile, edge, UINT64_MAX);
    assert_true(profile->edges[edge].calls == INT64_MAX);
    assert_int_equal(profile_check(profile, NULL), BASE_OK);
    profile_free(profile);
}

/* --- the file --- */

static int run(const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    int code = sqlite3_exec(db, sql, NULL, NULL, NULL);
    sqlite3_close(db);
    return code;
}

static int first_number(void *context, int count, char **values, char **names)
{
    (void)count, (void)names;
    *(int64_t *)context = values[0] ? strtoll(values[0], NULL, 10) : -1;
    return 0;
}

static int64_t ask(const char *sql)
{
    sqlite3 *db;
    int64_t value = -2;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    assert_int_equal(sqlite3_exec(db, sql, first_number, &value, NULL), SQLITE_OK);
    sqlite3_close(db);
    return value;
}

static void check_same(const struct profile *written)
{
    struct profile *loaded;
    assert_int_equal(store_load(path, &loaded, NULL), BASE_OK);
    assert_int_equal(loaded->edge_count, written->edge_count);
    for (size_t i = 1; i < loaded->edge_count; i++) {
        assert_true(same_key(&loaded->edges[i], &written->edges[i]));
        assert_int_equal(loaded->edges[i].calls, written->edges[i].calls);
    }
    profile_free(loaded);
}

static void each_flush_makes_the_file_the_model(void **state)
{
    (void)state;
    struct profile *profile = new_profile();
    struct store *store;
    uint64_t random = 11;
    assert_int_equal(store_create(path, &store, NULL), BASE_OK);
    for (int round = 0; round < 10; round++) {
        for (uint64_t i = 0; i < 400; i++) {
            struct profile_edge edge = random_edge(&random);
            profile_add_calls(profile, profile_edge(profile, edge.site, edge.callee, edge.thread, edge.kind),
                              i);
        }
        assert_int_equal(store_flush(store, profile, NULL), BASE_OK);
        check_same(profile);
    }
    assert_int_equal(store_close(store, profile, false, NULL), BASE_OK);
    check_same(profile);
    profile_free(profile);
}

/* A loaded profile goes on where it was: the table of edges is made again. */
static void loaded_edges_are_found_again(void **state)
{
    (void)state;
    struct profile *profile = new_profile(), *loaded;
    struct store *store;
    assert_int_equal(store_create(path, &store, NULL), BASE_OK);
    for (uint32_t i = 1; i < ADDRESSES; i++)
        profile_add_calls(profile, profile_edge(profile, i, i + 1, 1, PROFILE_CALL_DIRECT), i);
    assert_int_equal(store_close(store, profile, false, NULL), BASE_OK);
    assert_int_equal(store_load(path, &loaded, NULL), BASE_OK);
    for (uint32_t i = 1; i < ADDRESSES; i++)
        assert_int_equal(profile_edge(loaded, i, i + 1, 1, PROFILE_CALL_DIRECT), i);
    assert_int_equal(profile_edge(loaded, 1, 2, 2, PROFILE_CALL_DIRECT), ADDRESSES);
    assert_true(profile_counts_calls(loaded) != 0);
    profile_free(loaded);
    profile_free(profile);
}

/* Rows that did not change are not written: what somebody else put there stays. */
static void a_flush_writes_what_changed(void **state)
{
    (void)state;
    struct profile *profile = new_profile();
    struct store *store;
    uint32_t edges[20];
    assert_int_equal(store_create(path, &store, NULL), BASE_OK);
    for (uint32_t i = 0; i < 20; i++) {
        edges[i] = profile_edge(profile, i, i + 1, 1, PROFILE_CALL_DIRECT);
        profile_add_calls(profile, edges[i], 1);
    }
    assert_int_equal(store_flush(store, profile, NULL), BASE_OK);
    assert_int_equal(run("UPDATE data_edges SET calls = 99"), SQLITE_OK);
    profile_add_calls(profile, edges[7], 1);
    profile_set_calls(profile, edges[8], 1); /* what it is already */
    profile_add_calls(profile, edges[9], 0);
    assert_int_equal(store_flush(store, profile, NULL), BASE_OK);
    assert_int_equal(ask("SELECT count(*) FROM data_edges WHERE calls <> 99"), 1);
    assert_int_equal(ask("SELECT id FROM data_edges WHERE calls = 2"), edges[7]);
    assert_int_equal(store_close(store, profile, false, NULL), BASE_OK);
    profile_free(profile);
}

/* Two sites in one function are one caller; threads are summed in `edges` only; no calls, no row. */
static void views_add_up(void **state)
{
    (void)state;
    struct profile *profile = new_profile();
    struct store *store;
    const struct profile_edge edges[] = {
        {1, 9, 1, PROFILE_CALL_DIRECT, 10},   {2, 9, 1, PROFILE_CALL_DIRECT, 5},
        {2, 9, 2, PROFILE_CALL_DIRECT, 100},  {2, 9, 2, PROFILE_CALL_INDIRECT, 3},
        {0, 9, 3, PROFILE_CALL_ENTRY, 1000},  {0, 9, 0, PROFILE_CALL_ENTRY, 1},
        {37, 38, 1, PROFILE_CALL_TAIL, 4000}, {5, 9, 1, PROFILE_CALL_DIRECT, 0},
    };
    assert_int_equal(store_create(path, &store, NULL), BASE_OK);
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        profile_add_calls(
            profile, profile_edge(profile, edges[i].site, edges[i].callee, edges[i].thread, edges[i].kind),
            edges[i].calls);
    assert_int_equal(store_close(store, profile, false, NULL), BASE_OK);
    profile_free(profile);
    assert_int_equal(ask("SELECT count(*) FROM edges"), 4);
    assert_int_equal(ask("SELECT count(*) FROM calls"), 6);
    assert_int_equal(
        ask("SELECT calls FROM edges WHERE caller = 'f0' AND caller_image = 'a' AND callee = 'f2' "
            "AND callee_image = 'a' AND kind = 'direct'"),
        115);
    assert_int_equal(ask("SELECT calls FROM edges WHERE caller = 'f0' AND kind = 'indirect'"), 3);
    assert_int_equal(ask("SELECT calls FROM edges WHERE caller IS NULL AND kind = 'entry'"), 1001);
    assert_int_equal(ask("SELECT calls FROM edges LIMIT 1"), 4000);
    assert_int_equal(ask("SELECT calls FROM edges WHERE caller = 'a+0x1024' AND callee = 'a+0x1025'"), 4000);
    assert_int_equal(ask("SELECT calls FROM calls WHERE pid = 7 AND tid = 70 AND caller = 'f0'"), 15);
    assert_int_equal(ask("SELECT calls FROM calls WHERE tid IS NULL"), 1);
    assert_int_equal(ask("SELECT sum(calls) FROM calls"), 5119);
}

static void version_1_is_read(void **state)
{
    (void)state;
    struct profile *profile = new_profile(), *loaded;
    struct store *store;
    assert_int_equal(store_create(path, &store, NULL), BASE_OK);
    assert_int_equal(store_close(store, profile, false, NULL), BASE_OK);
    profile_free(profile);
    assert_int_equal(run("DROP VIEW edges; DROP VIEW calls; DROP TABLE data_edges; DROP TABLE data_coverage; "
                         "DROP TABLE data_peaks; DROP TABLE data_descriptors;"
                         "DROP TABLE data_left; DROP TABLE data_uncovered; "
                         "DROP TABLE data_latency; DROP TABLE data_latency_calls; PRAGMA user_version = 2"),
                     SQLITE_OK);
    assert_int_equal(store_load(path, &loaded, NULL), BASE_EFORMAT); /* says that it is version 2 */
    assert_int_equal(run("PRAGMA user_version = 1"), SQLITE_OK);
    assert_int_equal(store_load(path, &loaded, NULL), BASE_OK);
    assert_int_equal(loaded->edge_count, 1);
    assert_int_equal(loaded->address_count, ADDRESSES + 1);
    assert_int_equal(profile_counts_calls(loaded), 0);
    profile_free(loaded);
    assert_int_equal(run("PRAGMA user_version = 3"), SQLITE_OK);
    assert_int_equal(store_load(path, &loaded, NULL), BASE_EFORMAT);
}

static void files_that_lie_are_refused(void **state)
{
    (void)state;
    static const char *const lies[] = {
        "UPDATE data_edges SET site = 41",      "UPDATE data_edges SET site = -1",
        "UPDATE data_edges SET callee = 0",     "UPDATE data_edges SET callee = 41",
        "UPDATE data_edges SET thread = 4",     "UPDATE data_edges SET kind = 0",
        "UPDATE data_edges SET kind = 5",       "UPDATE data_edges SET calls = -1",
        "UPDATE data_edges SET id = 0",         "UPDATE data_edges SET id = 4294967296",
        "UPDATE data_edges SET id = 100000000", "UPDATE data_edges SET id = 3",
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct profile *profile = new_profile(), *loaded;
        struct store *store;
        assert_int_equal(store_create(path, &store, NULL), BASE_OK);
        profile_add_calls(profile, profile_edge(profile, 1, 2, 1, PROFILE_CALL_DIRECT), 1);
        assert_int_equal(store_close(store, profile, false, NULL), BASE_OK);
        profile_free(profile);
        assert_int_equal(run(lies[i]), SQLITE_OK);
        if (store_load(path, &loaded, NULL) != BASE_EFORMAT)
            fail_msg("read: %s", lies[i]);
        unlink(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges_agree_with_an_array),
        cmocka_unit_test(the_counter_comes_with_the_first_edge),
        cmocka_unit_test(what_is_no_edge_is_refused),
        cmocka_unit_test(sums_stop_at_the_top),
        cmocka_unit_test_teardown(each_flush_makes_the_file_the_model, profile_directory_clean),
        cmocka_unit_test_teardown(loaded_edges_are_found_again, profile_directory_clean),
        cmocka_unit_test_teardown(a_flush_writes_what_changed, profile_directory_clean),
        cmocka_unit_test_teardown(views_add_up, profile_directory_clean),
        cmocka_unit_test_teardown(version_1_is_read, profile_directory_clean),
        cmocka_unit_test_teardown(files_that_lie_are_refused, profile_directory_clean),
    };
    return cmocka_run_group_tests(tests, profile_directory_make, profile_directory_remove);
}
