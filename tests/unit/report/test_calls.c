/* Calls and what follows from them, against figures worked out by hand and formulas written a second time. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base_map.h"
#include "check_json.h"
#include "profile_heap.h"
#include "report_candidates.h"
#include "sample_profile.h"
#include "view_calls.h"

static void near(double got, double wanted)
{
    if (fabs(got - wanted) > 1e-9 * fmax(1, fabs(wanted)))
        fail_msg("%.12g should be %.12g", got, wanted);
}

static void check_bound(double speedup, double invoke_ns, uint64_t parallel, double share, uint64_t calls,
                        double wanted)
{
    struct report_assumption assumption = {speedup, invoke_ns, parallel};
    struct view_share shares = {share, share, share};
    struct report_bound bound = report_candidates_bound(&assumption, &shares, 1e9, calls);
    near(bound.value, wanted);
    near(bound.low, wanted);
    near(bound.high, wanted);
}

/* A program of one second. */
static void bounds_known_by_hand(void **state)
{
    (void)state;
    check_bound(0, 0, 0, 0.5, 0, 2);               /* half of it gone */
    check_bound(0, 0, 0, 0.75, 1000, 4);           /* three quarters gone */
    check_bound(10, 0, 0, 0.5, 1000, 1 / 0.55);    /* 0.5 + 0.05 */
    check_bound(10, 50000, 0, 0.5, 1000, 1 / 0.6); /* 1,000 calls of 50 us are 0.05 s more */
    check_bound(5, 1000, 0, 0.25, 200000, 1);      /* saves 0.2 s, costs 0.2 s */
    check_bound(4, 1000000, 0, 0.4, 1700, 1 / 2.4);
    check_bound(2, 0, 0, 1, 1, 2);
    check_bound(1, 0, 0, 0.3, 5, 1);         /* as fast there as here */
    check_bound(0.5, 0, 0, 0.5, 5, 1 / 1.5); /* half as fast */
    check_bound(0, 0, 8, 0.8, 1000, 1 / 0.3);
    check_bound(0, 0, 8, 0.8, 2, 1 / 0.6);         /* two calls: two threads */
    check_bound(0, 0, 8, 0.8, 1, 1);               /* one call is not split */
    check_bound(0, 0, 8, 0.8, 0, 1 / 0.3);         /* calls not known */
    check_bound(0, 1000, 4, 0.8, 100000, 1 / 0.5); /* 0.2 + 0.2 + 0.1 */
}

static void nothing_left_is_no_bound(void **state)
{
    (void)state;
    struct report_assumption free_of_cost = {0};
    struct view_share all = {1, 0.99, 1};
    struct report_bound bound = report_candidates_bound(&free_of_cost, &all, 1e9, 1);
    assert_true(isinf(bound.value) && isinf(bound.high));
    near(bound.low, 100);
}

static void ends_are_in_order(void **state)
{
    (void)state;
    struct view_share share = {0.5, 0.4, 0.6};
    struct report_bound bound =
        report_candidates_bound(&(struct report_assumption){.speedup = 10}, &share, 1e9, 1);
    near(bound.low, 1 / 0.64);
    near(bound.high, 1 / 0.46);
    bound = report_candidates_bound(&(struct report_assumption){.speedup = 0.5}, &share, 1e9, 1);
    near(bound.low, 1 / 1.6);
    near(bound.high, 1 / 1.4);
}

static void verdicts(void **state)
{
    (void)state;
    assert_int_equal(report_candidates_verdict(&(struct report_bound){1.5, 1, 2}), REPORT_GAINS);
    assert_int_equal(report_candidates_verdict(&(struct report_bound){1.5, 0.9, 2}), REPORT_MAY_COST);
    assert_int_equal(report_candidates_verdict(&(struct report_bound){0.9, 0.8, 1}), REPORT_MAY_COST);
    assert_int_equal(report_candidates_verdict(&(struct report_bound){0.9, 0.8, 0.99}), REPORT_COSTS);
}

