/* Profiles that are empty, unfinished, huge, hostile, or of another kind of counter; and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "check_json.h"
#include "sample_profile.h"
#include "wire_loss.h"

static void expect_in(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("no \"%s\" in:\n%s", part, text ? text : "nothing");
}

/* All views of a profile as text and JSON; the JSON must be JSON. */
static void print_everything(const struct profile *profile, struct view_options options)
{
    for (int view = 0; view <= VIEW_LOSSES; view++)
        for (int by = 0; by < (view == VIEW_FLAT ? 6 : 1); by++) {
            options.view = (enum view_kind)view;
            options.by = (enum view_by)by;
            options.json = false;
            free(sample_profile_report(profile, &options));
            options.json = true;
            char *json = sample_profile_report(profile, &options);
            const char *wrong = check_json(json);
            if (wrong)
                fail_msg("view %d by %d is no JSON: %.80s", view, by, wrong);
            free(json);
        }
}

/* Time is not counted only where all of it was lost: of the other programs there is a reason. */
static void some_programs_were_lost(void **state)
{
    (void)state;
    struct profile *profile = profile_new();
    struct view_options options = {.width = 80, .limit_percent = 0.5};
    profile_counter(profile, "time.cpu", "ns", false, PROFILE_SUM);
    profile_set_meta(profile, "engine", "agent timers (SIGURG), x");
    profile_set_meta(profile, "no_samples_reason", "the target slept");
    profile_process(profile, 100, 0);
    profile_lose(profile, WIRE_LOSS_AGENT_ABSENT, 1);
    char *text = sample_profile_report(profile, &options);
    expect_in(text, "No samples: not counted (1 program lost)\n");
    free(text);
    profile_process(profile, 101, 0);
    text = sample_profile_report(profile, &options);
    expect_in(text, "No samples: the target slept\n");
    free(text);
    profile_free(profile);
}

static void empty_profiles(void **state)
{
    (void)state;
    struct profile *profile = profile_new();
    struct view_options options = {.width = 80, .limit_percent = 0.5};
    print_everything(profile, options);
    char *text = sample_profile_report(profile, &options);
    assert_string_equal(text, "time.cpu: 0 samples\n"
                              "unfinished recording   lost: what came later\n"
                              "\n"
                              "No samples: the profile does not say why\n");
    free(text);
    profile_set_meta(profile, "target_cpu_ns", "300000");
    text = sample_profile_report(profile, &options);
    expect_in(text, "No samples: the target used only 300 µs of CPU time\n");
    free(text);
    profile_set_meta(profile, "no_samples_reason", "the target slept");
    profile_set_meta(profile, "complete", "1");
    profile_set_meta(profile, "exit_status", "signal 9 (Killed)");
    text = sample_profile_report(profile, &options);
    expect_in(text, "No samples: the target slept\n");
    expect_in(text, "\nended with signal 9 (Killed)\n");
    assert_null(strstr(text, "unfinished"));
    free(text);
    profile_free(profile);
}

static void meta_that_makes_no_sense(void **state)
{
    (void)state;
    static const char *const keys[] = {"start_time",    "duration_ns", "rate_hz", "overhead_tool_cpu_ns",
                                       "target_cpu_ns", "complete",    "command", "hostname",
                                       "exit_status",   "rate_notice", "engine",  "kernel"};
    static const char *const values[] = {"",
                                         "nan",
                                         "-1",
                                         "1e999",
                                         "99999999999999999999",
                                         "x\033[2J\"\\",
                                         "inf",
                                         "0x1",
                                         "1.5",
                                         "\xff",
                                         "a b c d e f g h i j k l m n o p q r s t"};
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
        struct sample_profile sample = sample_profile_full();
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            profile_set_meta(sample.profile, keys[k], values[v]);
        print_everything(sample.profile, (struct view_options){.width = 40});
        char *text = sample_profile_report(sample.profile, &(struct view_options){.width = 40});
        assert_null(strchr(text, '\033'));
        free(text);
        profile_free(sample.profile);
    }
}

