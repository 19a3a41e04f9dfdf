/* What was counted: percentages that never flatter, costs that make no sense, names and numbers that are
 * hostile, and JSON that says all that the profile holds. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base_map.h"
#include "check_json.h"
#include "report_coverage.h"
#include "sample_profile.h"

static void expect_in(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("no \"%s\" in:\n%s", part, text ? text : "nothing");
}

static void expect_not_in(const char *text, const char *part)
{
    if (strstr(text, part))
        fail_msg("\"%s\" in:\n%s", part, text ? text : "nothing");
}

static size_t times_in(const char *text, const char *part)
{
    size_t times = 0;
    for (text = strstr(text, part); text; text = strstr(text + 1, part))
        times++;
    return times;
}

static void percentages_are_not_rounded_up(void **state)
{
    (void)state;
    static const struct {
        uint64_t counted, found;
        const char *text;
    } cases[] = {
        {0, 0, ""},
        {0, 1, "0.0 %"},
        {1, 1, "100.0 %"},
        {1, 3, "33.3 %"},
        {2, 3, "66.6 %"},
        {9999, 10000, "99.9 %"},
        {1, 10000, "0.0 %"},
        {INT64_MAX - 1, INT64_MAX, "99.9 %"},
        {INT64_MAX, INT64_MAX, "100.0 %"},
        {UINT64_MAX, UINT64_MAX, "100.0 %"},
        {29, 1000, "2.9 %"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct base_text text = {0};
        report_coverage_percent(&text, cases[i].counted, cases[i].found);
        assert_string_equal(base_text_string(&text), cases[i].text);
        base_text_free(&text);
    }
}

static char *header_of(const struct sample_profile *sample)
{
    char *text = sample_profile_report(sample->profile,
                                       &(struct view_options){.header = VIEW_HEADER_FULL, .limit_rows = 1});
    *strstr(text, "\n\n") = '\0';
    return text;
}

static void check_cost(const char *key, const char *value, const char *expected)
{
    struct sample_profile sample = sample_profile_counted(); /* 2,234 samples */
    profile_set_meta(sample.profile, key, value);
    char *text = header_of(&sample);
    expect_in(text, expected);
    free(text);
    profile_free(sample.profile);
}

static void costs_are_said(void **state)
{
    (void)state;
    check_cost("overhead_stub_samples", "0", "   stubs: below 0.17 % of samples   ");
    check_cost("overhead_stub_samples", "22", "   stubs: 1.0 ±0.4 % of samples   ");
    check_cost("overhead_stub_samples", "2234", "   stubs: 100.0 ±0.1 % of samples   ");
    check_cost("overhead_signals", "1", "   ptrace: 1 signal   ");
    check_cost("overhead_signals", "12000000", "   ptrace: 12.0 M signals   ");
    check_cost("overhead_births", "3", "   ptrace: 3 creations   ");
    check_cost("overhead_stopped_ns", "2999999", "   ptrace: stopped for 3.00 ms in all   ");
    check_cost("calls_setup_ns", "7200000", "   counters: set up in 7.20 ms   ");
    check_cost("calls_memory_left", "65536", "   counters: 64.0 KiB left in it   ");
    check_cost("calls_remains", "1",
               "\nnote: 1 place in the target's code could not be put back: somebody else had changed it");
    check_cost(
        "calls_remains", "1200",
        "\nnote: 1,200 places in the target's code could not be put back: somebody else had changed them");
    check_cost("calls_form", "plain", "   counters: plain   ");
    check_cost("calls_form", "thread", "   counters: by thread   ");
    check_cost("calls_form", "lock", "   counters: locked, about 5 ns a call   ");
    check_cost("calls_form", "a\033b", "   counters: a\\x1bb   ");
    check_cost("overhead_target_memory", "1290240", "   counters: 1.23 MiB in the target   ");
}