/* At the break-even cost the bound is 1, whatever the rest. */
static void break_even_is_where_nothing_is_gained(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (int i = 0; i < 2000; i++) {
        random = base_hash(random + 1);
        double share = (double)(random % 1000) / 1000, speedup = 1 + (double)(random >> 20 & 63);
        uint64_t calls = 1 + (random >> 32 & 0xfffff), threads = i % 3 ? 0 : 1 + (random >> 26 & 15);
        struct report_assumption assumption = {threads ? 0 : speedup, 0, threads};
        assumption.invoke_ns = report_candidates_break_even(&assumption, share * 1e9 / (double)calls, calls);
        struct view_share shares = {share, share, share};
        near(report_candidates_bound(&assumption, &shares, 1e9, calls).value, 1);
    }
}

/* --- of a profile --- */

static void expect_in(const char *text, const char *wanted)
{
    if (!strstr(text, wanted))
        fail_msg("no \"%s\" in:\n%s", wanted, text ? text : "");
}

static void expect_not_in(const char *text, const char *unwanted)
{
    if (strstr(text, unwanted))
        fail_msg("\"%s\" in:\n%s", unwanted, text ? text : "");
}

/* Wilson's interval, from the textbook's form. */
static void wilson(double hits, double n, double *low, double *high)
{
    const double z = 1.959963984540054;
    double p = hits / n, root = z * sqrt((p * (1 - p) + z * z / (4 * n)) / n);
    *low = (p + z * z / (2 * n) - root) / (1 + z * z / n);
    *high = (p + z * z / (2 * n) + root) / (1 + z * z / n);
}

/* The number behind `key` at or behind the first `"function": "name"` of a JSON document. */
static double json_number(const char *text, const char *array, const char *name, const char *group,
                          const char *key)
{
    char wanted[64];
    const char *at = strstr(text, array);
    snprintf(wanted, sizeof wanted, "{\"function\": \"%s\"", name);
    at = at ? strstr(at, wanted) : NULL;
    snprintf(wanted, sizeof wanted, "\"%s\": %s", group, key ? "{" : "");
    at = at ? strstr(at, wanted) : NULL;
    if (at && key) {
        snprintf(wanted, sizeof wanted, "\"%s\": ", key);
        at = strstr(at, wanted);
    }
    if (!at)
        fail_msg("no %s.%s of %s in:\n%s", group, key ? key : "", name, text);
    return strtod(at + strlen(wanted), NULL);
}

static void roughly(double got, double wanted)
{
    if (fabs(got - wanted) > 2e-7 * fmax(1, fabs(wanted))) /* 8 digits are printed */
        fail_msg("%.12g should be %.12g", got, wanted);
}

/* main (1000 samples) calls work, 600 of them, 3,000 times; work calls itself 500 times. */
static struct sample_profile recursive_sample(void)
{
    struct sample_profile s = sample_profile_new();
    uint32_t mainly = sample_profile_function(&s, s.program, "main", 0x100, NULL, 0);
    uint32_t work = sample_profile_function(&s, s.program, "work", 0x200, NULL, 0);
    uint32_t deep = sample_profile_function(&s, s.program, "deep", 0x300, NULL, 0);
    SAMPLE(&s, 0, 400, mainly);
    SAMPLE(&s, 0, 350, mainly, work);
    SAMPLE(&s, 0, 150, mainly, work, work, work);
    SAMPLE(&s, 0, 100, mainly, work, work, deep);
    sample_profile_call(&s, 0, mainly, work, PROFILE_CALL_DIRECT, 2000);
    sample_profile_call(&s, 1, mainly, work, PROFILE_CALL_INDIRECT, 1000);
    sample_profile_call(&s, 0, work, work, PROFILE_CALL_DIRECT, 500);
    sample_profile_call(&s, 0, work, deep, PROFILE_CALL_DIRECT, 1);
    return s;
}

