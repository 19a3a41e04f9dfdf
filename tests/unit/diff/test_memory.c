/* Every allocation of a comparison fails once: it comes whole, or the error does and nothing was appended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "diff.h"
#include "failing.h"
#include "sample_profile.h"

static int compare(const struct diff_run *runs, enum diff_view view, struct base_text *out,
                   struct diff_gate *gate, struct base_error *error)
{
    struct diff_options options = {
        .view = view, .fail_above = 5, .limit_percent = -1, .width = 80, .json = view == DIFF_PATHS};
    return diff_print(&(struct diff_sides){runs, 3, 1}, &options, gate, out, error);
}

/* True when there was an allocation to fail after `failing` others. */
static bool try_diff(const struct diff_run *runs, enum diff_view view, uint64_t failing, const char *whole)
{
    struct base_text out = {0};
    struct base_error error = {0};
    struct diff_gate gate = {0};
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
    struct diff_run runs[3];
    for (int i = 0; i < 3; i++) {
        samples[i] = sample_profile_counted();
        SAMPLE(&samples[i], 0, 100 + 3000 * (i == 2), 1);
        runs[i] = (struct diff_run){samples[i].profile, "file"};
    }
    for (int view = 0; view <= DIFF_EDGES; view++) {
        struct base_text whole = {0};
        uint64_t failing = 0;
        assert_int_equal(compare(runs, (enum diff_view)view, &whole, NULL, NULL), 0);
        while (try_diff(runs, (enum diff_view)view, failing, base_text_string(&whole)))
            failing++;
        assert_true(failing > 20);
        base_text_free(&whole);
    }
    for (int i = 0; i < 3; i++)
        profile_free(samples[i].profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_of_a_comparison)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