static void hostile_names(void **state)
{
    (void)state;
    static const char *const names[] = {"\033]0;title\a",
                                        "\"quoted\\\" \n\t",
                                        "\xc3(\xff\xfe",
                                        "größe<日本語>(\u202e)",
                                        "%s%n%d",
                                        "(unbalanced<<<",
                                        " "};
    struct sample_profile sample = sample_profile_new();
    char *huge = malloc(40001);
    memset(huge, 'x', 40000);
    huge[40000] = '\0';
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        uint32_t image = profile_image(sample.profile, PROFILE_IMAGE_FILE, names[i], "", 0);
        uint32_t at = sample_profile_function(&sample, image, names[i], 0x1000 * i, names[i], 3);
        sample_profile_inline(&sample, at, i ? names[i - 1] : huge, names[i], 4);
        SAMPLE(&sample, i % 2, 5 + i, at, at);
        profile_set_thread_name(sample.profile, sample.threads[i % 2], names[i]);
    }
    SAMPLE(&sample, 0, 3, sample_profile_function(&sample, sample.library, huge, 0, huge, 1));
    profile_set_meta(sample.profile, "command", huge);
    for (unsigned width = 0; width <= 80; width += 40)
        print_everything(sample.profile, (struct view_options){.width = width, .file = "a\"b\x01"});
    char *text = sample_profile_report(sample.profile, &(struct view_options){.width = 80, .inlines = true});
    assert_null(strchr(text, '\033'));
    assert_null(strchr(text, '\a'));
    free(text);
    free(huge);
    profile_free(sample.profile);
}

static void deep_stacks(void **state)
{
    (void)state;
    enum { DEEP = 1000 };
    struct sample_profile sample = sample_profile_new();
    uint32_t a = sample_profile_function(&sample, sample.program, "alpha", 0x100, "a.c", 1);
    uint32_t b = sample_profile_function(&sample, sample.program, "beta", 0x200, "a.c", 2);
    uint32_t *stack = calloc(DEEP + 1, sizeof *stack);
    for (int i = 0; i < DEEP; i++)
        stack[i] = a;
    sample_profile_count(&sample, 0, 60, stack);
    char *text =
        sample_profile_report(sample.profile, &(struct view_options){.view = VIEW_TREE, .width = 80});
    expect_in(text,
              "\n  100.0 ± 3.0 %  100.0 ± 3.0 %  alpha (1000 deep)\n"); /* Wilson's lower end is 94.0 % */
    free(text);
    text = sample_profile_report(sample.profile, &(struct view_options){.view = VIEW_PATHS, .width = 80});
    expect_in(text, "       60  alpha (1000 deep)  ");
    free(text);
    for (int i = 0; i < DEEP; i++) /* every level branches */
        stack[i] = i % 2 ? a : b;
    for (int i = 3; i < DEEP; i += 50) {
        stack[i] = a == stack[i] ? b : a;
        sample_profile_count(&sample, 0, 40, stack);
    }
    print_everything(sample.profile, (struct view_options){.width = 80});
    text = sample_profile_report(sample.profile, &(struct view_options){.view = VIEW_TREE, .width = 80});
    expect_in(text, "  …");
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") < 200); /* bytes: drawing takes three a column */
    free(text);
    free(stack);
    profile_free(sample.profile);
}

/* A node of its own for each kind of counter, on one stack. */
static uint16_t add_counter(struct sample_profile *sample, const char *name, const char *unit, bool exact,
                            enum profile_combine combine, uint32_t outer, uint32_t inner, int64_t first,
                            int64_t second)
{
    uint16_t counter = (uint16_t)profile_counter(sample->profile, name, unit, exact, combine);
    uint32_t parent = profile_node(sample->profile, 0, outer, 0),
             child = profile_node(sample->profile, parent, inner, 0);
    profile_count(sample->profile, (struct profile_key){parent, sample->threads[0], 0, counter}, first, 1);
    profile_count(sample->profile, (struct profile_key){child, sample->threads[0], 0, counter}, second, 1);
    return counter;
}