static void recursion_counts_once(void **state)
{
    (void)state;
    struct sample_profile s = recursive_sample();
    struct view_options options = {.view = VIEW_CANDIDATES, .json = true, .speedup = 4, .invoke_ns = 20000};
    const double whole = 1000 * 1001001.0, period_share = 600.0 / 1000;
    double low, high, left = 1 - period_share + period_share / 4 + 3000 * 20000.0 / whole;
    char *text = sample_profile_report(s.profile, &options);
    assert_null(check_json(text));
    wilson(600, 1000, &low, &high);
    roughly(json_number(text, "\"rows\"", "work", "total", "share"), 0.6);
    roughly(json_number(text, "\"rows\"", "work", "total", "low"), low);
    roughly(json_number(text, "\"rows\"", "work", "bound", "value"), 1 / left);
    roughly(json_number(text, "\"rows\"", "work", "bound", "low"),
            1 / (1 - low + low / 4 + 3000 * 20000.0 / whole));
    roughly(json_number(text, "\"rows\"", "work", "bound", "high"),
            1 / (1 - high + high / 4 + 3000 * 20000.0 / whole));
    roughly(json_number(text, "\"rows\"", "work", "calls", NULL), 3500);
    roughly(json_number(text, "\"rows\"", "work", "recursive_calls", NULL), 500);
    roughly(json_number(text, "\"rows\"", "work", "ns_per_call", "value"), 0.6 * whole / 3000);
    roughly(json_number(text, "\"rows\"", "work", "ns_per_call", "high"), high * whole / 3000);
    roughly(json_number(text, "\"rows\"", "work", "break_even_ns", "value"), 0.75 * 0.6 * whole / 3000);
    expect_in(
        text,
        "\"callers\": [{\"function\": \"main\", \"image\": \"sqlite3\", \"calls\": 3000, \"share\": 1}]");
    expect_in(text, "\"verdict\": \"gains\"");
    free(text);
    options.json = false;
    text = sample_profile_report(s.profile, &options);
    expect_in(text, "3,000+500");
    expect_in(
        text,
        "How often these were called is not known"); /* main, which has too much of its own for a root */
    expect_not_in(text, "root, which holds");
    free(text);
    profile_free(s.profile);
}

/* One that each of two threads calls once, and one that is called once more than there are threads. */
static void roots_are_called_once_a_thread(void **state)
{
    (void)state;
    struct sample_profile s = sample_profile_new();
    uint32_t routine = sample_profile_function(&s, s.program, "routine", 0x100, NULL, 0);
    uint32_t block = sample_profile_function(&s, s.program, "block", 0x200, NULL, 0);
    uint32_t work = sample_profile_function(&s, s.program, "work", 0x300, NULL, 0);
    uint64_t threads = s.profile->thread_count - 1;
    assert_true(threads >= 2);
    SAMPLE(&s, 0, 1000, routine, block, work);
    sample_profile_call(&s, 0, 0, routine, PROFILE_CALL_ENTRY, threads);
    sample_profile_call(&s, 0, routine, block, PROFILE_CALL_DIRECT, threads + 1);
    sample_profile_call(&s, 0, block, work, PROFILE_CALL_DIRECT, 5000);
    struct view_options options = {.view = VIEW_CANDIDATES};
    char *text = sample_profile_report(s.profile, &options);
    expect_in(text, "root, which holds the time of what it calls: routine\n");
    free(text);
    profile_free(s.profile);
}

