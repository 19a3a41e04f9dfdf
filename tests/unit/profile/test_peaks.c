/* Figures that are no sums: cells of peak counters, peaks of processes, merged, folded, written, read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "merge.h"
#include "profile.h"
#include "profile_directory.h"
#include "profile_heap.h"
#include "store.h"

/* A process, and two stacks of which the second goes through the first. */
struct scene {
    struct profile *profile;
    uint32_t process, thread, outer, inner;
};

static struct scene set_scene(void)
{
    struct scene scene = {.profile = profile_new()};
    struct profile *profile = scene.profile;
    scene.process = profile_process(profile, 7, 0);
    scene.thread = profile_thread(profile, scene.process, 0);
    uint32_t image = profile_image(profile, PROFILE_IMAGE_FILE, "/bin/a", "01", 0);
    scene.outer = profile_node(profile, 0, profile_address(profile, image, 0x10), 0);
    scene.inner = profile_node(profile, scene.outer, profile_address(profile, image, 0x20), 0);
    return scene;
}

static uint16_t counter_of(const struct scene *scene, enum profile_heap which)
{
    return (uint16_t)profile_heap_counter(scene->profile, which, true);
}

static int64_t cell_of(const struct profile *profile, uint32_t node, enum profile_heap which)
{
    uint32_t counter = profile_heap_find(profile, which);
    for (size_t i = 0; i < profile->cell_count; i++)
        if (profile->cells[i].node == node && profile->cells[i].counter == counter)
            return profile->cells[i].value;
    return -1;
}

static void count(const struct scene *scene, uint32_t node, enum profile_heap which, int64_t value)
{
    profile_count(scene->profile,
                  (struct profile_key){node, scene->thread, PROFILE_NO_CPU, counter_of(scene, which)}, value,
                  1);
}

static void the_larger_stays(void **state)
{
    (void)state;
    struct scene scene = set_scene();
    count(&scene, scene.inner, PROFILE_HEAP_LARGEST, 5);
    count(&scene, scene.inner, PROFILE_HEAP_LARGEST, 9);
    count(&scene, scene.inner, PROFILE_HEAP_LARGEST, 3);
    count(&scene, scene.inner, PROFILE_HEAP_LIVE, 5);
    count(&scene, scene.inner, PROFILE_HEAP_LIVE, -2);
    assert_int_equal(cell_of(scene.profile, scene.inner, PROFILE_HEAP_LARGEST), 9);
    assert_int_equal(cell_of(scene.profile, scene.inner, PROFILE_HEAP_LIVE), 3);
    assert_int_equal(profile_heap_find(scene.profile, PROFILE_HEAP_TOTAL), 0);
    profile_free(scene.profile);
}

static void folding_keeps_the_larger(void **state)
{
    (void)state;
    struct scene scene = set_scene();
    struct profile *profile = scene.profile;
    uint32_t image = profile_image(profile, PROFILE_IMAGE_FILE, "/bin/a", "01", 0);
    profile->max_nodes = 100;
    for (uint32_t i = 0; i < 200; i++) {
        uint32_t address = profile_address(profile, image, 0x1000 + i);
        uint32_t node = profile_node(profile, 0, address, 0);
        count(&scene, node, PROFILE_HEAP_MAX, 1000 + i);
        count(&scene, node, PROFILE_HEAP_TOTAL, 10);
    }
    assert_true(profile_folds(profile) > 0);
    int64_t most = 0, total = 0;
    for (size_t i = 0; i < profile->cell_count; i++) {
        const struct profile_cell *cell = &profile->cells[i];
        if (cell->counter == profile_heap_find(profile, PROFILE_HEAP_TOTAL))
            total += cell->value;
        else if (cell->value > most)
            most = cell->value;
    }
    assert_int_equal(most, 1199);
    assert_int_equal(total, 2000);
    profile_free(profile);
}

static void a_peak_is_replaced(void **state)
{
    (void)state;
    struct scene scene = set_scene();
    struct profile *profile = scene.profile;
    uint16_t counter = counter_of(&scene, PROFILE_HEAP_PEAK);
    profile_set_peak(profile, scene.process, counter, 100, 1);
    profile_set_peak(profile, scene.process, counter, 300, 2);
    profile_set_peak(profile, scene.process, counter, 200, 3);
    profile_set_peak(profile, 0, counter, 1, 1);
    profile_set_peak(profile, scene.process, 0, 1, 1);
    profile_set_peak(profile, 99, counter, 1, 1);
    assert_int_equal(profile->peak_count, 2);
    assert_int_equal(profile->peaks[1].value, 300);
    assert_int_equal(profile->peaks[1].time_ns, 2);
    profile_free(profile);
}

static struct profile *write_and_read(struct profile *profile)
{
    struct store *store;
    struct profile *loaded;
    struct base_error error = {0};
    unlink(path);
    assert_int_equal(store_create(path, &store, &error), BASE_OK);
    assert_int_equal(store_close(store, profile, false, &error), BASE_OK);
    assert_int_equal(store_load(path, &loaded, &error), BASE_OK);
    return loaded;
}

static void written_and_merged(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct scene scene = set_scene();
    uint16_t counter = counter_of(&scene, PROFILE_HEAP_PEAK);
    count(&scene, scene.inner, PROFILE_HEAP_PEAK, 300);
    profile_set_peak(scene.profile, scene.process, counter, 300, 2);
    struct profile *loaded = write_and_read(scene.profile), *into = profile_new();
    assert_int_equal(loaded->peak_count, 2);
    profile_set_peak(loaded, scene.process, counter, 400, 5); /* it is found again */
    assert_int_equal(loaded->peak_count, 2);
    assert_int_equal(loaded->peaks[1].value, 400);
    for (int i = 0; i < 2; i++)
        assert_int_equal(merge_add(into, loaded, path, &error), BASE_OK);
    assert_int_equal(into->peak_count, 3);
    assert_int_equal(into->peaks[1].process, 1);
    assert_int_equal(into->peaks[2].process, 2);
    assert_int_equal(into->peaks[2].value, 400);
    assert_int_equal(profile_check(into, &error), BASE_OK);
    profile_free(scene.profile);
    profile_free(loaded);
    profile_free(into);
}

static void a_file_that_lies(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct scene scene = set_scene();
    profile_set_peak(scene.profile, scene.process, counter_of(&scene, PROFILE_HEAP_PEAK), 300, 2);
    struct profile *loaded = write_and_read(scene.profile);
    profile_free(loaded);
    profile_free(scene.profile);
    static const char *const lies[] = {"UPDATE data_peaks SET process = 9",
                                       "UPDATE data_peaks SET counter = -1",
                                       "UPDATE data_peaks SET counter = 0", "DROP TABLE data_peaks"};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        sqlite3 *db;
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db, lies[i], NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(db);
        assert_int_equal(store_load(path, &loaded, &error), BASE_EFORMAT);
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        sqlite3_exec(db, "UPDATE data_peaks SET process = 1, counter = 1", NULL, NULL, NULL);
        sqlite3_close(db);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_larger_stays),   cmocka_unit_test(folding_keeps_the_larger),
        cmocka_unit_test(a_peak_is_replaced), cmocka_unit_test(written_and_merged),
        cmocka_unit_test(a_file_that_lies),
    };
    return cmocka_run_group_tests(tests, profile_directory_make, profile_directory_remove);
}
