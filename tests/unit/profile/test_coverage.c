/* What of an image is counted: said once and again, kept up to a limit, written, read, asked for; files of
 * older versions and files that lie. */
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

enum { IMAGES = 3 };

static struct profile *new_profile(void)
{
    struct profile *profile = profile_new();
    assert_non_null(profile);
    assert_int_equal(profile_image(profile, PROFILE_IMAGE_FILE, "/bin/a", "01", 0), 1);
    assert_int_equal(profile_image(profile, PROFILE_IMAGE_FILE, "/lib/b.so", "02", 0), 2);
    assert_int_equal(profile_image(profile, PROFILE_IMAGE_FILE, "/opt/b.so", "03", 0), 3);
    return profile;
}

static struct profile_coverage coverage_of(const struct profile *profile, uint32_t image, uint32_t kind)
{
    struct profile_coverage found = {0};
    for (size_t i = 1; i < profile->coverage_count; i++) {
        if (profile->coverage[i].image != image || profile->coverage[i].kind != kind)
            continue;
        assert_int_equal(found.image, 0); /* one row each */
        found = profile->coverage[i];
    }
    return found;
}

static void assert_coverage(const struct profile *profile, uint32_t image, uint32_t kind, uint64_t found,
                            uint64_t counted)
{
    struct profile_coverage it = coverage_of(profile, image, kind);
    assert_int_equal(it.image, image);
    assert_int_equal(it.found, found);
    assert_int_equal(it.counted, counted);
}

/* --- the model --- */

static void what_is_said_again_replaces(void **state)
{
    (void)state;
    struct profile *profile = new_profile();
    for (uint64_t round = 1; round <= 3; round++)
        for (uint32_t image = 1; image <= IMAGES; image++) {
            profile_set_coverage(profile, image, PROFILE_COVERAGE_SITES, 100 * image + round, 90 * image);
            profile_set_coverage(profile, image, PROFILE_COVERAGE_INDIRECT, 10 * image, round);
            profile_set_left(profile, image, 11, "jumps of some kind", round);
            profile_set_left(profile, image, 7, round < 3 ? "old words" : "new words", image);
        }
    assert_int_equal(profile->coverage_count, 1 + 2 * IMAGES);
    assert_int_equal(profile->left_count, 1 + 2 * IMAGES);
    for (uint32_t image = 1; image <= IMAGES; image++) {
        assert_coverage(profile, image, PROFILE_COVERAGE_SITES, 100 * image + 3, 90 * image);
        assert_coverage(profile, image, PROFILE_COVERAGE_INDIRECT, 10 * image, 3);
    }
    for (size_t i = 1; i < profile->left_count; i++) {
        const struct profile_left *left = &profile->left[i];
        assert_int_equal(left->count, left->code == 11 ? 3 : left->image);
        assert_string_equal(profile_text(profile, left->reason),
                            left->code == 11 ? "jumps of some kind" : "new words");
    }
    assert_int_equal(profile_check(profile, NULL), BASE_OK);
    profile_free(profile);
}

static void what_makes_no_sense_is_ignored_or_cut(void **state)
{
    (void)state;
    struct profile *profile = new_profile();
    profile_set_coverage(profile, 0, PROFILE_COVERAGE_SITES, 1, 1);
    profile_set_coverage(profile, IMAGES + 1, PROFILE_COVERAGE_SITES, 1, 1);
    profile_set_coverage(profile, 1, (enum profile_coverage_kind)0, 1, 1);
    profile_set_coverage(profile, 1, PROFILE_COVERAGE_LISTED, 1, 1);
    profile_set_coverage(profile, 1, PROFILE_COVERAGE_KINDS, 1, 1);
    profile_set_left(profile, 0, 1, "x", 1);
    profile_set_left(profile, IMAGES + 1, 1, "x", 1);
    profile_set_left(profile, 1, 1, "nothing was left", 0);
    profile_set_uncovered(profile, 0, 1, "f", "x");
    profile_set_uncovered(profile, IMAGES + 1, 1, "f", "x");
    assert_int_equal(profile->coverage_count + profile->left_count + profile->uncovered_count, 3);
    profile_set_coverage(profile, 1, PROFILE_COVERAGE_SITES, 5, 6);
    profile_set_coverage(profile, 2, PROFILE_COVERAGE_SITES, UINT64_MAX, UINT64_MAX);
    profile_set_left(profile, 1, 2, NULL, UINT64_MAX);
    assert_coverage(profile, 1, PROFILE_COVERAGE_SITES, 5, 5);
    assert_coverage(profile, 2, PROFILE_COVERAGE_SITES, INT64_MAX, INT64_MAX);
    assert_int_equal(profile->left[1].count, INT64_MAX);
    profile_set_left(profile, 1, 2, NULL, 0); /* what was left is no longer */
    assert_int_equal(profile->left[1].count, 0);
    assert_int_equal(profile_check(profile, NULL), BASE_OK);
    profile_free(profile);
}