static void costs_are_numbers_for_machines(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "overhead_stub_samples", "overhead_signals",    "overhead_signal_ns",
        "overhead_births",       "overhead_stopped_ns", "agent_memory",
        "overhead_followed_ns",  "overhead_traced_ns",  "overhead_target_memory",
        "agent_memory_left",     "calls_setup_ns",      "calls_attach_stopped_ns",
        "calls_stubs",           "calls_stub_bytes",    "calls_memory_left",
        "calls_remains"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct sample_profile sample = sample_profile_counted();
        char expected[64];
        profile_set_meta(sample.profile, keys[i], "7");
        char *text = sample_profile_report(sample.profile, &(struct view_options){.json = true, .width = 80});
        snprintf(expected, sizeof expected, "\"%s\": 7\n", keys[i]);
        expect_in(text, expected);
        free(text);
        profile_free(sample.profile);
    }
}

static void costs_that_make_no_sense_are_not_said(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "overhead_stub_samples", "overhead_signals",    "overhead_signal_ns",
        "overhead_births",       "overhead_stopped_ns", "overhead_target_memory",
        "calls_setup_ns",        "calls_memory_left",   "calls_remains"};
    static const char *const values[] = {"", "x", "nan", "inf", "-1", "1e99", "99999999999999999999"};
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
        struct sample_profile sample = sample_profile_counted();
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            profile_set_meta(sample.profile, keys[k], values[v]);
        profile_set_meta(sample.profile, "calls_form", "");
        char *text = header_of(&sample);
        expect_not_in(text, "ptrace");
        expect_not_in(text, "counters:");
        expect_not_in(text, "in the target");
        expect_not_in(text, "stubs");
        free(text);
        profile_free(sample.profile);
    }
    struct sample_profile sample = sample_profile_counted();
    profile_set_meta(sample.profile, "overhead_signal_ns", "45000"); /* of no signals */
    profile_set_meta(sample.profile, "overhead_stub_samples", "2235");
    char *text = header_of(&sample);
    expect_not_in(text, "ptrace");
    expect_not_in(text, "stubs");
    free(text);
    profile_free(sample.profile);
}

static void what_went_wrong_is_said(void **state)
{
    (void)state;
    struct sample_profile sample = sample_profile_counted();
    profile_set_meta(sample.profile, "calls_notice", "two processes\033 got away");
    char *text = header_of(&sample);
    expect_in(text, "\nnote: two processes\\x1b got away");
    free(text);
    profile_free(sample.profile);
}

static void no_samples_have_no_share_of_stubs(void **state)
{
    (void)state;
    struct sample_profile sample = sample_profile_new();
    profile_calls_counter(sample.profile);
    profile_set_meta(sample.profile, "overhead_stub_samples", "0");
    char *text = header_of(&sample);
    expect_not_in(text, "stubs");
    free(text);
    profile_free(sample.profile);
}

static void the_header_says_how_complete_calls_are(void **state)
{
    (void)state;
    struct sample_profile sample = sample_profile_counted();
    char *text = header_of(&sample);
    expect_not_in(text, "complete");
    free(text);
    profile_set_coverage(sample.profile, sample.program, PROFILE_COVERAGE_SITES, 100, 90);
    text = header_of(&sample);
    expect_not_in(text, "complete"); /* of functions nothing was said */
    free(text);
    profile_set_coverage(sample.profile, sample.program, PROFILE_COVERAGE_FUNCTIONS, 1000, 1000);
    text = header_of(&sample);
    expect_in(text, " edges, exact; complete for 100.0 % of functions");
    free(text);
    profile_set_coverage(sample.profile, sample.library, PROFILE_COVERAGE_FUNCTIONS, 2000, 1999);
    text = header_of(&sample);
    expect_in(text, " edges, exact; every call site counted of 99.9 % of functions");
    free(text);
    profile_free(sample.profile);
}

static char *losses_of(const struct sample_profile *sample, double limit_percent, uint64_t limit_rows)
{
    struct view_options options = {
        .view = VIEW_LOSSES, .limit_percent = limit_percent, .limit_rows = limit_rows};
    return sample_profile_report(sample->profile, &options);
}