/* a and b call each other; only a is entered from outside. */
static void cycles(void **state)
{
    (void)state;
    struct sample_profile s = sample_profile_new();
    uint32_t mainly = sample_profile_function(&s, s.program, "main", 0x100, NULL, 0);
    uint32_t a = sample_profile_function(&s, s.program, "a", 0x200, NULL, 0);
    uint32_t b = sample_profile_function(&s, s.program, "b", 0x300, NULL, 0);
    uint32_t library = sample_profile_function(&s, s.library, "sort", 0x400, NULL, 0);
    SAMPLE(&s, 0, 500, mainly, a, library, b, a);
    SAMPLE(&s, 0, 500, mainly);
    sample_profile_call(&s, 0, mainly, a, PROFILE_CALL_DIRECT, 100);
    sample_profile_call(&s, 0, a, library, PROFILE_CALL_DIRECT, 100);
    /* The library's own calls are not counted: only the stacks close the cycle. */
    sample_profile_call(&s, 0, b, a, PROFILE_CALL_DIRECT, 700);
    sample_profile_call(&s, 0, 0, b, PROFILE_CALL_ENTRY, 900);
    struct view_options options = {.view = VIEW_CANDIDATES, .json = true};
    char *text = sample_profile_report(s.profile, &options);
    roughly(json_number(text, "\"rows\"", "a", "calls", NULL), 800);
    roughly(json_number(text, "\"rows\"", "a", "recursive_calls", NULL), 700);
    roughly(json_number(text, "\"rows\"", "a", "ns_per_call", "value"), 500 * 1001001.0 / 100);
    roughly(json_number(text, "\"rows\"", "b", "calls", NULL), 900);
    roughly(json_number(text, "\"rows\"", "b", "recursive_calls", NULL), 0);
    /* sort is only entered from a, which is in its cycle: all its calls count. */
    roughly(json_number(text, "\"rows\"", "sort", "recursive_calls", NULL), 0);
    free(text);
    profile_free(s.profile);
}

static void only_from_itself_is_not_known(void **state)
{
    (void)state;
    struct sample_profile s = sample_profile_new();
    uint32_t f = sample_profile_function(&s, s.program, "f", 0x100, NULL, 0);
    SAMPLE(&s, 0, 10, f, f);
    sample_profile_call(&s, 0, f, f, PROFILE_CALL_DIRECT, 9);
    struct view_options options = {.view = VIEW_CANDIDATES, .json = true, .invoke_ns = 1000000000};
    char *text = sample_profile_report(s.profile, &options);
    expect_in(text, "\"rows\": []");
    expect_in(text, "\"bound\": {\"value\": null"); /* all of it gone, nothing charged */
    free(text);
    options = (struct view_options){.view = VIEW_FLAT, .width = 80};
    text = sample_profile_report(s.profile, &options);
    expect_in(text, "     +9 "); /* none that enters it is known, and so no time of a call */
    expect_not_in(text, "ms  f");
    free(text);
    profile_free(s.profile);
}

static void costly_calls_are_said_to_cost(void **state)
{
    (void)state;
    struct sample_profile s = recursive_sample();
    struct view_options options = {.view = VIEW_CANDIDATES, .speedup = 2, .invoke_ns = 1000000};
    char *text = sample_profile_report(s.profile, &options);
    expect_in(text, "invoking it would cost more than it saves: it pays below 100 ±5 µs a call");
    free(text);
    options.invoke_ns = 100000; /* within the interval of what a call saves */
    text = sample_profile_report(s.profile, &options);
    expect_in(text, "invoking it may cost more than it saves: it pays below 100 ±5 µs a call");
    free(text);
    options.invoke_ns = 50000;
    text = sample_profile_report(s.profile, &options);
    expect_not_in(text, "more than it saves");
    free(text);
    profile_free(s.profile);
}