static void other_counters(void **state)
{
    (void)state;
    struct sample_profile sample = sample_profile_new();
    uint32_t outer = sample_profile_function(&sample, sample.program, "outer", 0x100, "a.c", 1);
    uint32_t inner = sample_profile_function(&sample, sample.program, "inner", 0x200, "a.c", 2);
    SAMPLE(&sample, 0, 10, outer);
    add_counter(&sample, "blocks", "blocks", true, PROFILE_SUM, outer, inner, 250, 750);
    add_counter(&sample, "heap.peak", "bytes", true, PROFILE_PEAK, outer, inner, 3000, 1500000);
    add_counter(&sample, "heap.live", "bytes", true, PROFILE_LIVE, outer, inner, -100, 50);
    struct view_options options = {.width = 80, .counter = "blocks"};
    char *text = sample_profile_report(sample.profile, &options);
    expect_in(text, "  750  75.0 %    750  75.0 %  inner     sqlite3\n"
                    "  250  25.0 %  1,000 100.0 %  outer     sqlite3\n");
    expect_in(text, "blocks: 1,000, exact for what was counted ...\n");
    free(text);
    options.header = VIEW_HEADER_FULL;
    text = sample_profile_report(sample.profile, &options);
    expect_in(text, "other counters (--counter): time.cpu, heap.peak, heap.live\n");
    free(text);
    options.counter = "heap.peak";
    text = sample_profile_report(sample.profile, &options);
    expect_in(text, "  1.43 MiB  1.43 MiB  inner     sqlite3\n"
                    "  2.93 KiB  1.43 MiB  outer     sqlite3\n");
    free(text);
    for (int i = 0; i < 4; i++) {
        options.counter = i == 0 ? NULL : i == 1 ? "blocks" : i == 2 ? "heap.peak" : "heap.live";
        print_everything(sample.profile, options);
    }
    options.counter = NULL;
    text = sample_profile_report(sample.profile, &options);
    expect_in(text, "time.cpu: 10 samples, any share is within 31.0 points (95 %)\n");
    expect_in(text, "  100.0 ±13.9 %  100.0 ±13.9 %       10  outer     sqlite3\n");
    free(text);
    profile_free(sample.profile);
}

/* Half of the time at ten times the rate: 1,000 samples of weight 1 and 100 of weight 10 carry as much as
 * (1000 + 1000)^2 / (1000 + 10000) = 364 equal ones. */
static void unequal_weights(void **state)
{
    (void)state;
    struct sample_profile sample = sample_profile_new();
    uint32_t early = sample_profile_function(&sample, sample.program, "early", 0x100, "a.c", 1);
    uint32_t late = sample_profile_function(&sample, sample.program, "late", 0x200, "a.c", 2);
    profile_count(
        sample.profile,
        (struct profile_key){profile_node(sample.profile, 0, early, 0), sample.threads[0], 0, sample.counter},
        1000, 1000);
    profile_count(
        sample.profile,
        (struct profile_key){profile_node(sample.profile, 0, late, 0), sample.threads[0], 0, sample.counter},
        1000, 100);
    char *text = sample_profile_report(sample.profile, &(struct view_options){.width = 80});
    expect_in(text, "time.cpu: 1,100 samples, within 5.1 points\n");
    expect_in(text, "  50.0 ±5.1 %  50.0 ±5.1 %    1,000  early");
    expect_in(text, "  50.0 ±5.1 %  50.0 ±5.1 %      100  late");
    free(text);
    profile_free(sample.profile);
}

static void places_without_names(void **state)
{
    (void)state;
    struct sample_profile sample = sample_profile_new();
    uint32_t special = profile_image(sample.profile, PROFILE_IMAGE_SPECIAL, "(folded)", "", 0);
    uint32_t folded = profile_address(sample.profile, special, 0),
             nowhere = profile_address(sample.profile, 0, 0x77);
    SAMPLE(&sample, 0, 10, folded);
    if (nowhere)
        SAMPLE(&sample, 0, 20, nowhere);
    profile_count(sample.profile, (struct profile_key){0, sample.threads[0], PROFILE_NO_CPU, sample.counter},
                  30 * 1001001, 30); /* no stack */
    char *text = sample_profile_report(sample.profile, &(struct view_options){.width = 80});
    expect_in(text, "  (folded)   (folded)\n");
    expect_in(text, "  [unknown]\n");
    free(text);
    text = sample_profile_report(sample.profile, &(struct view_options){.width = 80, .by = VIEW_BY_CPU});
    expect_in(text, "       30  unknown\n");
    free(text);
    print_everything(sample.profile, (struct view_options){.width = 80, .lines = true});
    profile_free(sample.profile);
}