/* Of one image as many names as asked for, and how many there are besides. */
static void names_are_limited_by_image(void **state)
{
    (void)state;
    static const struct {
        double percent;
        uint64_t rows;
        size_t names;
        const char *rest;
    } cases[] = {{0.5, 0, 20, "(1,480 more functions)"}, {2, 0, 20, "(1,480 more functions)"},
                 {-1, 7, 7, "(1,493 more functions)"},   {-1, 999, 999, "(501 more functions)"},
                 {0, 0, 1000, "(500 more functions)"},   {-1, 5000, 1000, "(500 more functions)"}};
    struct sample_profile sample = sample_profile_counted();
    for (uint64_t i = 0; i < 1500; i++)
        profile_set_uncovered(sample.profile, sample.program, i * 16, "name_of_it", i % 2 ? "odd" : "even");
    profile_set_uncovered(sample.profile, sample.library, 1, "lonely", "odd");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = losses_of(&sample, cases[i].percent, cases[i].rows);
        assert_int_equal(times_in(text, "name_of_it"), cases[i].names);
        assert_int_equal(times_in(text, "lonely"), 1);
        assert_int_equal(times_in(text, "more function"), 1);
        expect_in(text, cases[i].rest);
        free(text);
    }
    profile_free(sample.profile);
}

/* Only the functions of an image were published, only its reasons, or everything was found to be nothing. */
static void parts_may_be_missing(void **state)
{
    (void)state;
    struct sample_profile sample = sample_profile_new();
    char *text = losses_of(&sample, 0.5, 0);
    expect_not_in(text, "Calls:"); /* they were not counted */
    free(text);
    profile_calls_counter(sample.profile);
    text = losses_of(&sample, 0.5, 0);
    expect_in(text, "\nCalls: not counted (no image's calls were counted).\n");
    free(text);
    profile_set_coverage(sample.profile, sample.program, PROFILE_COVERAGE_SITES, 0, 0);
    text = losses_of(&sample, 0.5, 0);
    expect_in(text, "\nCalls: not counted (no image's calls were counted).\n");
    free(text);
    profile_set_uncovered(sample.profile, sample.program, 16, "alone", NULL);
    profile_set_left(sample.profile, sample.library, 3, "left without more", 2);
    text = losses_of(&sample, 0.5, 0);
    expect_in(text, "               alone\n");
    expect_in(text, "     3      2  left without more\n");
    free(text);
    profile_free(sample.profile);
}

static void one_sentence_may_have_two_codes(void **state)
{
    (void)state;
    struct sample_profile sample = sample_profile_counted();
    profile_set_left(sample.profile, sample.program, 1, "same", 5);
    profile_set_left(sample.profile, sample.program, 2, "same", 9);
    profile_set_uncovered(sample.profile, sample.program, 16, "alone", "same");
    char *text = losses_of(&sample, 0.5, 0);
    expect_in(text, "     2      9  same\n     1      5  same\n");
    assert_int_equal(times_in(text, "alone\n"), 1);
    free(text);
    profile_free(sample.profile);
}

static void hostile_words(void **state)
{
    (void)state;
    static const char *const words[] = {"\033[2J\a",
                                        "\"q\\\n\t",
                                        "\xc3(\xff",
                                        "日本語日本語日本語日本語日本語日本語",
                                        "a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h",
                                        " "};
    struct sample_profile sample = sample_profile_counted();
    char *huge = malloc(40001);
    memset(huge, 'x', 40000);
    huge[40000] = '\0';
    for (size_t i = 0; i <= sizeof words / sizeof *words; i++) {
        const char *word = i < sizeof words / sizeof *words ? words[i] : huge;
        uint32_t image = profile_image(sample.profile, PROFILE_IMAGE_FILE, word, word, 0);
        for (int kind = PROFILE_COVERAGE_SITES; kind < PROFILE_COVERAGE_LISTED; kind++)
            profile_set_coverage(sample.profile, image, (enum profile_coverage_kind)kind, UINT64_MAX,
                                 UINT64_MAX);
        profile_set_left(sample.profile, image, UINT32_MAX - (uint32_t)i, word, UINT64_MAX);
        profile_set_uncovered(sample.profile, image, UINT64_MAX - i, word, word);
    }
    for (unsigned width = 0; width <= 120; width += 40) {
        struct view_options options = {.view = VIEW_LOSSES, .width = width};
        char *text = sample_profile_report(sample.profile, &options);
        assert_null(strchr(text, '\033'));
        assert_null(strchr(text, '\a'));
        free(text);
        options.json = true;
        text = sample_profile_report(sample.profile, &options);
        assert_null(check_json(text));
        free(text);
    }
    free(huge);
    profile_free(sample.profile);
}