/* A function that was called and never met has at most what the interval allows. */
static void calls_without_samples(void **state)
{
    (void)state;
    struct sample_profile s = recursive_sample();
    uint32_t mainly = sample_profile_function(&s, s.program, "main", 0x100, NULL, 0);
    uint32_t rare = sample_profile_function(&s, s.program, "rare", 0x500, NULL, 0);
    sample_profile_call(&s, 0, mainly, rare, PROFILE_CALL_DIRECT, 1000);
    struct view_options options = {.view = VIEW_FLAT, .json = true, .limit_percent = -1};
    double low, high;
    char *text = sample_profile_report(s.profile, &options);
    wilson(0, 1000, &low, &high);
    roughly(json_number(text, "\"rows\"", "rare", "ns_per_call", "low"), 0);
    roughly(json_number(text, "\"rows\"", "rare", "ns_per_call", "high"), high * 1000 * 1001001.0 / 1000);
    free(text);
    options = (struct view_options){.view = VIEW_FLAT, .limit_percent = -1};
    text = sample_profile_report(s.profile, &options);
    expect_in(text, "1,000    <3.83 µs  rare");
    free(text);
    options.view = VIEW_GRAPH;
    text = sample_profile_report(s.profile, &options);
    expect_in(text, "1,000/1,000    <3.83 µs      rare");
    free(text);
    profile_free(s.profile);
}

static void filters_on_calls(void **state)
{
    (void)state;
    struct sample_profile s = recursive_sample();
    uint32_t mainly = sample_profile_function(&s, s.program, "main", 0x100, NULL, 0);
    uint32_t outside = sample_profile_function(&s, s.library, "outside", 0x500, NULL, 0);
    sample_profile_call(&s, 1, mainly, outside, PROFILE_CALL_TAIL, 40);
    struct view_options options = {.view = VIEW_EDGES, .part.thread = "worker"};
    char *text = sample_profile_report(s.profile, &options);
    expect_in(text, "only: thread worker (1 of 2 threads); shares are of their calls\n");
    expect_in(text, "  1,000  96.2 %  indirect  main    sqlite3    work");
    expect_in(text, "     40   3.8 %  tail      main    sqlite3    outside  libsqlite3.so.0\n");
    expect_not_in(text, "direct    work");
    free(text);
    options = (struct view_options){.view = VIEW_EDGES, .part.image = "lib*"};
    text = sample_profile_report(s.profile, &options);
    expect_in(text, "40  100.0 %  tail");
    expect_not_in(text, "work");
    free(text);
    options = (struct view_options){.view = VIEW_EDGES, .part.image = "lib*", .part.thread = "100"};
    text = sample_profile_report(s.profile, &options);
    expect_in(text, "No calls: the filters leave none.\n");
    free(text);
    options = (struct view_options){.view = VIEW_FLAT, .part.image = "sqlite3"};
    text = sample_profile_report(s.profile, &options);
    expect_not_in(text, " ms"); /* a part of the time says nothing of a call */
    expect_in(text, "3,000+500");
    free(text);
    profile_free(s.profile);
}

/* --- random programs --- */

enum { FUNCTIONS = 12, STACKS = 12, DEPTH = 5, CALLS = 14 };

struct program {
    struct sample_profile sample;
    uint32_t places[FUNCTIONS];
    bool reach[FUNCTIONS][FUNCTIONS];         /* calls, then their closure */
    uint64_t calls[FUNCTIONS + 1][FUNCTIONS]; /* the last caller is unknown */
};

static struct program random_program(uint64_t seed)
{
    struct program program = {.sample = sample_profile_new()};
    uint64_t random = seed;
    for (uint32_t i = 0; i < FUNCTIONS; i++) {
        char name[8];
        snprintf(name, sizeof name, "f%u", i);
        program.places[i] =
            sample_profile_function(&program.sample, program.sample.program, name, 0x100 * (i + 1), NULL, 0);
    }
    for (int i = 0; i < STACKS; i++) {
        uint32_t stack[DEPTH + 1] = {0}, before = FUNCTIONS;
        for (int level = 0; level < DEPTH; level++) {
            random = base_hash(random + 1);
            uint32_t function = (uint32_t)(random % FUNCTIONS);
            stack[level] = program.places[function];
            if (before < FUNCTIONS)
                program.reach[before][function] = true;
            before = function;
        }
        sample_profile_count(&program.sample, 0, 1 + random % 50, stack);
    }
    for (int i = 0; i < CALLS; i++) {
        random = base_hash(random + 1);
        uint32_t caller = (uint32_t)(random % (FUNCTIONS + 1)), callee = (uint32_t)(random >> 20) % FUNCTIONS;
        uint64_t calls = 1 + (random >> 40) % 1000;
        sample_profile_call(&program.sample, i % 2, caller < FUNCTIONS ? program.places[caller] : 0,
                            program.places[callee], 1 + (uint32_t)i % 4, calls);
        program.calls[caller][callee] += calls;
        if (caller < FUNCTIONS)
            program.reach[caller][callee] = true;
    }
    return program;
}

