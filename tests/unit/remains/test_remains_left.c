/* What is tried again where something stayed, how often, and for how long: on a clock of the test's own,
 * beside removals of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "proc_target.h"
#include "remains.h"
#include "remains_left.h"

#define SECOND UINT64_C(1000000000)
enum { PROCESSES = 16 };

static uint64_t now, takes;
static unsigned tries[PROCESSES];
static uint64_t stays[PROCESSES]; /* bytes that a try leaves */
static int fails[PROCESSES];

uint64_t __wrap_base_clock_now(void);
uint64_t __wrap_base_clock_now(void)
{
    return now;
}

int __wrap_remains_remove(pid_t pid, struct remains_cleaned *cleaned, struct base_error *error);
int __wrap_remains_remove(pid_t pid, struct remains_cleaned *cleaned, struct base_error *error)
{
    (void)error;
    tries[pid]++;
    now += takes;
    *cleaned = (struct remains_cleaned){.bytes_left = stays[pid]};
    return fails[pid];
}

static int begin(void **state)
{
    (void)state;
    now = 1000 * SECOND;
    takes = 0;
    for (int i = 0; i < PROCESSES; i++) {
        tries[i] = 0;
        stays[i] = 0;
        fails[i] = BASE_OK;
    }
    return 0;
}

static void what_may_pass_is_tried_again(void **state)
{
    struct remains_left left = {0}, other = {0};
    (void)state;
    for (pid_t pid = 1; pid <= 4; pid++)
        remains_left_add(&left, pid, 100, true);
    stays[2] = 50;
    fails[3] = BASE_EBUSY;
    fails[4] = BASE_ENOTFOUND;
    remains_left_retry(&left, &other);
    assert_int_equal(left.count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_in_range(left.items[i].pid, 2, 3);
        assert_int_equal(left.items[i].bytes, left.items[i].pid == 2 ? 50 : 100);
    }
    assert_int_equal(tries[1] + tries[2] + tries[3] + tries[4], 4);
    remains_left_free(&left);
}

/* Others may still jump there, which nothing in the process shows. */
static void what_stays_for_good_is_not(void **state)
{
    struct remains_left left = {0}, other = {0};
    (void)state;
    remains_left_add(&left, 1, 100, false);
    remains_left_add(&left, 2, 100, true);
    remains_left_add(&left, 2, 10, false);
    remains_left_add(&left, 3, 100, false);
    remains_left_add(&left, 3, 10, true);
    remains_left_retry(&left, &other);
    assert_int_equal(left.count, 3);
    assert_int_equal(tries[1] + tries[2] + tries[3], 0);
    assert_int_equal(remains_left_first(&left)->pid, 1);
    assert_false(remains_left_first(&left)->retry);
    remains_left_free(&left);
}

/* A try for one list removes what is in the other. */
static void nor_for_the_other_list(void **state)
{
    struct remains_left agent = {0}, calls = {0};
    (void)state;
    remains_left_add(&agent, 1, 100, true);
    remains_left_add(&calls, 1, 200, false);
    remains_left_add(&agent, 2, 100, false);
    remains_left_add(&calls, 2, 200, true);
    remains_left_retry(&agent, &calls);
    assert_int_equal(tries[1] + tries[2], 0);
    assert_int_equal(agent.count, 2);
    assert_int_equal(calls.count, 2);
    remains_left_free(&agent);
    remains_left_free(&calls);
}

static void both_lists_need_one_try(void **state)
{
    struct remains_left agent = {0}, calls = {0};
    (void)state;
    for (pid_t pid = 1; pid <= 3; pid++) {
        remains_left_add(&agent, pid, 100, true);
        remains_left_add(&calls, pid, 200, true);
    }
    stays[2] = 300;
    stays[3] = 40;
    remains_left_retry(&agent, &calls);
    for (pid_t pid = 1; pid <= 3; pid++)
        assert_int_equal(tries[pid], 1);
    assert_int_equal(agent.count, 2);
    assert_int_equal(calls.count, 2);
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < 2; j++)
            if (agent.items[i].pid == calls.items[j].pid)
                assert_int_equal(agent.items[i].bytes + calls.items[j].bytes, stays[agent.items[i].pid]);
    remains_left_free(&agent);
    remains_left_free(&calls);
}

static void many_are_tried_for_five_seconds(void **state)
{
    struct remains_left agent = {0}, calls = {0};
    unsigned all = 0;
    (void)state;
    takes = SECOND;
    for (pid_t pid = 1; pid < PROCESSES; pid++) {
        remains_left_add(pid % 2 ? &agent : &calls, pid, 100, true);
        stays[pid] = 100;
    }
    uint64_t began = now;
    remains_left_retry(&agent, &calls);
    for (pid_t pid = 1; pid < PROCESSES; pid++)
        all += tries[pid];
    assert_int_equal(all, 5);
    assert_true(now - began <= 5 * SECOND);
    assert_int_equal(agent.count + calls.count, PROCESSES - 1);
    remains_left_free(&agent);
    remains_left_free(&calls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_may_pass_is_tried_again, begin),
        cmocka_unit_test_setup(what_stays_for_good_is_not, begin),
        cmocka_unit_test_setup(nor_for_the_other_list, begin),
        cmocka_unit_test_setup(both_lists_need_one_try, begin),
        cmocka_unit_test_setup(many_are_tried_for_five_seconds, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