/* JSON has every row of the profile, whatever the limit is. */
static void json_has_everything(void **state)
{
    (void)state;
    struct sample_profile sample = sample_profile_counted();
    sample_profile_cover(&sample);
    struct view_options options = {.view = VIEW_LOSSES, .json = true, .limit_rows = 1, .limit_percent = -1};
    char *text = sample_profile_report(sample.profile, &options);
    assert_null(check_json(text));
    expect_in(text, "  \"calls_counted\": true,\n");
    expect_in(text, "    \"sites\": {\"found\": 12001000, \"counted\": 12000998},\n"
                    "    \"indirect\": {\"found\": 10, \"counted\": 10},\n"
                    "    \"functions\": {\"found\": 125, \"counted\": 100},\n"
                    "    \"taken\": {\"found\": 30, \"counted\": 14},\n");
    expect_in(text,
              "\"left\": [{\"code\": 30, \"reason\": \"functions too short for a jump\", \"count\": 16}, "
              "{\"code\": 7, \"reason\": \"jumps that read the flags\", \"count\": 1}], ");
    expect_in(text, "\"uncovered_functions\": 24}");
    expect_in(text,
              "\"left\": [], \"uncovered\": [{\"function\": \"sqlite3_größe(int)\", \"address\": 36864, "
              "\"reason\": \"something else\"}], \"uncovered_functions\": 1}");
    assert_int_equal(times_in(text, "{\"function\": null, \"address\": 204"), 4);
    for (int i = 0; i < 24; i++) {
        char address[32];
        snprintf(address, sizeof address, "\"address\": %d,", 0x5000 + i);
        assert_int_equal(times_in(text, address), 1);
    }
    free(text);
    profile_free(sample.profile);
}

/* --- whose calls are all counted --- */

static char *flat_of(const struct sample_profile *sample, bool json)
{
    struct view_options options = {.limit_percent = -1, .json = json};
    return sample_profile_report(sample->profile, &options);
}

/* The row of a function, up to the end of its line. */
static char *row_of(const char *text, const char *function)
{
    const char *at = strstr(text, function), *begin = at;
    if (!at)
        fail_msg("no %s in:\n%s", function, text);
    while (begin > text && begin[-1] != '\n')
        begin--;
    return strndup(begin, strcspn(begin, "\n"));
}

static void expect_row(const char *text, const char *function, const char *part, bool has)
{
    char *row = row_of(text, function);
    if (has)
        expect_in(row, part);
    else
        expect_not_in(row, part);
    free(row);
}

/* fib is entered by 10 calls. */
static void calls_of_uncounted_images_are_at_least(void **state)
{
    (void)state;
    struct sample_profile sample = sample_profile_counted();
    char *text = flat_of(&sample, false);
    expect_row(text, "  fib ", "  10+5,150  ", true); /* nothing is said: all was counted */
    expect_row(text, "  fib ", " ms  ", true);
    free(text);
    profile_set_coverage(sample.profile, sample.program, PROFILE_COVERAGE_FUNCTIONS, 5, 5);
    text = flat_of(&sample, false);
    expect_row(text, "  fib ", "  ≥10+5,150  ", true); /* the library is not counted */
    expect_row(text, "  fib ", " ms  ", false);
    free(text);
    text = flat_of(&sample, true);
    assert_null(check_json(text));
    expect_row(text, "\"fib\"", "\"calls_complete\": false", true);
    expect_row(text, "\"fib\"", "ns_per_call", false);
    expect_row(text, "\"on_alarm\"", "\"calls_complete\": true, \"ns_per_call\": {", true);
    free(text);
    profile_set_coverage(sample.profile, sample.library, PROFILE_COVERAGE_FUNCTIONS, 5, 5);
    text = flat_of(&sample, false);
    expect_not_in(text, "≥");
    free(text);
    profile_free(sample.profile);
}

static void cover_all(struct sample_profile *sample)
{
    profile_set_coverage(sample->profile, sample->program, PROFILE_COVERAGE_FUNCTIONS, 5, 5);
    profile_set_coverage(sample->profile, sample->library, PROFILE_COVERAGE_FUNCTIONS, 5, 4);
}

