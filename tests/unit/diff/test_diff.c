/* Comparisons of profiles whose every figure is known: verdicts, the gate, several runs, exact calls, what is
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "check_json.h"
#include "diff.h"
#include "profile_own.h"
#include "sample_profile.h"

/* Samples of main, exec, next and fib, and calls main -> exec, of one run. */
static struct sample_profile run_of(const uint64_t samples[4], uint64_t calls)
{
    struct sample_profile s = sample_profile_new();
    uint32_t start = sample_profile_function(&s, s.program, "_start", 0x100, NULL, 0);
    uint32_t mainly = sample_profile_function(&s, s.program, "main", 0x200, NULL, 0);
    uint32_t exec = sample_profile_function(&s, s.library, "exec", 0x1000, NULL, 0);
    uint32_t next = sample_profile_function(&s, s.library, "next", 0x2000, NULL, 0);
    uint32_t fib = sample_profile_function(&s, s.library, "fib", 0x3000, NULL, 0);
    SAMPLE(&s, 0, samples[0], start, mainly);
    SAMPLE(&s, 0, samples[1], start, mainly, exec);
    SAMPLE(&s, 0, samples[2], start, mainly, exec, next);
    SAMPLE(&s, 1, samples[3], start, mainly, fib, fib, fib);
    if (calls)
        sample_profile_call(&s, 0, mainly, exec, PROFILE_CALL_DIRECT, calls);
    profile_set_meta(s.profile, "complete", "1");
    profile_set_meta(s.profile, "rate_hz", "999");
    return s;
}

enum { RUNS_MOST = 10 };

struct sides {
    struct sample_profile samples[RUNS_MOST];
    struct diff_run runs[RUNS_MOST];
    char names[RUNS_MOST][8];
    size_t count, old_count;
};

static void add(struct sides *sides, bool old, const uint64_t samples[4], uint64_t calls)
{
    size_t at = sides->count++;
    sides->old_count += old;
    sides->samples[at] = run_of(samples, calls);
    snprintf(sides->names[at], sizeof sides->names[at], "%s%zu", old ? "old" : "new", at);
    sides->runs[at] = (struct diff_run){sides->samples[at].profile, sides->names[at]};
}

static void drop(struct sides *sides)
{
    for (size_t i = 0; i < sides->count; i++)
        profile_free(sides->samples[i].profile);
}

/* The comparison as text (malloc); the gate's result. */
static char *diff_of(const struct sides *sides, struct diff_options options, struct diff_gate *gate)
{
    struct base_text out = {0};
    struct base_error error = {0};
    int code = diff_print(&(struct diff_sides){sides->runs, sides->count, sides->old_count}, &options, gate,
                          &out, &error);
    if (code)
        print_error("%s\n", error.text);
    assert_int_equal(code, 0);
    char *text = base_text_detach(&out);
    assert_non_null(text);
    return text;
}

/* The line that ends in a function's name. */
static void assert_row(const char *text, const char *function, const char *wanted)
{
    char needle[64];
    snprintf(needle, sizeof needle, "  %s  ", function);
    const char *at = strstr(text, needle);
    if (!at)
        fail_msg("no row %s in\n%s", function, text);
    while (at > text && at[-1] != '\n')
        at--;
    char line[200];
    snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
    if (!strstr(line, wanted))
        fail_msg("no '%s' in '%s'", wanted, line);
}

static const struct diff_options plain = {.fail_above = -1, .limit_percent = -1, .ascii = true};

static void nothing_changed(void **state)
{
    (void)state;
    struct sides sides = {0};
    struct diff_gate gate = {0};
    add(&sides, true, (const uint64_t[]){500, 300, 150, 50}, 0);
    add(&sides, false, (const uint64_t[]){520, 310, 130, 60}, 0);
    struct diff_options options = plain;
    options.fail_above = 5;
    char *text = diff_of(&sides, options, &gate);
    assert_non_null(strstr(text, "\n4 functions: no share changed by more than noise\n"));
    assert_non_null(strstr(text, "one run a side does not tell"));
    assert_row(text, "fib", "within noise");
    assert_row(text, "fib", "+20.0 %");
    assert_int_equal(gate.failed, 0);
    base_text_free(&gate.names);
    free(text);
    drop(&sides);
}

