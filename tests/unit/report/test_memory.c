/* Every allocation of every view fails once: the report comes whole, or the error does and nothing was
 * appended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "failing.h"
#include "report_diff.h"
#include "sample_profile.h"

/* True when there was an allocation to fail after `failing` others. */
static bool try(const struct profile *profile, const struct report_options *options, uint64_t failing,
                const char *whole)
{
    struct base_text out = {0};
    struct base_error error = {0};
    failing_begin(failing + 1);
    int code = report_print(profile, options, &out, &error);
    bool reached = failing_end() > failing;
    if (code) {
        assert_int_equal(code, BASE_ENOMEM);
        assert_true(error.text[0]);
        assert_int_equal(out.length, 0);
    } else {
        assert_string_equal(base_text_string(&out), whole);
    }
    base_text_free(&out);
    return reached;
}

static void every_allocation(void **state)
{
    (void)state;
    struct sample_profile sample = sample_profile_counted();
    sample_profile_cover(&sample);
    for (int form = 0; form < 2 * (REPORT_ANNOTATE + 1); form++) {
        const struct report_annotation annotation = {
            .function = "std::__detail", .assembly = form % 2, .around = 4};
        struct report_options options = {.annotation = &annotation,
                                         .view = (enum report_view)(form / 2),
                                         .json = form % 2,
                                         .lines = true,
                                         .part.thread = "*",
                                         .part.image = "*",
                                         .part.cpus = form / 2 == REPORT_EDGES ? NULL : "0-1",
                                         .speedup = 10,
                                         .invoke_ns = 2000,
                                         .width = 80,
                                         .limit_percent = 0.5};
        for (int by = 0; by < (form < 2 ? 6 : form / 2 == REPORT_EDGES ? 5 : 1); by++) {
            options.by = (enum report_by)by;
            char *whole = sample_profile_report(sample.profile, &options);
            uint64_t failing = 0;
            while (try(sample.profile, &options, failing, whole))
                failing++;
            assert_true(failing > 5);
            free(whole);
        }
    }
    profile_free(sample.profile);
}

static int compare(const struct report_diff_run *runs, enum report_diff_view view, struct base_text *out,
                   struct report_diff_gate *gate, struct base_error *error)
{
    struct report_diff_options options = {
        .view = view, .fail_above = 5, .limit_percent = -1, .width = 80, .json = view == REPORT_DIFF_PATHS};
    return report_diff_print(runs, 3, 1, &options, gate, out, error);
}

/* True when there was an allocation to fail after `failing` others. */
static bool try_diff(const struct report_diff_run *runs, enum report_diff_view view, uint64_t failing,
                     const char *whole)
{
    struct base_text out = {0};
    struct base_error error = {0};
    struct report_diff_gate gate = {0};
    failing_begin(failing + 1);
    int code = compare(runs, view, &out, &gate, &error);
    bool reached = failing_end() > failing;
    assert_true(code == 0 || (code == BASE_ENOMEM && error.text[0] && !out.length));
    if (!code)
        assert_string_equal(base_text_string(&out), whole);
    base_text_free(&out);
    base_text_free(&gate.names);
    return reached;
}

static void every_allocation_of_a_comparison(void **state)
{
    (void)state;
    struct sample_profile samples[3];
    struct report_diff_run runs[3];
    for (int i = 0; i < 3; i++) {
        samples[i] = sample_profile_counted();
        SAMPLE(&samples[i], 0, 100 + 3000 * (i == 2), 1);
        runs[i] = (struct report_diff_run){samples[i].profile, "file"};
    }
    for (int view = 0; view <= REPORT_DIFF_EDGES; view++) {
        struct base_text whole = {0};
        uint64_t failing = 0;
        assert_int_equal(compare(runs, (enum report_diff_view)view, &whole, NULL, NULL), 0);
        while (try_diff(runs, (enum report_diff_view)view, failing, base_text_string(&whole)))
            failing++;
        assert_true(failing > 20);
        base_text_free(&whole);
    }
    for (int i = 0; i < 3; i++)
        profile_free(samples[i].profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation),
                                       cmocka_unit_test(every_allocation_of_a_comparison)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
