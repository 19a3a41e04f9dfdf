/* What is said in one line of exceptions and of memory that was mapped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report.h"
#include "report_counted.h"

static struct profile *profile;
static uint32_t node, thread;

static int set_up(void **state)
{
    (void)state;
    profile = profile_new();
    uint32_t image = profile_image(profile, PROFILE_IMAGE_FILE, "/bin/a", "01", 0);
    node = profile_node(profile, 0, profile_address(profile, image, 4096), 0);
    thread = profile_thread(profile, profile_process(profile, 7, 0), 0);
    return node && thread ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    profile_free(profile);
    return 0;
}

static void count(const char *name, const char *unit, int64_t value)
{
    uint16_t counter = (uint16_t)profile_counter(profile, name, unit, true, PROFILE_SUM);
    profile_count(profile, (struct profile_key){node, thread, PROFILE_NO_CPU, counter}, value, 1);
}

static void says(const char *throws, const char *maps)
{
    struct base_text text = {0};
    report_counted_throws(&text, profile);
    assert_string_equal(base_text_string(&text), throws);
    base_text_clear(&text);
    report_counted_maps(&text, profile, true);
    assert_string_equal(base_text_string(&text), maps);
    base_text_free(&text);
}

static void says_empty(const char *meta, const char *line)
{
    struct base_text text = {0};
    profile_set_meta(profile, "empty_pages", meta);
    report_counted_empty(&text, profile, true);
    assert_string_equal(base_text_string(&text), line);
    base_text_free(&text);
}

static void test_empty_pages(void **state)
{
    (void)state;
    says_empty("zero", "");
    count("empty.bytes", "bytes", 3 << 20);
    says_empty("zero", "empty: 3.00 MiB in pages of zeros alone");
    says_empty("init", "empty: 3.00 MiB in pages of zeros alone that were written");
    says_empty("unused", "empty: 3.00 MiB in pages that were never used");
    says_empty("mixed", "empty: 3.00 MiB in pages of several kinds");
    says_empty("what a later version wrote", "empty: 3.00 MiB in pages of blocks");
}

static void test_nothing_was_counted(void **state)
{
    (void)state;
    says("", "");
    count("map.total", "bytes", 4096);
    says("", ""); /* half of it: no recording is like that */
}

static void test_figures(void **state)
{
    (void)state;
    count("throw.count", "exceptions", 1);
    count("map.total", "bytes", 3 << 20);
    count("map.live", "bytes", 4096);
    says("1 exception thrown", "mapped: 3.00 MiB, 4.00 KiB of it still at the end");
    count("throw.count", "exceptions", 9339);
    says("9,340 exceptions thrown", "mapped: 3.00 MiB, 4.00 KiB of it still at the end");
}

/* None were thrown: that is worth a word, when they were counted. */
static void test_none(void **state)
{
    (void)state;
    profile_counter(profile, "throw.count", "exceptions", true, PROFILE_SUM);
    profile_counter(profile, "map.total", "bytes", true, PROFILE_SUM);
    profile_counter(profile, "map.live", "bytes", true, PROFILE_LIVE);
    says("0 exceptions thrown", "mapped: 0 B");
}

static void test_descriptors(void **state)
{
    (void)state;
    struct base_text text = {0};
    report_counted_descriptors(&text, profile);
    assert_string_equal(base_text_string(&text), "");
    count("fd.used", "descriptors", 1204);
    count("fd.live", "descriptors", 12);
    report_counted_descriptors(&text, profile);
    assert_string_equal(base_text_string(&text), "1,204 descriptors opened, 12 still open at the end");
    base_text_free(&text);
}

static void test_the_largest(void **state)
{
    (void)state;
    count("throw.count", "exceptions", INT64_MAX);
    uint32_t other = profile_thread(profile, profile_process(profile, 8, 0), 0);
    uint16_t counter = (uint16_t)profile_counter_named(profile, "throw.count");
    profile_count(profile, (struct profile_key){node, other, PROFILE_NO_CPU, counter}, 5, 1);
    struct base_text text = {0};
    report_counted_throws(&text, profile);
    assert_string_equal(base_text_string(&text), "9.2 E exceptions thrown");
    base_text_free(&text);
}

static bool header_has(const char *words, uint64_t from_ns)
{
    const struct view_options options = {.view = VIEW_FLAT, .part.from_ns = from_ns};
    struct base_text text = {0};
    assert_int_equal(report_print(profile, &options, &text, NULL), BASE_OK);
    bool found = strstr(base_text_string(&text), words) != NULL;
    base_text_free(&text);
    return found;
}

/* They have no times: of a part of the recording nothing is known, and 0 would be a lie. */
static void test_a_part_of_the_time(void **state)
{
    static const struct {
        const char *counter, *unit, *words;
    } all[] = {{"throw.count", "exceptions", "exceptions thrown"},
               {"map.live", "bytes", "mapped:"},
               {"fd.live", "descriptors", "descriptors opened"},
               {"empty.bytes", "bytes", "empty:"},
               {"heap.total", "bytes", "heap:"}};
    (void)state;
    count("map.total", "bytes", 9);
    count("fd.used", "descriptors", 9);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        count(all[i].counter, all[i].unit, 5);
        assert_true(header_has(all[i].words, 0));
        assert_false(header_has(all[i].words, 1));
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_nothing_was_counted),
        TEST(test_empty_pages),
        TEST(test_figures),
        TEST(test_none),
        TEST(test_descriptors),
        TEST(test_the_largest),
        TEST(test_a_part_of_the_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