/* Warshall's. */
static void close_over(struct program *program)
{
    for (int via = 0; via < FUNCTIONS; via++)
        for (int from = 0; from < FUNCTIONS; from++)
            for (int to = 0; to < FUNCTIONS; to++)
                program->reach[from][to] |= program->reach[from][via] && program->reach[via][to];
}

static void check_callee(const struct program *program, const struct view_calls *calls,
                         struct view_entities *entities, uint32_t callee)
{
    struct view_called wanted = {0};
    size_t count;
    for (uint32_t caller = 0; caller <= FUNCTIONS; caller++) {
        uint64_t number = program->calls[caller][callee];
        bool cycle = caller < FUNCTIONS && program->reach[caller][callee] && program->reach[callee][caller];
        wanted.calls += number;
        wanted.itself += caller == callee ? number : 0;
        wanted.recursive += caller == callee || cycle ? number : 0;
        uint32_t from =
            *view_entity_chain(entities, caller < FUNCTIONS ? program->places[caller] : 0, &count);
        uint32_t to = *view_entity_chain(entities, program->places[callee], &count);
        const struct view_pair *pair = view_calls_between(calls, from, to);
        assert_true(pair ? pair->calls == number && number > 0 : number == 0);
    }
    uint32_t entity = *view_entity_chain(entities, program->places[callee], &count);
    struct view_called got = view_calls_of(calls, entity);
    assert_int_equal(got.calls, wanted.calls);
    assert_int_equal(got.itself, wanted.itself);
    assert_int_equal(got.recursive, wanted.recursive);
}

static void recursion_agrees_with_a_closure(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 300; seed++) {
        struct program program = random_program(seed * 1000);
        struct view_options options = {.view = VIEW_EDGES};
        struct base_error error = {0};
        struct view_context context = {
            .profile = program.sample.profile, .options = &options, .error = &error};
        struct view_entities entities;
        struct view_calls calls;
        close_over(&program);
        assert_int_equal(view_select(context.profile, &options, &context.selection, &error), 0);
        assert_true(view_entity_init(&entities, context.profile, VIEW_DETAIL_FUNCTION));
        assert_int_equal(view_calls_gather(&context, &entities, false, &calls), 0);
        for (uint32_t i = 0; i < FUNCTIONS; i++)
            check_callee(&program, &calls, &entities, i);
        view_calls_free(&calls);
        view_entity_free(&entities);
        view_select_free(&context.selection);
        profile_free(program.sample.profile);
    }
}

static void refused(void **state)
{
    (void)state;
    struct sample_profile s = recursive_sample();
    struct view_options options = {.view = VIEW_FLAT, .counter = "calls"};
    struct base_text out = {0};
    struct base_error error = {0};
    assert_int_equal(report_print(s.profile, &options, &out, &error), BASE_EUSAGE);
    assert_non_null(strstr(error.text, "--edges"));
    uint32_t heap = profile_counter(s.profile, "heap", "bytes", true, PROFILE_SUM);
    profile_count(s.profile, (struct profile_key){1, s.threads[0], 0, (uint16_t)heap}, 100, 1);
    options = (struct view_options){.view = VIEW_CANDIDATES, .counter = "heap"};
    base_error_clear(&error);
    assert_int_equal(report_print(s.profile, &options, &out, &error), BASE_EUSAGE);
    base_text_free(&out);
    profile_free(s.profile);
}