static void calls_of_uncovered_functions_are_at_least(void **state)
{
    (void)state;
    struct sample_profile sample = sample_profile_counted();
    cover_all(&sample);
    profile_set_uncovered(sample.profile, sample.library, 0x3000, "fib", "it is odd");
    profile_set_uncovered(sample.profile, sample.program, 0x1000, "sqlite3VdbeExec", "of another image");
    char *text = flat_of(&sample, false);
    assert_int_equal(times_in(text, "≥"), 1);
    expect_row(text, "  fib ", "  ≥10+5,150  ", true);
    free(text);
    struct view_options options = {.view = VIEW_CANDIDATES, .limit_percent = -1, .ascii = true};
    text = sample_profile_report(sample.profile, &options);
    expect_in(strstr(text, "not all counted"), "  fib  "); /* with those of which it is not known */
    free(text);
    options.view = VIEW_FLAT;
    text = sample_profile_report(sample.profile, &options);
    expect_row(text, "  fib ", "  >=10+5,150  ", true);
    free(text);
    profile_free(sample.profile);
}

/* From a counted image into one that is not, the calls of the pair are all there, though not those of the
 * callee. */
static void pairs_may_be_complete_where_callees_are_not(void **state)
{
    (void)state;
    struct sample_profile sample = sample_profile_counted();
    struct view_options options = {.view = VIEW_GRAPH, .limit_percent = -1};
    profile_set_coverage(sample.profile, sample.program, PROFILE_COVERAGE_FUNCTIONS, 5, 5);
    char *text = sample_profile_report(sample.profile, &options);
    expect_in(text, "  1,204/≥1,204  "); /* main is counted: its calls have a time */
    char *row = row_of(text, "  1,204/≥1,204  ");
    expect_in(row, " ms  ");
    free(row);
    free(text);
    profile_free(sample.profile);
}

static void names_make_others_partial(void **state)
{
    (void)state;
    struct sample_profile sample = sample_profile_counted();
    cover_all(&sample);
    profile_set_meta(sample.profile, "calls_names", "nothing,fi?");
    char *text = flat_of(&sample, false);
    expect_in(text, " calls, exact, only of those that were named");
    expect_row(text, "  fib ", "  10+5,150  ", true);
    expect_row(text, "  sqlite3VdbeExec ", "≥1,204", true);
    expect_row(text, "  on_alarm ", "≥7", true);
    free(text);
    text = header_of(&sample);
    expect_in(text, " edges, exact; only from or to nothing,fi?");
    free(text);
    text = losses_of(&sample, 0.5, 0);
    expect_in(text,
              "of 10 functions (90.0 %). Only calls from or to nothing,fi? were asked for. Of all calls");
    free(text);
    profile_free(sample.profile);
}

/* --- edges, divided --- */

enum { FUNCTIONS = 30, EDGES = 4000 };

static uint64_t sum_of_column(const char *text, const char *part)
{
    uint64_t sum = 0;
    for (const char *line = strstr(text, "\n\n") + 2; *line; line += strcspn(line, "\n") + 1) {
        const char *found = strstr(line, part);
        uint64_t calls = 0;
        for (const char *at = line + strspn(line, " "); *at && *at != ' '; at++)
            calls = *at >= '0' && *at <= '9' ? calls * 10 + (uint64_t)(*at - '0') : calls;
        if (found && found < line + strcspn(line, "\n"))
            sum += calls;
    }
    return sum;
}

/* Many edges on two threads and on none, many twice from sites of one function: rows are sums by function,
 * kind and thread. */
