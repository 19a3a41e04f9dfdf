/* How much of what was asked for was counted: every loss beside every kind, and what is said of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "profile_extent.h"
#include "profile_loss.h"
#include "wire_loss.h"

static const struct {
    const char *name, *unit;
    unsigned kind;
} counters[] = {
    {"time.cpu", "ns", PROFILE_EXTENT_SAMPLES},
    {PROFILE_CALLS, "calls", PROFILE_EXTENT_CALLS},
    {"heap.total", "bytes", PROFILE_EXTENT_HEAP},
    {"empty.bytes", "bytes", PROFILE_EXTENT_EMPTY},
    {"map.total", "bytes", PROFILE_EXTENT_MAPS},
    {"throw.count", "exceptions", PROFILE_EXTENT_THROWS},
    {"fd.used", "descriptors", PROFILE_EXTENT_DESCRIPTORS},
    {"function.calls", "calls", PROFILE_EXTENT_FUNCTION},
    {"function.time", "ns", PROFILE_EXTENT_FUNCTION_TIME},
    {"call.count", "calls", PROFILE_EXTENT_INSTRUMENTED},
};
enum { COUNTERS = sizeof counters / sizeof *counters };

/* One process, an image that is covered, and all counters, which are 0. */
static struct profile *unfinished_profile_of_nothing(void)
{
    struct profile *profile = profile_new();
    assert_non_null(profile);
    uint32_t image = profile_image(profile, PROFILE_IMAGE_FILE, "/bin/program", NULL, 0);
    profile_thread(profile, profile_process(profile, 100, 0), 100);
    profile_calls_counter(profile);
    for (size_t i = 0; i < COUNTERS; i++)
        profile_counter(profile, counters[i].name, counters[i].unit, i != 0, PROFILE_SUM);
    profile_set_coverage(profile, image, PROFILE_COVERAGE_SITES, 10, 9);
    return profile;
}

static struct profile *profile_of_nothing(void)
{
    struct profile *profile = unfinished_profile_of_nothing();
    profile_set_meta(profile, "complete", "1");
    return profile;
}

static void add_figure(struct profile *profile, size_t counter)
{
    uint32_t address = profile_address(profile, 1, 0x1000);
    uint32_t node = profile_node(profile, 0, address, 0);
    if (counters[counter].kind == PROFILE_EXTENT_CALLS)
        profile_add_calls(profile, profile_edge(profile, 0, address, 1, PROFILE_CALL_ENTRY), 5);
    else
        profile_count(profile,
                      (struct profile_key){node, 1, 0,
                                           (uint16_t)profile_counter_named(profile, counters[counter].name)},
                      5, 1);
}

static void expect(const struct profile *profile, size_t counter, enum profile_extent_degree degree)
{
    struct profile_extent extent = profile_extent_named(profile, counters[counter].name);
    if (extent.degree != degree)
        print_message("%s: degree %d, wanted %d\n", counters[counter].name, (int)extent.degree, (int)degree);
    assert_int_equal(extent.degree, degree);
    assert_int_equal(profile_extent_is_exact(&extent), degree == PROFILE_EXTENT_ALL && counter != 0);
}

static void expect_words(const struct profile *profile, const char *counter, const char *words,
                         const char *reason)
{
    struct profile_extent extent = profile_extent_named(profile, counter);
    struct base_text text = {0};
    profile_extent_reason(&extent, &text);
    assert_string_equal(profile_extent_words(&extent), words);
    assert_string_equal(base_text_string(&text), reason);
    base_text_free(&text);
}

static void expect_lost(const struct profile *profile, const char *wanted)
{
    struct base_text text = {0};
    profile_extent_lost(profile, &text);
    assert_string_equal(base_text_string(&text), wanted);
    base_text_free(&text);
}

/* --- */

static void every_loss_is_known(void **state)
{
    (void)state;
    static const unsigned numbers[] = {
#define X(number, name, text) number,
        WIRE_LOSSES(X)
#undef X
    };
    unsigned kinds;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        enum profile_extent_effect effect = profile_extent_effect(numbers[i], &kinds);
        if (effect == PROFILE_EXTENT_UNKNOWN)
            print_message("loss %u is not in the table\n", numbers[i]);
        assert_int_not_equal(effect, PROFILE_EXTENT_UNKNOWN);
        assert_int_equal(kinds == 0, effect == PROFILE_EXTENT_HARMLESS);
    }
    for (unsigned number = WIRE_LOSS_END; number < PROFILE_LOSSES + 2; number++) {
        assert_int_equal(profile_extent_effect(number, &kinds), PROFILE_EXTENT_UNKNOWN);
        assert_int_equal(kinds, PROFILE_EXTENT_ALL_KINDS);
    }
}