/* Generated code that moves, and one name in two files. */
static void equal_names(void **state)
{
    (void)state;
    struct sample_profile sample = sample_profile_new();
    uint32_t jit = profile_image(sample.profile, PROFILE_IMAGE_JIT, "[jit]", "", sample.process);
    SAMPLE(&sample, 0, 10, sample_profile_function(&sample, jit, "moves", 0x1000, NULL, 0));
    SAMPLE(&sample, 0, 10, sample_profile_function(&sample, jit, "moves", 0x9000, NULL, 0));
    SAMPLE(&sample, 0, 7, sample_profile_function(&sample, sample.program, "same", 0x1000, NULL, 0));
    SAMPLE(&sample, 0, 6, sample_profile_function(&sample, sample.library, "same", 0x1000, NULL, 0));
    char *text = sample_profile_report(sample.profile, &(struct view_options){0});
    expect_in(text, "       20  moves     [jit]\n");
    expect_in(text, "        7  same      sqlite3\n");
    expect_in(text, "        6  same      libsqlite3.so.0\n");
    free(text);
    profile_free(sample.profile);
}

static void refuse(struct view_options options, const char *message)
{
    struct sample_profile sample = sample_profile_full();
    struct base_text out = {0};
    struct base_error error = {0};
    base_text_add(&out, "before");
    assert_int_equal(report_print(sample.profile, &options, &out, &error), BASE_EUSAGE);
    assert_string_equal(error.text, message);
    assert_string_equal(base_text_string(&out), "before");
    base_text_free(&out);
    profile_free(sample.profile);
}

static void refused(void **state)
{
    (void)state;
    refuse((struct view_options){.counter = "cycles"}, "no counter cycles in this profile; it has time.cpu");
    refuse((struct view_options){.part.thread = "x"},
           "no thread x in this profile; it has 100 sqlite3, 101 worker");
    refuse((struct view_options){.part.process = "7"}, "no process 7 in this profile; it has 100 sqlite3");
    refuse((struct view_options){.part.image = "libc*"},
           "no image libc* in this profile; it has sqlite3, libsqlite3.so.0");
    refuse((struct view_options){.part.cpus = "4-6"}, "no samples on CPU 4-6; this profile has some on 0-1");
    static const char *const lists[] = {"", "x", "1-", "-1", "3-1", "1,", "1 2", "99999", "1-65535", "0x1"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char message[64];
        snprintf(message, sizeof message, "invalid CPU list: %s (such as 0,2-5)", lists[i]);
        refuse((struct view_options){.part.cpus = lists[i]}, message);
    }
}

/* Filters that each match something, but together nothing. */
static void filters_that_leave_nothing(void **state)
{
    (void)state;
    struct sample_profile sample = sample_profile_full();
    struct view_options options = {.part.thread = "worker", .part.image = "sqlite3", .width = 80};
    char *text = sample_profile_report(sample.profile, &options);
    expect_in(text, "0 of 2,234 samples");
    expect_in(text, "No samples: the filters leave none\n");
    free(text);
    print_everything(sample.profile, options);
    profile_free(sample.profile);
}

static void all_losses(void **state)
{
    (void)state;
    struct sample_profile sample = sample_profile_full();
    for (unsigned i = 1; i < PROFILE_LOSSES; i++)
        sample.profile->losses[i] = i;
    char *text = sample_profile_report(sample.profile, &(struct view_options){.view = VIEW_LOSSES});
    expect_in(
        text,
        "lost: 28 programs without their privileges, 70 named functions not hooked, 69 refusals of more "
        "memory for the agent, 68 places changed by somebody else, 91 more kinds\n");
    expect_in(text, "\n       1      1  samples or events dropped by the kernel because a ring was full\n");
    expect_in(text, "\n      95     95  (a reason that this version of tally does not know)\n");
    assert_null(strstr(text, "of loss 1"));
    free(text);
    print_everything(sample.profile, (struct view_options){.width = 80});
    profile_free(sample.profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_profiles),
        cmocka_unit_test(some_programs_were_lost),
        cmocka_unit_test(meta_that_makes_no_sense),
        cmocka_unit_test(hostile_names),
        cmocka_unit_test(deep_stacks),
        cmocka_unit_test(other_counters),
        cmocka_unit_test(unequal_weights),
        cmocka_unit_test(equal_names),
        cmocka_unit_test(places_without_names),
        cmocka_unit_test(refused),
        cmocka_unit_test(filters_that_leave_nothing),
        cmocka_unit_test(all_losses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
