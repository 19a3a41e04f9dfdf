/* The timeline as the page gets it, beside the samples that were put in: each in the step it fell into,
 * however few slots there may be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "export_timeline.h"
#include "failing.h"
#include "profile.h"
#include "profile_directory.h"
#include "store.h"

enum { SAMPLES = 30000, NODES = 5, THREADS = 3 };

struct put { /* one sample */
    uint64_t time_ns;
    uint32_t thread, node;
};

static struct put truth[SAMPLES];

static struct profile *make_profile(uint16_t *counter)
{
    struct profile *profile = profile_new();
    uint32_t nodes[NODES], threads[THREADS], process = profile_process(profile, 7, 0);
    uint32_t image = profile_image(profile, PROFILE_IMAGE_FILE, "/bin/x", NULL, 0);
    *counter = (uint16_t)profile_counter(profile, "time.cpu", "ns", false, PROFILE_SUM);
    for (uint32_t i = 0; i < NODES; i++)
        nodes[i] = profile_node(profile, i ? nodes[i - 1] : 0, profile_address(profile, image, 64 + i), 0);
    for (int i = 0; i < THREADS; i++)
        threads[i] = profile_thread(profile, process, 7 + i);
    uint64_t state = 1, time = 0;
    for (int i = 0; i < SAMPLES; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        time += state >> 44; /* a millisecond at most */
        truth[i] = (struct put){time, threads[(state >> 33) % THREADS], nodes[(state >> 40) % NODES]};
        profile_count(profile,
                      (struct profile_key){truth[i].node, truth[i].thread, (uint16_t)(i & 1), *counter}, 1000,
                      1);
        profile_timeline_add(profile, time, truth[i].thread, truth[i].node, (uint16_t)(i & 1), *counter);
    }
    return profile;
}

static struct profile *write_profile(void)
{
    struct store *store;
    struct base_error error = {0};
    uint16_t counter;
    struct profile *profile = make_profile(&counter);
    assert_int_equal(store_create(path, &store, &error), BASE_OK);
    assert_int_equal(store_close(store, profile, false, &error), BASE_OK);
    return profile;
}

static size_t count_truth(const struct export_timeline *timeline, const struct export_slot *slot, int cpu)
{
    size_t count = 0;
    for (int i = 0; i < SAMPLES; i++)
        count += truth[i].time_ns / timeline->step_ns == slot->step && truth[i].thread == slot->thread &&
                 truth[i].node == slot->node && (cpu < 0 || cpu == (i & 1));
    return count;
}

static bool in_order(const struct export_slot *a, const struct export_slot *b)
{
    return a->thread != b->thread ? a->thread < b->thread
           : a->step != b->step   ? a->step < b->step
                                  : a->node < b->node;
}

/* Every 37th slot is counted anew. */
static void check_slots(const struct export_timeline *timeline, size_t most, size_t samples, int cpu)
{
    size_t sum = 0;
    uint64_t steps = truth[SAMPLES - 1].time_ns / timeline->step_ns;
    assert_true(timeline->count > most / 4 &&
                timeline->count <= (steps / 2 < EXPORT_TIMELINE_STEPS ? most * 5 / 2 : most));
    for (size_t i = 0; i < timeline->count; i++) {
        sum += timeline->slots[i].samples;
        assert_true(!i || in_order(&timeline->slots[i - 1], &timeline->slots[i]));
        if (i % 37 == 0)
            assert_int_equal(timeline->slots[i].samples, count_truth(timeline, &timeline->slots[i], cpu));
    }
    assert_int_equal(sum, samples);
}

static void every_sample_has_its_step(void **state)
{
    (void)state;
    struct profile *profile = write_profile();
    struct export_options options = {0};
    for (size_t most = 100000; most > 200; most /= 7) {
        struct export_timeline timeline;
        struct base_error error = {0};
        assert_int_equal(export_timeline_read(&timeline, path, profile, &options, most, &error), BASE_OK);
        assert_int_equal(timeline.step_ns % EXPORT_TIMELINE_STEP_NS, 0);
        if (most > SAMPLES)
            assert_int_equal(timeline.step_ns, EXPORT_TIMELINE_STEP_NS);
        check_slots(&timeline, most, SAMPLES, -1);
        export_timeline_free(&timeline);
    }
    profile_free(profile);
}

static void filters_hold(void **state)
{
    (void)state;
    struct profile *profile = write_profile();
    uint8_t cpus[8192] = {2}; /* the second one */
    struct export_options options = {.part.cpus = cpus};
    struct export_timeline timeline;
    struct base_error error = {0};
    assert_int_equal(export_timeline_read(&timeline, path, profile, &options, 20000, &error), BASE_OK);
    check_slots(&timeline, 20000, SAMPLES / 2, 1);
    export_timeline_free(&timeline);
    profile_free(profile);
}

static void fewer_slots_than_nodes_of_threads(void **state)
{
    (void)state;
    struct profile *profile = write_profile();
    struct export_options options = {0};
    struct export_timeline timeline;
    struct base_error error = {0};
    assert_int_equal(export_timeline_read(&timeline, path, profile, &options, 3, &error), BASE_OK);
    assert_int_equal(timeline.count, NODES * THREADS);
    export_timeline_free(&timeline);
    profile_free(profile);
}

static void newer_samples_are_left_out(void **state)
{
    (void)state;
    struct profile *profile = write_profile(), *older = profile_new();
    struct export_options options = {0};
    struct export_timeline timeline;
    struct base_error error = {0};
    assert_int_equal(export_timeline_read(&timeline, path, older, &options, 1000, &error), BASE_OK);
    assert_int_equal(timeline.count, 0);
    export_timeline_free(&timeline);
    profile_free(older);
    profile_free(profile);
}

static void damage_and_want_of_memory_are_reported(void **state)
{
    (void)state;
    struct profile *profile = write_profile();
    struct export_options options = {0};
    struct export_timeline timeline;
    struct base_error error = {0};
    sqlite3 *db;
    failing_begin(1);
    int code = export_timeline_read(&timeline, path, profile, &options, 1000, &error);
    failing_end();
    export_timeline_free(&timeline);
    assert_true(code < 0 && error.text[0]);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "UPDATE data_timeline SET bytes = x'00'", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    base_error_clear(&error);
    assert_int_equal(export_timeline_read(&timeline, path, profile, &options, 1000, &error), BASE_EFORMAT);
    assert_non_null(strstr(error.text, "timeline"));
    export_timeline_free(&timeline);
    profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_sample_has_its_step, profile_directory_clean),
        cmocka_unit_test_teardown(filters_hold, profile_directory_clean),
        cmocka_unit_test_teardown(fewer_slots_than_nodes_of_threads, profile_directory_clean),
        cmocka_unit_test_teardown(newer_samples_are_left_out, profile_directory_clean),
        cmocka_unit_test_teardown(damage_and_want_of_memory_are_reported, profile_directory_clean),
    };
    return cmocka_run_group_tests(tests, profile_directory_make, profile_directory_remove);
}