/* next takes half as long again; what main took before it still takes, of a longer whole. */
static void one_changed(void **state)
{
    (void)state;
    struct sides sides = {0};
    add(&sides, true, (const uint64_t[]){50000, 30000, 15000, 5000}, 0);
    add(&sides, false, (const uint64_t[]){50000, 30000, 22500, 5000}, 0);
    char *text = diff_of(&sides, plain, NULL);
    assert_non_null(strstr(text, "changed their share by more than noise"));
    assert_row(text, "next", "+50.0 %  more");
    assert_row(text, "next", "15.0 %  20.9 %  +5.9 +-0.3");
    assert_row(text, "main", "smaller share");
    assert_non_null(strstr(text, "more than sampling noise; whether runs differ by that much"));
    free(text);
    for (int limit = 0; limit < 2; limit++) {
        struct diff_gate gate = {0};
        struct diff_options options = plain;
        options.fail_above = limit ? 60 : 40;
        text = diff_of(&sides, options, &gate);
        assert_int_equal(gate.failed, !limit);
        assert_string_equal(base_text_string(&gate.names), limit ? "" : "next (+50.0 %)");
        base_text_free(&gate.names);
        free(text);
    }
    drop(&sides);
}

static void new_and_gone(void **state)
{
    (void)state;
    struct sides sides = {0};
    struct diff_gate gate = {0};
    struct diff_options options = plain;
    options.fail_above = 1000;
    add(&sides, true, (const uint64_t[]){5000, 3000, 1000, 0}, 0);
    add(&sides, false, (const uint64_t[]){5000, 3000, 0, 1000}, 0);
    char *text = diff_of(&sides, options, &gate);
    assert_row(text, "fib", "new");
    assert_row(text, "next", "gone");
    assert_string_equal(base_text_string(&gate.names), "fib (new)");
    base_text_free(&gate.names);
    free(text);
    drop(&sides);
}

/* A slower machine, or one more sample a millisecond, changes no share. */
static void whole_slower_is_no_function(void **state)
{
    (void)state;
    struct sides sides = {0};
    struct diff_gate gate = {0};
    struct diff_options options = plain;
    options.fail_above = 5;
    add(&sides, true, (const uint64_t[]){50000, 30000, 15000, 5000}, 0);
    add(&sides, false, (const uint64_t[]){60000, 36000, 18000, 6000}, 0);
    char *text = diff_of(&sides, options, &gate);
    assert_non_null(strstr(text, "no share changed"));
    assert_non_null(strstr(text, "one run a side cannot judge it"));
    assert_int_equal(gate.failed, 0);
    free(text);
    drop(&sides);
}

/* The same with runs that tell how much runs differ. */
static void several_runs(void **state)
{
    (void)state;
    static const uint64_t noise[] = {100, 103, 98, 101};
    for (int slower = 0; slower < 2; slower++) {
        struct sides sides = {0};
        struct diff_gate gate = {0};
        struct diff_options options = plain;
        options.fail_above = 5;
        for (int i = 0; i < 8; i++) {
            uint64_t n = noise[i % 4] + (i >= 4 && slower ? 20 : 0);
            add(&sides, i < 4, (const uint64_t[]){50 * n, 30 * n, 15 * n, 5 * n}, 0);
        }
        char *text = diff_of(&sides, options, &gate);
        assert_non_null(strstr(text, slower ? "more than runs differ by" : "within what runs differ by"));
        assert_null(strstr(text, "one run a side does not tell"));
        assert_non_null(strstr(text, "no share changed"));
        assert_string_equal(base_text_string(&gate.names), slower ? "the whole (+19.9 %)" : "");
        base_text_free(&gate.names);
        free(text);
        drop(&sides);
    }
}

