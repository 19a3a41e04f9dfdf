/* Every allocation of every view fails once: the report comes whole, or the error does and nothing was
 * appended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "failing.h"
#include "sample_profile.h"

/* True when there was an allocation to fail after `failing` others. */
static bool try(const struct profile *profile, const struct view_options *options, uint64_t failing,
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
    for (int form = 0; form < 2 * VIEW_LOOPS; form++) {
        const struct view_annotation annotation = {
            .function = "std::__detail", .assembly = form % 2, .around = 4};
        struct view_options options = {.annotation = &annotation,
                                       .view = (enum view_kind)(form / 2),
                                       .json = form % 2,
                                       .lines = true,
                                       .part.thread = "*",
                                       .part.image = "*",
                                       .part.cpus = form / 2 == VIEW_EDGES ? NULL : "0-1",
                                       .speedup = 10,
                                       .invoke_ns = 2000,
                                       .width = 80,
                                       .limit_percent = 0.5};
        for (int by = 0; by < (form < 2 ? 6 : form / 2 == VIEW_EDGES ? 5 : 1); by++) {
            options.by = (enum view_by)by;
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