static void profiles_with_little(void **state)
{
    (void)state;
    static const enum view_kind views[] = {VIEW_FLAT, VIEW_GRAPH, VIEW_EDGES, VIEW_CANDIDATES};
    for (int content = 0; content < 4; content++) { /* 1: the counter, 2: an edge, 3: one of no calls */
        struct sample_profile s = sample_profile_new();
        uint32_t f = sample_profile_function(&s, s.program, "f", 0x100, NULL, 0);
        if (content == 1)
            profile_calls_counter(s.profile);
        if (content > 1)
            sample_profile_call(&s, 0, 0, f, PROFILE_CALL_ENTRY, content == 2);
        for (size_t i = 0; i < 2 * sizeof views / sizeof *views; i++) {
            struct view_options options = {.view = views[i / 2], .json = i % 2, .width = 80};
            char *text = sample_profile_report(s.profile, &options);
            if (options.json)
                assert_null(check_json(text));
            else if (options.view != VIEW_EDGES)
                expect_in(text, "No samples: ");
            else if (content != 2)
                expect_in(text, content == 3   ? "No calls: none was made"
                                : content == 1 ? "No calls: not counted"
                                               : "No calls were counted");
            free(text);
        }
        profile_free(s.profile);
    }
}

static void sums_stop_at_the_top(void **state)
{
    (void)state;
    struct sample_profile s = recursive_sample();
    uint32_t mainly = sample_profile_function(&s, s.program, "main", 0x100, NULL, 0);
    uint32_t work = sample_profile_function(&s, s.program, "work", 0x200, NULL, 0);
    for (uint32_t kind = 1; kind < PROFILE_CALL_KINDS; kind++) {
        sample_profile_call(&s, 0, mainly, work, kind, UINT64_MAX);
        sample_profile_call(&s, 0, work, work, kind, UINT64_MAX);
    }
    for (int view = 0; view <= VIEW_CANDIDATES; view++)
        for (int json = 0; json < 2; json++) {
            struct view_options options = {.view = (enum view_kind)view, .json = json};
            char *text = sample_profile_report(s.profile, &options);
            assert_true(!json || !check_json(text));
            free(text);
        }
    profile_free(s.profile);
}

/* Of memory, as a file that lies may have it: every view adds up what no number holds. */
static void values_stop_at_the_ends(void **state)
{
    (void)state;
    for (int sign = -1; sign <= 1; sign += 2) {
        struct sample_profile s = sample_profile_new();
        uint32_t mainly = sample_profile_function(&s, s.program, "main", 0x100, NULL, 0);
        uint32_t work = sample_profile_function(&s, s.program, "work", 0x200, NULL, 0);
        const uint32_t stack[] = {mainly, work};
        for (int which = 0; which < PROFILE_HEAP_COUNTERS; which++) {
            uint16_t counter = (uint16_t)profile_heap_counter(s.profile, (enum profile_heap)which, true);
            for (uint32_t node = 0; node < 4; node++)
                profile_count(
                    s.profile,
                    (struct profile_key){profile_stack(s.profile, stack + node % 2, NULL, 2 - node % 2),
                                         s.threads[node / 2], 0, counter},
                    sign * INT64_MAX, UINT64_MAX);
        }
        static const enum view_kind views[] = {VIEW_FLAT,  VIEW_GRAPH, VIEW_TREE,
                                               VIEW_PATHS, VIEW_LEAKS, VIEW_PEAK};
        for (size_t i = 0; i < 2 * sizeof views / sizeof *views; i++) {
            struct view_options options = {.view = views[i / 2], .header = VIEW_HEADER_FULL, .json = i % 2};
            char *text = sample_profile_report(s.profile, &options);
            assert_true(!options.json || !check_json(text));
            if (options.view == VIEW_LEAKS && sign > 0)
                expect_in(text,
                          options.json ? "\"blocks\": 9223372036854775807" : "8.00 EiB live in 9.2 E blocks");
            free(text);
        }
        profile_free(s.profile);
    }
}