static void each_loss_stands_against_its_kinds(void **state)
{
    (void)state;
    for (unsigned loss = 0; loss < PROFILE_LOSSES; loss++)
        for (size_t i = 0; i < COUNTERS; i++) {
            unsigned kinds;
            enum profile_extent_effect effect = profile_extent_effect(loss, &kinds);
            bool against = effect != PROFILE_EXTENT_HARMLESS && kinds & counters[i].kind;
            bool whole = effect == PROFILE_EXTENT_PROGRAMS || effect == PROFILE_EXTENT_WHOLE;
            struct profile *profile = profile_of_nothing();
            profile_lose(profile, loss, 1);
            expect(profile, i,
                   !against ? PROFILE_EXTENT_ALL
                   : whole  ? PROFILE_EXTENT_NONE
                            : PROFILE_EXTENT_PART);
            add_figure(profile, i);
            expect(profile, i, against ? PROFILE_EXTENT_PART : PROFILE_EXTENT_ALL);
            profile_free(profile);
        }
}

static void whole_profiles_are_exact(void **state)
{
    (void)state;
    struct profile *profile = profile_of_nothing();
    for (size_t i = 0; i < COUNTERS; i++)
        expect(profile, i, PROFILE_EXTENT_ALL);
    expect_words(profile, PROFILE_CALLS, "exact", "");
    expect_words(profile, "time.cpu", "sampled", "");
    expect_words(profile, "not.there", "not counted", "");
    expect_lost(profile, "nothing");
    profile_free(profile);
}

static void the_only_process_was_lost(void **state)
{
    (void)state;
    struct profile *profile = profile_of_nothing();
    profile_lose(profile, WIRE_LOSS_CALLS_UNSEEN, 1);
    profile_set_meta(profile, "calls_notice", "calls of process 100 are not counted: it is a translator");
    expect_words(profile, PROFILE_CALLS, "not counted",
                 "1 program lost: calls of process 100 are not counted: it is a translator");
    expect_words(profile, "heap.total", "exact", "");
    profile_process(profile, 101, 0); /* another, in which there was no call */
    expect_words(profile, PROFILE_CALLS, "exact for what was counted",
                 "1 program lost: calls of process 100 are not counted: it is a translator");
    profile_free(profile);
}

static void losses_have_their_words(void **state)
{
    (void)state;
    struct profile *profile = profile_of_nothing();
    profile_lose(profile, WIRE_LOSS_DESCRIPTOR_CLOSED, 2);
    expect_words(profile, "fd.used", "exact for what was counted",
                 "descriptors that nobody saw closed, and that are not open any more: 2");
    profile_free(profile);
    profile = profile_of_nothing();
    profile_lose(profile, WIRE_LOSS_AGENT_REFUSED, 3);
    expect_words(profile, "heap.total", "exact for what was counted",
                 "functions that could not be hooked: 3");
    profile_set_meta(profile, "agent_notice", "a program is not counted: it is run by valgrind");
    expect_words(profile, "heap.total", "exact for what was counted",
                 "functions that could not be hooked: 3"); /* of which the notice says nothing */
    profile_lose(profile, PROFILE_LOSSES - 1, 1);
    expect_words(profile, PROFILE_CALLS, "exact for what was counted", "loss 95: 1");
    profile_free(profile);
}

static void losses_have_names(void **state)
{
    (void)state;
    assert_string_equal(profile_loss_name(WIRE_LOSS_RING_FULL), "RING_FULL");
    assert_string_equal(profile_loss_text(WIRE_LOSS_RING_FULL),
                        "samples or events dropped by the kernel because a ring was full");
    assert_non_null(profile_loss_text(WIRE_LOSS_END - 1));
    for (unsigned number = WIRE_LOSS_END; number < PROFILE_LOSSES + 2; number++)
        assert_true(!profile_loss_name(number) && !profile_loss_text(number));
    assert_null(profile_loss_name(0));
}

