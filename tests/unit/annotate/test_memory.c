/* Every allocation of the views that read files fails once: the report comes whole, or the error does and nothing was
 * appended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "annotate.h"
#include "failing.h"
#include "sample_profile.h"

/* True when there was an allocation to fail after `failing` others. */
static bool try(const struct profile *profile, const struct view_options *options, uint64_t failing,
                const char *whole)
{
    struct base_text out = {0};
    struct base_error error = {0};
    failing_begin(failing + 1);
    int code = annotate_print(profile, options, &out, &error);
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
    for (int form = 2 * VIEW_LOOPS; form < 2 * (VIEW_ANNOTATE + 1); form++) {
        const struct view_annotation annotation = {
            .function = "std::__detail", .assembly = form % 2, .around = 4};
        struct view_options options = {.annotation = &annotation,
                                       .view = (enum view_kind)(form / 2),
                                       .json = form % 2,
                                       .lines = true,
                                       .part.thread = "*",
                                       .part.image = "*",
                                       .part.cpus = "0-1",
                                       .width = 80,
                                       .limit_percent = 0.5};
        char *whole = sample_profile_report_by(annotate_print, sample.profile, &options);
        uint64_t failing = 0;
        while (try(sample.profile, &options, failing, whole))
            failing++;
        assert_true(failing > 5);
        free(whole);
    }
    profile_free(sample.profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