static void edges_add_up_by_thread(void **state)
{
    (void)state;
    struct sample_profile sample = sample_profile_new();
    struct profile *profile = sample.profile;
    uint32_t at[FUNCTIONS];
    uint64_t random = 9, threads[3] = {0}, all = 0;
    for (uint32_t i = 0; i < FUNCTIONS; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%u", i);
        at[i] = sample_profile_function(&sample, i % 2 ? sample.program : sample.library, name, 0x100 * i,
                                        "a.c", 1);
    }
    for (int i = 0; i < EDGES; i++) {
        random = base_hash(random + 1);
        uint32_t thread = (uint32_t)(random % 3), kind = 1 + (uint32_t)((random >> 8) % 4);
        uint32_t site = kind == PROFILE_CALL_ENTRY ? 0 : at[(random >> 16) % FUNCTIONS];
        uint64_t calls = (random >> 24) % 100000;
        uint32_t edge = profile_edge(profile, site, at[(random >> 44) % FUNCTIONS],
                                     thread ? sample.threads[thread - 1] : 0, kind);
        profile_add_calls(profile, edge, calls);
        threads[thread] += calls;
        all += calls;
    }
    struct view_options options = {.view = VIEW_EDGES, .by = VIEW_BY_THREAD, .limit_percent = -1};
    char *text = sample_profile_report(profile, &options);
    assert_int_equal(sum_of_column(text, "(other threads)"), threads[0]);
    assert_int_equal(sum_of_column(text, "  sqlite3 100  "), threads[1]);
    assert_int_equal(sum_of_column(text, "  worker 101  "), threads[2]);
    uint64_t unknown = sum_of_column(text, "(unknown caller)");
    assert_int_equal(unknown, sum_of_column(text, "  entry  "));
    assert_true(unknown > 0);
    free(text);
    options.by = VIEW_BY_IMAGE;
    text = sample_profile_report(profile, &options);
    assert_int_equal(sum_of_column(text, "  "), all);
    /* Titles, images and kinds, unknown callers. */
    assert_int_equal(times_in(strstr(text, "\n\n") + 2, "\n"), 1 + 2 * 2 * 3 + 2);
    free(text);
    options.part.thread = "worker";
    options.by = VIEW_BY_THREAD;
    text = sample_profile_report(profile, &options);
    assert_int_equal(sum_of_column(text, "  "), threads[2]);
    expect_not_in(text, "other threads");
    free(text);
    profile_free(profile);
}

static void calls_to_nobody_known_are_said(void **state)
{
    (void)state;
    struct sample_profile sample = sample_profile_counted();
    struct view_options options = {.view = VIEW_LOSSES};
    profile_set_coverage(sample.profile, sample.program, PROFILE_COVERAGE_SITES, 100, 90);
    char *text = sample_profile_report(sample.profile, &options);
    expect_not_in(text, "whom");
    free(text);
    uint64_t known = 0;
    for (size_t i = 1; i < sample.profile->edge_count; i++)
        known += sample.profile->edges[i].calls;
    uint32_t special = profile_image(sample.profile, PROFILE_IMAGE_SPECIAL, "(unknown)", "", 0);
    uint32_t edge = profile_edge(sample.profile, sample.profile->edges[1].site,
                                 profile_address(sample.profile, special, 0), 0, PROFILE_CALL_INDIRECT);
    profile_add_calls(sample.profile, edge, 3 * known);
    text = sample_profile_report(sample.profile, &options);
    expect_in(text, "(75.0 %): the table of edges has them as (unknown).");
    free(text);
    options.json = true;
    text = sample_profile_report(sample.profile, &options);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "\"calls_without_callee\": %llu", (unsigned long long)(3 * known));
    expect_in(text, wanted);
    free(text);
    profile_free(sample.profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentages_are_not_rounded_up),
        cmocka_unit_test(costs_are_said),
        cmocka_unit_test(costs_are_numbers_for_machines),
        cmocka_unit_test(costs_that_make_no_sense_are_not_said),
        cmocka_unit_test(what_went_wrong_is_said),
        cmocka_unit_test(no_samples_have_no_share_of_stubs),
        cmocka_unit_test(the_header_says_how_complete_calls_are),
        cmocka_unit_test(names_are_limited_by_image),
        cmocka_unit_test(parts_may_be_missing),
        cmocka_unit_test(one_sentence_may_have_two_codes),
        cmocka_unit_test(hostile_words),
        cmocka_unit_test(json_has_everything),
        cmocka_unit_test(calls_of_uncounted_images_are_at_least),
        cmocka_unit_test(calls_of_uncovered_functions_are_at_least),
        cmocka_unit_test(pairs_may_be_complete_where_callees_are_not),
        cmocka_unit_test(names_make_others_partial),
        cmocka_unit_test(edges_add_up_by_thread),
        cmocka_unit_test(calls_to_nobody_known_are_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