/* Past the thousandth only the number grows; each function counts once however often it is published; images
 * do not mix. */
static void a_thousand_functions_of_an_image_are_kept(void **state)
{
    (void)state;
    enum { LISTED = 2500 };
    struct profile *profile = new_profile();
    for (int round = 0; round < 2; round++)
        for (uint64_t i = 0; i < LISTED; i++) {
            char name[32];
            snprintf(name, sizeof name, "f%d", (int)i);
            profile_set_uncovered(profile, 2, 0x1000 + i, name, round ? "second" : "first");
            if (i % 10 == 0)
                profile_set_uncovered(profile, 3, 0x1000 + i, NULL, "third");
        }
    assert_int_equal(profile->uncovered_count, 1 + PROFILE_UNCOVERED_MOST + LISTED / 10);
    assert_coverage(profile, 2, PROFILE_COVERAGE_LISTED, LISTED, PROFILE_UNCOVERED_MOST);
    assert_coverage(profile, 3, PROFILE_COVERAGE_LISTED, LISTED / 10, LISTED / 10);
    uint64_t next = 0x1000;
    for (size_t i = 1; i < profile->uncovered_count; i++) {
        const struct profile_uncovered *it = &profile->uncovered[i];
        if (it->image == 3) {
            assert_int_equal(it->name, 0);
            continue;
        }
        char name[32];
        snprintf(name, sizeof name, "f%d", (int)(next - 0x1000));
        assert_int_equal(it->address, next++); /* the first, in their order */
        assert_string_equal(profile_text(profile, it->name), name);
        assert_string_equal(profile_text(profile, it->reason), "second");
    }
    assert_int_equal(next, 0x1000 + PROFILE_UNCOVERED_MOST);
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

static int add_row(void *context, int count, char **values, char **names)
{
    (void)names;
    char *text = context;
    size_t used = strlen(text);
    for (int i = 0; i < count; i++)
        used +=
            (size_t)snprintf(text + used, 1024 - used, "%s%s", i ? "|" : "", values[i] ? values[i] : "null");
    snprintf(text + used, 1024 - used, "\n");
    return 0;
}

static void assert_answer(const char *sql, const char *expected)
{
    sqlite3 *db;
    char text[1024] = "";
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    assert_int_equal(sqlite3_exec(db, sql, add_row, text, NULL), SQLITE_OK);
    sqlite3_close(db);
    assert_string_equal(text, expected);
}

static void write_file(struct profile *profile)
{
    struct store *store;
    assert_int_equal(store_create(path, &store, NULL), BASE_OK);
    assert_int_equal(store_close(store, profile, false, NULL), BASE_OK);
}

static void check_same(const struct profile *written)
{
    struct profile *loaded;
    assert_int_equal(store_load(path, &loaded, NULL), BASE_OK);
    assert_int_equal(loaded->coverage_count, written->coverage_count);
    assert_int_equal(loaded->left_count, written->left_count);
    assert_int_equal(loaded->uncovered_count, written->uncovered_count);
    for (size_t i = 1; i < loaded->coverage_count; i++)
        assert_memory_equal(&loaded->coverage[i], &written->coverage[i], sizeof *loaded->coverage);
    for (size_t i = 1; i < loaded->left_count; i++)
        assert_memory_equal(&loaded->left[i], &written->left[i], sizeof *loaded->left);
    for (size_t i = 1; i < loaded->uncovered_count; i++) {
        const struct profile_uncovered *one = &loaded->uncovered[i], *two = &written->uncovered[i];
        assert_int_equal(one->address, two->address);
        assert_int_equal(one->image, two->image);
        assert_string_equal(profile_text(loaded, one->name), profile_text(written, two->name));
        assert_string_equal(profile_text(loaded, one->reason), profile_text(written, two->reason));
    }
    profile_free(loaded);
}

static void each_flush_makes_the_file_the_model(void **state)
{
    (void)state;
    struct profile *profile = new_profile();
    struct store *store;
    assert_int_equal(store_create(path, &store, NULL), BASE_OK);
    uint64_t random = 5;
    for (int round = 0; round < 8; round++) {
        for (int i = 0; i < 60; i++) {
            random = base_hash(random + 1);
            uint32_t image = 1 + (uint32_t)(random % IMAGES), code = (uint32_t)(random >> 8) % 20;
            enum profile_coverage_kind kind = 1 + (random >> 16) % 4;
            profile_set_coverage(profile, image, kind, random >> 40, random >> 41);
            profile_set_left(profile, image, code, code % 2 ? "odd" : "even", (random >> 32) % 9);
            profile_set_uncovered(profile, image, UINT64_MAX - random % 97, code % 3 ? "f" : NULL,
                                  code % 2 ? "odd" : "even");
        }
        assert_int_equal(store_flush(store, profile, NULL), BASE_OK);
        check_same(profile);
    }
    assert_int_equal(store_close(store, profile, false, NULL), BASE_OK);
    check_same(profile);
    profile_free(profile);
}

/* Rows that did not change are not written: what somebody else put there stays. */
static void a_flush_writes_what_changed(void **state)
{
    (void)state;
    struct profile *profile = new_profile();
    struct store *store;
    assert_int_equal(store_create(path, &store, NULL), BASE_OK);
    for (uint32_t image = 1; image <= IMAGES; image++) {
        profile_set_coverage(profile, image, PROFILE_COVERAGE_SITES, 10, 9);
        profile_set_left(profile, image, 1, "a", 1);
        profile_set_uncovered(profile, image, 16, "f", "a");
    }
    assert_int_equal(store_flush(store, profile, NULL), BASE_OK);
    assert_int_equal(run("UPDATE data_coverage SET found = 99; UPDATE data_left SET count = 99;"
                         "UPDATE data_uncovered SET address = 99"),
                     SQLITE_OK);
    for (uint32_t image = 1; image <= IMAGES; image++) {
        profile_set_coverage(profile, image, PROFILE_COVERAGE_SITES, 10, image == 2 ? 8 : 9);
        profile_set_left(profile, image, 1, "a", image == 2 ? 3 : 1);
        profile_set_uncovered(profile, image, 16, image == 2 ? "g" : "f", "a");
    }
    assert_int_equal(store_flush(store, profile, NULL), BASE_OK);
    assert_answer("SELECT image, kind, found, counted FROM data_coverage WHERE found <> 99", "2|1|10|8\n");
    assert_answer("SELECT image, code, count FROM data_left WHERE count <> 99", "2|1|3\n");
    assert_answer("SELECT image, address FROM data_uncovered WHERE address <> 99", "2|16\n");
    assert_int_equal(store_close(store, profile, false, NULL), BASE_OK);
    profile_free(profile);
}

static void a_loaded_profile_goes_on(void **state)
{
    (void)state;
    struct profile *profile = new_profile(), *loaded;
    profile_set_coverage(profile, 1, PROFILE_COVERAGE_SITES, 10, 9);
    profile_set_left(profile, 1, 1, "a", 1);
    for (uint64_t i = 0; i < PROFILE_UNCOVERED_MOST - 1; i++)
        profile_set_uncovered(profile, 1, i, "f", "a");
    write_file(profile);
    profile_free(profile);
    assert_int_equal(store_load(path, &loaded, NULL), BASE_OK);
    profile_set_coverage(loaded, 1, PROFILE_COVERAGE_SITES, 12, 9);
    profile_set_left(loaded, 1, 1, "a", 5);
    profile_set_uncovered(loaded, 1, 3, "g", "a");
    profile_set_uncovered(loaded, 1, 5000, "g", "a");
    profile_set_uncovered(loaded, 1, 5001, "g", "a");
    assert_coverage(loaded, 1, PROFILE_COVERAGE_SITES, 12, 9);
    assert_coverage(loaded, 1, PROFILE_COVERAGE_LISTED, PROFILE_UNCOVERED_MOST + 1, PROFILE_UNCOVERED_MOST);
    assert_int_equal(loaded->left_count, 2);
    assert_int_equal(loaded->left[1].count, 5);
    assert_int_equal(loaded->uncovered_count, PROFILE_UNCOVERED_MOST + 1);
    assert_string_equal(profile_text(loaded, loaded->uncovered[4].name), "g");
    assert_string_equal(profile_text(loaded, loaded->uncovered[5].name), "f");
    profile_free(loaded);
}

static void views_say_it_in_words(void **state)
{
    (void)state;
    struct profile *profile = new_profile();
    profile_set_coverage(profile, 2, PROFILE_COVERAGE_TAKEN, 4, 3);
    profile_set_coverage(profile, 2, PROFILE_COVERAGE_SITES, 100, 98);
    profile_set_coverage(profile, 2, PROFILE_COVERAGE_INDIRECT, 7, 6);
    profile_set_coverage(profile, 2, PROFILE_COVERAGE_FUNCTIONS, 30, 28);
    profile_set_coverage(profile, 1, PROFILE_COVERAGE_SITES, 1, 0);
    profile_set_left(profile, 2, 30, "functions too short", 1);
    profile_set_left(profile, 2, 10, "short calls", 3);
    profile_set_left(profile, 2, 7, "no longer", 3);
    profile_set_left(profile, 2, 7, "no longer", 0);
    profile_set_uncovered(profile, 2, 0x40, "f", "functions too short");
    profile_set_uncovered(profile, 2, UINT64_C(0xffffffffffff0010), "", "functions too short");
    write_file(profile);
    profile_free(profile);
    assert_answer("SELECT image, path, kind, found, counted FROM coverage", "a|/bin/a|sites|1|0\n"
                                                                            "b.so|/lib/b.so|sites|100|98\n"
                                                                            "b.so|/lib/b.so|indirect|7|6\n"
                                                                            "b.so|/lib/b.so|functions|30|28\n"
                                                                            "b.so|/lib/b.so|taken|4|3\n"
                                                                            "b.so|/lib/b.so|listed|2|2\n");
    assert_answer("SELECT image, path, code, reason, count FROM coverage_left",
                  "b.so|/lib/b.so|10|short calls|3\n"
                  "b.so|/lib/b.so|30|functions too short|1\n");
    assert_answer("SELECT image, path, function, address, reason FROM uncovered",
                  "b.so|/lib/b.so|f|64|functions too short\n"
                  "b.so|/lib/b.so|b.so+0xffffffffffff0010|-65520|functions too short\n");
}

static const char DROP[] =
    "DROP VIEW coverage; DROP VIEW coverage_left; DROP VIEW uncovered;"
    "DROP TABLE data_coverage; DROP TABLE data_left; DROP TABLE data_uncovered; DROP TABLE data_peaks;"
    "DROP TABLE data_latency; DROP TABLE data_latency_calls; DROP TABLE data_descriptors";

static void version_2_is_read(void **state)
{
    (void)state;
    struct profile *profile = new_profile(), *loaded;
    profile_set_coverage(profile, 1, PROFILE_COVERAGE_SITES, 10, 9);
    write_file(profile);
    profile_free(profile);
    assert_int_equal(run("PRAGMA user_version = 2"), SQLITE_OK);
    assert_int_equal(store_load(path, &loaded, NULL), BASE_EFORMAT); /* has what version 2 had not */
    assert_int_equal(run(DROP), SQLITE_OK);
    assert_int_equal(store_load(path, &loaded, NULL), BASE_OK);
    assert_int_equal(loaded->coverage_count + loaded->left_count + loaded->uncovered_count, 3);
    assert_int_equal(loaded->image_count, IMAGES + 1);
    profile_free(loaded);
    assert_int_equal(run("PRAGMA user_version = 3"), SQLITE_OK);
    assert_int_equal(store_load(path, &loaded, NULL), BASE_EFORMAT); /* and has not what version 3 has */
}

static void files_that_lie_are_refused(void **state)
{
    (void)state;
    static const char *const lies[] = {
        "UPDATE data_coverage SET image = 0",
        "UPDATE data_coverage SET image = 4",
        "UPDATE data_coverage SET kind = 0",
        "UPDATE data_coverage SET kind = 6",
        "UPDATE data_coverage SET found = -1",
        "UPDATE data_coverage SET counted = 11",
        "UPDATE data_coverage SET counted = -1",
        "UPDATE data_coverage SET id = 100000000 WHERE id = 2",
        "UPDATE data_left SET image = 0",
        "UPDATE data_left SET image = -1",
        "UPDATE data_left SET code = -1",
        "UPDATE data_left SET code = 4294967296",
        "UPDATE data_left SET reason = 100",
        "UPDATE data_left SET count = -1",
        "UPDATE data_left SET id = 3",
        "UPDATE data_uncovered SET image = 0",
        "UPDATE data_uncovered SET image = 4",
        "UPDATE data_uncovered SET name = 100",
        "UPDATE data_uncovered SET reason = -1",
        "UPDATE data_uncovered SET id = 0",
        "UPDATE data_uncovered SET id = 16777300",
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct profile *profile = new_profile(), *loaded;
        profile_set_coverage(profile, 1, PROFILE_COVERAGE_SITES, 10, 9);
        profile_set_left(profile, 1, 1, "a", 1);
        profile_set_uncovered(profile, 1, 16, "f", "a");
        write_file(profile);
        profile_free(profile);
        assert_int_equal(store_load(path, &loaded, NULL), BASE_OK);
        profile_free(loaded);
        assert_int_equal(run(lies[i]), SQLITE_OK);
        if (store_load(path, &loaded, NULL) != BASE_EFORMAT)
            fail_msg("read: %s", lies[i]);
        unlink(path);
    }
}

/* Rows that say two things of one are no danger: the last one is what is replaced. */
static void files_that_repeat_themselves_are_read(void **state)
{
    (void)state;
    struct profile *profile = new_profile(), *loaded;
    profile_set_coverage(profile, 1, PROFILE_COVERAGE_SITES, 10, 9);
    profile_set_uncovered(profile, 1, 16, "f", "a");
    write_file(profile);
    profile_free(profile);
    assert_int_equal(
        run("INSERT INTO data_coverage SELECT id + 2, image, kind, found, counted FROM data_coverage;"
            "INSERT INTO data_uncovered SELECT id + 1, image, address, name, reason FROM data_uncovered"),
        SQLITE_OK);
    assert_int_equal(store_load(path, &loaded, NULL), BASE_OK);
    profile_set_coverage(loaded, 1, PROFILE_COVERAGE_SITES, 20, 20);
    profile_set_uncovered(loaded, 1, 16, "g", "a");
    assert_int_equal(loaded->coverage_count, 5);
    assert_int_equal(loaded->uncovered_count, 3);
    assert_int_equal(profile_check(loaded, NULL), BASE_OK);
    profile_free(loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_said_again_replaces),
        cmocka_unit_test(what_makes_no_sense_is_ignored_or_cut),
        cmocka_unit_test(a_thousand_functions_of_an_image_are_kept),
        cmocka_unit_test_teardown(each_flush_makes_the_file_the_model, profile_directory_clean),
        cmocka_unit_test_teardown(a_flush_writes_what_changed, profile_directory_clean),
        cmocka_unit_test_teardown(a_loaded_profile_goes_on, profile_directory_clean),
        cmocka_unit_test_teardown(views_say_it_in_words, profile_directory_clean),
        cmocka_unit_test_teardown(version_2_is_read, profile_directory_clean),
        cmocka_unit_test_teardown(files_that_lie_are_refused, profile_directory_clean),
        cmocka_unit_test_teardown(files_that_repeat_themselves_are_read, profile_directory_clean),
    };
    return cmocka_run_group_tests(tests, profile_directory_make, profile_directory_remove);
}
