/* helper_wait: the reports are those of children that end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base_clock.h"
#include "helper_wait.h"
#include "proc_target.h"

#define HOUR_NS      UINT64_C(3600000000000)
#define REST_MOST_NS UINT64_C(20000000)

/* A child that has ended, and has not been waited for. */
static pid_t make_ended(void)
{
    siginfo_t info;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_true(child > 0);
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    return child;
}

/* A waitpid(-1) has cost a quarter of an hour, and ended in the future: the rest lasts, however slow the
 * machine is. */
static struct helper_wait resting(void)
{
    return (struct helper_wait){.cost = HOUR_NS / 4, .looked = base_clock_now() + HOUR_NS};
}

static struct helper_wait rested(void)
{
    return (struct helper_wait){.cost = HOUR_NS / 4};
}

static void all_are_waited_for_where_that_is_cheap(void **state)
{
    (void)state;
    struct helper_wait wait = {0};
    int status;
    pid_t first = make_ended(), second = make_ended();
    pid_t published = helper_wait_next(&wait, &status), then = helper_wait_next(&wait, &status);
    assert_true((published == first && then == second) || (published == second && then == first));
    assert_true(WIFEXITED(status));
    assert_int_equal(helper_wait_next(&wait, &status), 0);
    assert_int_equal(helper_wait_rest(&wait), 0);
}

static void else_only_the_likely_are_waited_for(void **state)
{
    (void)state;
    struct helper_wait wait = resting();
    int status;
    pid_t first = make_ended(), second = make_ended();
    helper_wait_expect(&wait, second);
    helper_wait_expect(&wait, second);
    assert_int_equal(wait.next, 1);
    assert_int_equal(helper_wait_next(&wait, &status), second);
    assert_int_equal(helper_wait_next(&wait, &status), 0); /* no child any more */
    assert_in_range(helper_wait_rest(&wait), 1, HOUR_NS + REST_MOST_NS);
    wait.looked = 0; /* the rest is over */
    assert_int_equal(helper_wait_rest(&wait), 1);
    assert_int_equal(helper_wait_next(&wait, &status), first);
    assert_int_equal(helper_wait_next(&wait, &status), 0);
    assert_int_equal(helper_wait_rest(&wait), 0);
}

static void a_rest_is_short_whatever_waitpid_costs(void **state)
{
    (void)state;
    static const uint64_t costs[] = {HOUR_NS / 4, REST_MOST_NS / 4, REST_MOST_NS / 4 + 1, UINT64_MAX / 2};
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
        struct helper_wait wait = {.cost = costs[i], .looked = base_clock_now(), .missed = true};
        assert_in_range(helper_wait_rest(&wait), 1, REST_MOST_NS);
    }
}

/* There is always a likely one that has something to report. */
static void the_others_have_their_turn(void **state)
{
    (void)state;
    struct helper_wait wait = rested();
    int status, before = 0;
    pid_t other = make_ended(), published = 0;
    for (; before < 100 && published != other; before++) {
        helper_wait_expect(&wait, make_ended());
        published = helper_wait_next(&wait, &status);
        assert_true(published > 0);
    }
    assert_int_equal(published, other);
    assert_in_range(before, 2, 99); /* and the likely ones have theirs */
    while (waitpid(-1, &status, 0) > 0)
        ;
}

static void the_last_to_report_is_tried_last(void **state)
{
    (void)state;
    struct helper_wait wait = resting();
    int status;
    pid_t first = make_ended(), second = make_ended(), third = make_ended();
    helper_wait_expect(&wait, first);
    helper_wait_expect(&wait, second);
    assert_int_equal(helper_wait_next(&wait, &status), first);
    wait.likely[0] = third; /* as if the first had something again */
    assert_int_equal(helper_wait_next(&wait, &status), second);
    assert_int_equal(helper_wait_next(&wait, &status), third);
}

static void the_oldest_are_forgotten(void **state)
{
    (void)state;
    struct helper_wait wait = resting();
    int status;
    pid_t child = make_ended();
    helper_wait_expect(&wait, child);
    for (int i = 0; i < HELPER_WAIT_LIKELY; i++)
        helper_wait_expect(&wait, INT32_MAX - i);
    assert_int_equal(helper_wait_next(&wait, &status), 0);
    helper_wait_expect(&wait, 0);
    helper_wait_expect(&wait, child);
    assert_int_equal(helper_wait_next(&wait, &status), child);
}

/* Where waiting for one costs as much as for all, all are waited for. */
static void old_kernels_are_known(void **state)
{
    (void)state;
    struct helper_wait wait = resting();
    int status;
    wait.likely_cost = wait.cost / 2;
    pid_t child = make_ended();
    assert_int_equal(helper_wait_next(&wait, &status), child);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_waited_for_where_that_is_cheap),
        cmocka_unit_test(else_only_the_likely_are_waited_for),
        cmocka_unit_test(a_rest_is_short_whatever_waitpid_costs),
        cmocka_unit_test(the_others_have_their_turn),
        cmocka_unit_test(the_last_to_report_is_tried_last),
        cmocka_unit_test(the_oldest_are_forgotten),
        cmocka_unit_test(old_kernels_are_known),
    };
    return cmocka_run_group_tests_name("helper_wait", tests, NULL, NULL);
}