static void several_runs_find_a_function(void **state)
{
    (void)state;
    static const uint64_t noise[] = {1000, 1030, 980};
    struct sides sides = {0};
    struct diff_gate gate = {0};
    struct diff_options options = plain;
    options.fail_above = 5;
    for (int i = 0; i < 6; i++) {
        uint64_t n = noise[i % 3];
        add(&sides, i < 3,
            (const uint64_t[]){5 * n, 3 * n + (uint64_t)i % 2 * 7, i < 3 ? 2 * n : 4 * n, n / 2}, 0);
    }
    char *text = diff_of(&sides, options, &gate);
    assert_row(text, "next", "more");
    assert_non_null(strstr(base_text_string(&gate.names), "next (+100 %)"));
    base_text_free(&gate.names);
    free(text);
    drop(&sides);
}

/* --- exact --- */

static void exact_calls(void **state)
{
    (void)state;
    struct sides sides = {0};
    struct diff_gate gate = {0};
    struct diff_options options = plain;
    options.counter = "calls";
    options.fail_above = 0.5;
    add(&sides, true, (const uint64_t[]){1, 1, 1, 1}, 1000);
    add(&sides, false, (const uint64_t[]){1, 1, 1, 1}, 1010);
    char *text = diff_of(&sides, options, &gate);
    assert_row(text, "exec", "1,000  1,010     +10  +1.0 %  more");
    assert_non_null(strstr(base_text_string(&gate.names), "exec (+1.0 %)"));
    base_text_free(&gate.names);
    free(text);
    options.counter = NULL;
    options.view = DIFF_EDGES;
    text = diff_of(&sides, options, NULL);
    assert_row(text, "main    exec", "1,000  1,010");
    free(text);
    drop(&sides);
}

/* What only one side could see is said. */
static void coverage_differs(void **state)
{
    (void)state;
    struct sides sides = {0};
    struct diff_options options = plain;
    options.counter = "calls";
    add(&sides, true, (const uint64_t[]){1, 1, 1, 1}, 1000);
    add(&sides, false, (const uint64_t[]){1, 1, 1, 1}, 1000);
    for (int i = 0; i < 2; i++)
        profile_set_coverage(sides.samples[i].profile, sides.samples[i].program, PROFILE_COVERAGE_FUNCTIONS,
                             20, 20);
    char *text = diff_of(&sides, options, NULL);
    assert_null(strstr(text, "counted"));
    free(text);
    profile_set_coverage(sides.samples[1].profile, sides.samples[1].program, PROFILE_COVERAGE_FUNCTIONS, 20,
                         10);
    profile_set_coverage(sides.samples[0].profile, sides.samples[0].library, PROFILE_COVERAGE_FUNCTIONS, 30,
                         30);
    text = diff_of(&sides, options, NULL);
    assert_non_null(
        strstr(text, "of the functions of sqlite3, 20 of 20 were counted in old and 10 of 20 in new"));
    assert_non_null(strstr(text, "calls in libsqlite3.so.0 were counted on the old side only"));
    free(text);
    drop(&sides);
}

static void not_deterministic(void **state)
{
    (void)state;
    for (int several = 0; several < 2; several++) {
        struct sides sides = {0};
        struct diff_gate gate = {0};
        struct diff_options options = plain;
        options.counter = "calls";
        options.fail_above = 0;
        add(&sides, true, (const uint64_t[]){1, 1, 1, 1}, 1000);
        add(&sides, true, (const uint64_t[]){1, 1, 1, 1}, 1010);
        add(&sides, false, (const uint64_t[]){1, 1, 1, 1}, 5000);
        if (several)
            add(&sides, false, (const uint64_t[]){1, 1, 1, 1}, 1003);
        char *text = diff_of(&sides, options, &gate);
        assert_row(text, "exec", "not deterministic");
        assert_int_equal(gate.failed, 0);
        free(text);
        drop(&sides);
    }
}