static void no_image_was_counted(void **state)
{
    (void)state;
    struct profile *profile = profile_new();
    profile_set_meta(profile, "complete", "1");
    profile_calls_counter(profile);
    expect_words(profile, PROFILE_CALLS, "not counted", "no image's calls were counted");
    expect_lost(profile, "all of calls");
    uint32_t image = profile_image(profile, PROFILE_IMAGE_FILE, "/bin/program", NULL, 0);
    profile_set_coverage(profile, image, PROFILE_COVERAGE_SITES, 10, 0);
    expect_words(profile, PROFILE_CALLS, "not counted", "no image's calls were counted");
    profile_set_coverage(profile, image, PROFILE_COVERAGE_SITES, 10, 1);
    expect_words(profile, PROFILE_CALLS, "exact", "");
    profile_free(profile);
}

static void no_function_that_throws_was_found(void **state)
{
    (void)state;
    struct profile *profile = profile_of_nothing();
    profile_set_meta(profile, "throws_absent", "no __cxa_throw was found in the program");
    expect_words(profile, "throw.count", "not counted", "no __cxa_throw was found in the program");
    expect_words(profile, "fd.used", "exact", "");
    expect_lost(profile, "all of throw.count");
    profile_free(profile);
}

static void unfinished_and_partial(void **state)
{
    (void)state;
    struct profile *profile = profile_of_nothing();
    profile_set_meta(profile, "calls_partial", "1");
    expect_words(profile, PROFILE_CALLS, "exact for what was counted",
                 "calls of some images or recordings may be missing");
    assert_true(profile_extent_named(profile, PROFILE_CALLS).anywhere);
    expect_lost(profile, "what some recordings did not count");
    profile_free(profile);
    profile = unfinished_profile_of_nothing();
    expect_words(profile, "heap.total", "exact for what was counted", "the recording is unfinished");
    expect_lost(profile, "what came later");
    profile_free(profile);
}

static void calls_that_were_counted(void **state)
{
    (void)state;
    struct profile *profile = profile_new();
    assert_false(profile_extent_has_calls(profile)); /* not asked for */
    profile_free(profile);
    profile = profile_of_nothing();
    assert_true(profile_extent_has_calls(profile)); /* none was made */
    profile_lose(profile, WIRE_LOSS_CALLS_UNSEEN, 1);
    assert_false(profile_extent_has_calls(profile));
    add_figure(profile, 1);
    assert_true(profile_extent_has_calls(profile));
    profile_free(profile);
}

/* Another profiler may call a counter so: it is in cells, and no loss of ours stands against it. */
static void calls_of_others_are_a_counter(void **state)
{
    (void)state;
    struct profile *profile = profile_new();
    uint32_t counter = profile_counter(profile, PROFILE_CALLS, "count", true, PROFILE_SUM);
    profile_set_meta(profile, "complete", "1");
    profile_lose(profile, WIRE_LOSS_CALLS_UNSEEN, 1);
    assert_int_equal(profile_extent_kinds(profile, counter), 0);
    expect_words(profile, PROFILE_CALLS, "exact", "");
    assert_false(profile_extent_has_calls(profile));
    profile_free(profile);
}

/* Coverage tells which images are not counted; nothing tells which functions a lost process called. */
static void what_may_be_anywhere(void **state)
{
    (void)state;
    struct profile *profile = profile_of_nothing();
    profile_lose(profile, WIRE_LOSS_NOT_PLANNED, 1);
    assert_false(profile_extent_named(profile, PROFILE_CALLS).anywhere);
    profile_lose(profile, WIRE_LOSS_CALLS_SHARED, 1);
    assert_true(profile_extent_named(profile, PROFILE_CALLS).anywhere);
    profile_free(profile);
}

static void timers_are_distinguished_from_perf(void **state)
{
    (void)state;
    struct profile *profile = profile_of_nothing();
    profile_lose(profile, WIRE_LOSS_AGENT_ABSENT, 1);
    expect(profile, 0, PROFILE_EXTENT_ALL);
    profile_set_meta(profile, "engine", "agent timers (SIGURG), x");
    expect(profile, 0, PROFILE_EXTENT_NONE);
    profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_loss_is_known),
        cmocka_unit_test(each_loss_stands_against_its_kinds),
        cmocka_unit_test(whole_profiles_are_exact),
        cmocka_unit_test(the_only_process_was_lost),
        cmocka_unit_test(losses_have_their_words),
        cmocka_unit_test(losses_have_names),
        cmocka_unit_test(no_image_was_counted),
        cmocka_unit_test(no_function_that_throws_was_found),
        cmocka_unit_test(unfinished_and_partial),
        cmocka_unit_test(calls_that_were_counted),
        cmocka_unit_test(calls_of_others_are_a_counter),
        cmocka_unit_test(what_may_be_anywhere),
        cmocka_unit_test(timers_are_distinguished_from_perf),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