/* A file of the program's may have any name but this one; what counts memory is a cost, whatever it calls is
 * not. */
static void the_agent_is_no_candidate(void **state)
{
    (void)state;
    struct sample_profile s = sample_profile_new();
    uint32_t agent = profile_image(s.profile, PROFILE_IMAGE_FILE, PROFILE_AGENT_IMAGE, "cc", 0);
    uint32_t mainly = sample_profile_function(&s, s.program, "main", 0x100, NULL, 0);
    uint32_t wrapper = sample_profile_function(&s, agent, "agent_heap_malloc", 0x200, NULL, 0);
    uint32_t allocate = sample_profile_function(&s, s.library, "malloc", 0x300, NULL, 0);
    SAMPLE(&s, 0, 500, mainly);
    SAMPLE(&s, 0, 200, mainly, wrapper);
    SAMPLE(&s, 0, 300, mainly, wrapper, allocate);
    profile_set_meta(s.profile, "agent_memory", "1048576");
    char *json =
        sample_profile_report(s.profile, &(struct view_options){.view = VIEW_CANDIDATES, .json = true});
    expect_in(json, "\"main\"");
    expect_in(json, "\"malloc\"");
    assert_null(strstr(json, "agent_heap_malloc"));
    free(json);
    char *text = sample_profile_report(
        s.profile, &(struct view_options){.view = VIEW_CANDIDATES, .header = VIEW_HEADER_FULL});
    expect_in(text, "agent: 20.0 ±2.5 % of samples, 1.00 MiB of tables");
    assert_null(strstr(text, "agent_heap_malloc"));
    free(text);
    profile_free(s.profile);
}

/* Samples of memory are none of time: what the agent took of that is not known from them. */
static void without_time_no_cost_is_said(void **state)
{
    (void)state;
    struct sample_profile s = sample_profile_new();
    uint32_t work = sample_profile_function(&s, s.program, "work", 0x100, NULL, 0);
    uint16_t counter = (uint16_t)profile_heap_counter(s.profile, PROFILE_HEAP_TOTAL, false);
    profile_count(s.profile,
                  (struct profile_key){profile_stack(s.profile, &work, NULL, 1), s.threads[0], 0, counter},
                  1 << 20, 500);
    profile_set_meta(s.profile, "agent_memory", "1048576");
    profile_set_meta(s.profile, "overhead_stub_samples", "0");
    char *text = sample_profile_report(
        s.profile, &(struct view_options){.counter = "heap.total", .header = VIEW_HEADER_FULL});
    expect_in(text, "agent: 1.00 MiB of tables");
    assert_null(strstr(text, "% of samples"));
    free(text);
    profile_free(s.profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_known_by_hand),
        cmocka_unit_test(nothing_left_is_no_bound),
        cmocka_unit_test(ends_are_in_order),
        cmocka_unit_test(verdicts),
        cmocka_unit_test(break_even_is_where_nothing_is_gained),
        cmocka_unit_test(recursion_counts_once),
        cmocka_unit_test(roots_are_called_once_a_thread),
        cmocka_unit_test(cycles),
        cmocka_unit_test(only_from_itself_is_not_known),
        cmocka_unit_test(costly_calls_are_said_to_cost),
        cmocka_unit_test(calls_without_samples),
        cmocka_unit_test(filters_on_calls),
        cmocka_unit_test(recursion_agrees_with_a_closure),
        cmocka_unit_test(refused),
        cmocka_unit_test(profiles_with_little),
        cmocka_unit_test(sums_stop_at_the_top),
        cmocka_unit_test(values_stop_at_the_ends),
        cmocka_unit_test(the_agent_is_no_candidate),
        cmocka_unit_test(without_time_no_cost_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