static void deterministic_in_several_runs(void **state)
{
    (void)state;
    struct sides sides = {0};
    struct diff_options options = plain;
    options.counter = "calls";
    for (int i = 0; i < 4; i++)
        add(&sides, i < 2, (const uint64_t[]){1, 1, 1, 1}, 1000);
    char *text = diff_of(&sides, options, NULL);
    assert_non_null(strstr(text, "1 function: nothing changed\n"));
    free(text);
    drop(&sides);
}

/* --- views --- */

static void paths_and_totals(void **state)
{
    (void)state;
    struct sides sides = {0};
    struct diff_options options = plain;
    add(&sides, true, (const uint64_t[]){500, 300, 150, 50}, 0);
    add(&sides, false, (const uint64_t[]){500, 300, 150, 50}, 0);
    options.view = DIFF_PATHS;
    char *text = diff_of(&sides, options, NULL);
    assert_non_null(strstr(text, "4 stacks"));
    const char *row = strstr(text, "within noise  fib");
    assert_non_null(row);
    assert_null(strstr(row + 20, "fib")); /* its recursion is one frame */
    free(text);
    options.view = DIFF_FUNCTIONS;
    options.total = true;
    text = diff_of(&sides, options, NULL);
    assert_row(text, "exec", "45.0 %");
    assert_row(text, "fib", "5.0 %");
    free(text);
    drop(&sides);
}

/* So many samples of main in the agent, and nothing else new. */
static void add_own(const struct sides *sides, size_t run, uint64_t samples)
{
    struct sample_profile s = sides->samples[run];
    uint32_t agent = profile_image(s.profile, PROFILE_IMAGE_FILE, PROFILE_AGENT_IMAGE, "", 0);
    SAMPLE(&s, 0, samples, sample_profile_function(&s, s.program, "main", 0x200, NULL, 0),
           sample_profile_function(&s, agent, "insert_block", 0x10, NULL, 0));
}

/* Of both runs of the new side together, 500 of 2,500; of the old side's none. */
static void own_samples(void **state)
{
    (void)state;
    struct sides sides = {0};
    struct diff_options options = plain;
    struct base_error error = {0};
    for (int i = 0; i < 3; i++)
        add(&sides, i == 0, (const uint64_t[]){500, 300, 150, 50}, 0);
    add_own(&sides, 1, 500);
    char *text = diff_of(&sides, options, NULL);
    assert_non_null(strstr(text, " Hz\n     Tally itself: 20.0 % of all samples\n"));
    free(text);
    assert_int_equal(profile_own_leave_out(sides.samples[1].profile, &error), BASE_OK);
    text = diff_of(&sides, options, NULL);
    const char *line = strstr(text, " Hz\n     Tally itself: 20.0 % of all samples, left out\n");
    assert_true(line && line > strstr(text, "\nnew "));
    free(text);
    options.json = true;
    text = diff_of(&sides, options, NULL);
    line = strstr(text, "\"own_samples\": 500");
    assert_true(line && strstr(line, "\"left_out\": true") && strstr(text, "\"all_samples\": 1500"));
    free(text);
    drop(&sides);
}

static void json_is_valid(void **state)
{
    (void)state;
    struct sides sides = {0};
    add(&sides, true, (const uint64_t[]){500, 300, 0, 50}, 10);
    add(&sides, false, (const uint64_t[]){500, 300, 900, 0}, 20);
    for (int view = 0; view < 3; view++) {
        struct diff_options options = plain;
        options.view = (enum diff_view)view;
        options.json = true;
        char *text = diff_of(&sides, options, NULL);
        assert_null(check_json(text));
        assert_non_null(strstr(text, view == 2 ? "\"caller\"" : "\"verdict\": \"new\""));
        free(text);
    }
    drop(&sides);
}

/* --- refused --- */

