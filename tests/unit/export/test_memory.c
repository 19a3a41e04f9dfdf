/* Every allocation of every format fails once, and every piece is refused once: the export comes whole, or
 * the error does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "export.h"
#include "export_timeline.h"
#include "failing.h"
#include "sample_profile.h"

/* A sink of fixed size: it allocates nothing. */
struct kept {
    size_t length;
    long refuse; /* pieces until one is refused; negative: none is */
    char bytes[400000];
};

static bool keep(void *context, const void *bytes, size_t length)
{
    struct kept *kept = context;
    if (kept->refuse >= 0 && kept->refuse-- == 0)
        return false;
    assert_true(length <= sizeof kept->bytes - kept->length);
    memcpy(kept->bytes + kept->length, bytes, length);
    kept->length += length;
    return true;
}

static const struct export_options forms[] = {
    {.format = EXPORT_PPROF, .preferred = 1},
    {.format = EXPORT_CALLGRIND},
    {.format = EXPORT_CALLGRIND, .inlines = true},
    {.format = EXPORT_FOLDED, .counter = 1, .marks = true},
    {.format = EXPORT_FOLDED, .counter = 1, .threads = true, .samples = true},
    {.format = EXPORT_SPEEDSCOPE},
    {.format = EXPORT_SPEEDSCOPE, .threads = true},
    {.format = EXPORT_CSV, .table = EXPORT_FLAT, .inlines = true},
    {.format = EXPORT_CSV, .table = EXPORT_TREE},
    {.format = EXPORT_CSV, .table = EXPORT_EDGES},
    {.format = EXPORT_CSV, .table = EXPORT_COUNTERS},
    {.format = EXPORT_MASSIF},
    {.format = EXPORT_GPROF, .counter = 1},
    {.format = EXPORT_GPROF, .counter = 1, .inlines = true},
    {.format = EXPORT_FIREFOX, .counter = 1},
    {.format = EXPORT_FIREFOX, .counter = 2},
    {.format = EXPORT_PERFETTO, .counter = 1},
    {.format = EXPORT_HTML}, /* the last one: a build without npm has none */
};
static const struct export_document document = {.name = "flat", .bytes = "{}", .length = 2};
static struct export_slot slots[] = {{0, 1, 1, 1, 2}, {7, 1, 2, 1, 1}};
static const struct export_timeline timeline = {.step_ns = 125000, .slots = slots, .count = 2};

/* Two samples at the stack of each cell of the first counter, and what they are in. */
static void fill_times(const struct profile *profile, struct store_timeline_list *times)
{
    for (size_t i = 0; i < profile->cell_count && times->count + 2 <= times->capacity; i++)
        for (uint64_t when = 0; profile->cells[i].counter == 1 && when < 2; when++)
            times->items[times->count++] = (struct store_timeline_item){.time_ns = when * 1000000,
                                                                        .value = 1000000,
                                                                        .thread = profile->cells[i].thread,
                                                                        .node = profile->cells[i].node,
                                                                        .cpu = profile->cells[i].cpu,
                                                                        .counter = 1};
}

static size_t form_count(void)
{
    return sizeof forms / sizeof *forms - !export_has_page();
}

static int write_to(const struct profile *profile, size_t form, struct kept *kept, struct base_error *error)
{
    struct export_options options = forms[form];
    options.creator = "tally";
    options.file = "some.out";
    if (options.format == EXPORT_HTML) {
        options.documents = &document;
        options.document_count = 1;
        options.against = profile;
        options.against_file = "before.out";
        options.timeline = &timeline;
    }
    struct store_timeline_item items[64];
    struct store_timeline_list times = {.items = items, .capacity = sizeof items / sizeof *items};
    fill_times(profile, &times);
    options.times = &times;
    kept->length = 0;
    return export_profile(profile, &options, keep, kept, error);
}

static void every_allocation(void **state)
{
    (void)state;
    static struct kept whole, some;
    struct sample_profile sample = sample_profile_counted();
    whole.refuse = some.refuse = -1;
    for (size_t form = 0; form < form_count(); form++) {
        struct base_error error = {0};
        assert_int_equal(write_to(sample.profile, form, &whole, &error), BASE_OK);
        assert_true(whole.length > 100);
        uint64_t failing = 0;
        for (bool reached = true; reached; failing++) {
            base_error_clear(&error);
            failing_begin(failing + 1);
            int code = write_to(sample.profile, form, &some, &error);
            reached = failing_end() > failing;
            if (reached) {
                assert_int_equal(code, BASE_ENOMEM);
                assert_true(error.text[0]);
            } else {
                assert_int_equal(code, BASE_OK);
                assert_int_equal(some.length, whole.length);
                assert_memory_equal(some.bytes, whole.bytes, whole.length);
            }
        }
        assert_true(failing > 3);
    }
    profile_free(sample.profile);
}

static void every_refusal(void **state)
{
    (void)state;
    static struct kept some;
    struct sample_profile sample = sample_profile_counted();
    for (size_t form = 0; form < form_count(); form++) {
        struct base_error error = {0};
        some.refuse = 0;
        assert_int_equal(write_to(sample.profile, form, &some, &error), BASE_EIO);
        assert_int_equal(some.length, 0);
        assert_string_equal(error.text, "");
    }
    profile_free(sample.profile);
}

static void a_page_that_is_not_there(void **state)
{
    (void)state;
    static struct kept some;
    struct sample_profile sample = sample_profile_counted();
    struct base_error error = {0};
    some.refuse = -1;
    int code = write_to(sample.profile, sizeof forms / sizeof *forms - 1, &some, &error);
    assert_int_equal(code, export_has_page() ? BASE_OK : BASE_EUNSUPPORTED);
    assert_int_equal(some.length > 0, export_has_page());
    assert_int_equal(error.text[0] != '\0', !export_has_page());
    profile_free(sample.profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation), cmocka_unit_test(every_refusal),
                                       cmocka_unit_test(a_page_that_is_not_there)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