static void assert_refused(const struct sides *sides, struct diff_options options, const char *why)
{
    struct base_text out = {0};
    struct base_error error = {0};
    int code = diff_print(&(struct diff_sides){sides->runs, sides->count, sides->old_count}, &options, NULL,
                          &out, &error);
    assert_int_equal(code, BASE_EUSAGE);
    assert_int_equal(out.length, 0);
    if (!strstr(error.text, why))
        fail_msg("'%s' does not say '%s'", error.text, why);
    base_text_free(&out);
}

static void refused(void **state)
{
    (void)state;
    struct sides sides = {0};
    struct diff_options options = plain;
    add(&sides, true, (const uint64_t[]){5, 3, 1, 1}, 0);
    add(&sides, false, (const uint64_t[]){0, 0, 0, 0}, 5);
    assert_refused(&sides, options, "new1 has no samples of time.cpu");
    options.counter = "calls";
    assert_refused(&sides, options, "no counter calls in old0; it has time.cpu");
    options.counter = NULL;
    options.view = DIFF_EDGES;
    assert_refused(&sides, options, "no counter calls in old0");
    drop(&sides);
}

static void nothing_in_common(void **state)
{
    (void)state;
    struct sides sides = {0};
    add(&sides, true, (const uint64_t[]){5, 3, 1, 1}, 0);
    struct sample_profile other = sample_profile_new();
    uint32_t image = profile_image(other.profile, PROFILE_IMAGE_FILE, "/bin/other", "cc", 0);
    SAMPLE(&other, 0, 10, sample_profile_function(&other, image, "elsewhere", 0x10, NULL, 0));
    sides.samples[1] = other;
    sides.runs[1] = (struct diff_run){other.profile, "new"};
    sides.count = 2;
    assert_refused(&sides, plain, "have no function in common");
    drop(&sides);
}

static void other_counter(void **state)
{
    (void)state;
    struct sides sides = {0};
    add(&sides, true, (const uint64_t[]){5, 3, 1, 1}, 0);
    struct profile *other = profile_new();
    profile_counter(other, "time.user", "ns", false, PROFILE_SUM);
    sides.samples[1].profile = other;
    sides.runs[1] = (struct diff_run){other, "new"};
    sides.count = 2;
    assert_refused(&sides, plain, "old0 counts time.cpu, new counts time.user");
    drop(&sides);
}

/* A counter that another profiler calls so is in cells, not by edge. */
static void calls_of_others(void **state)
{
    (void)state;
    enum { OF_MAIN = 2 };
    struct sides sides = {0};
    struct diff_options options = plain;
    options.counter = PROFILE_CALLS;
    for (int old = 1; old >= 0; old--) {
        add(&sides, old, (const uint64_t[]){50, 30, 15, 5}, 0);
        struct profile *profile = sides.samples[sides.count - 1].profile;
        uint32_t counter = profile_counter(profile, PROFILE_CALLS, "count", true, PROFILE_SUM);
        profile_count(profile, (struct profile_key){OF_MAIN, 1, PROFILE_NO_CPU, (uint16_t)counter},
                      old ? 100 : 150, 1);
    }
    char *text = diff_of(&sides, options, NULL);
    assert_row(text, "main", "+50.0 %");
    free(text);
    drop(&sides);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_changed),   cmocka_unit_test(one_changed),
        cmocka_unit_test(new_and_gone),      cmocka_unit_test(whole_slower_is_no_function),
        cmocka_unit_test(several_runs),      cmocka_unit_test(several_runs_find_a_function),
        cmocka_unit_test(exact_calls),       cmocka_unit_test(coverage_differs),
        cmocka_unit_test(not_deterministic), cmocka_unit_test(deterministic_in_several_runs),
        cmocka_unit_test(paths_and_totals),  cmocka_unit_test(json_is_valid),
        cmocka_unit_test(refused),           cmocka_unit_test(nothing_in_common),
        cmocka_unit_test(other_counter),     cmocka_unit_test(calls_of_others),
        cmocka_unit_test(own_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
