/* patch_helper_wait: children that end are what there is to be told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "patch_helper_wait.h"
#include "patch_target.h"

#define HOUR_NS UINT64_C(3600000000000)

/* A child that has ended, and nobody has asked for. */
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

/* A look at all has cost a quarter of an hour a moment ago. */
static struct patch_helper_wait resting(void)
{
    return (struct patch_helper_wait){.cost = HOUR_NS / 4, .looked = patch_target_now()};
}

static void all_are_looked_at_where_that_is_cheap(void **state)
{
    (void)state;
    struct patch_helper_wait wait = {0};
    int status;
    pid_t first = make_ended(), second = make_ended();
    pid_t told = patch_helper_wait_next(&wait, &status), then = patch_helper_wait_next(&wait, &status);
    assert_true((told == first && then == second) || (told == second && then == first));
    assert_true(WIFEXITED(status));
    assert_int_equal(patch_helper_wait_next(&wait, &status), 0);
    assert_int_equal(patch_helper_wait_rest(&wait), 0);
}

static void those_heard_of_are_asked_for_else(void **state)
{
    (void)state;
    struct patch_helper_wait wait = resting();
    int status;
    pid_t first = make_ended(), second = make_ended();
    patch_helper_wait_hear(&wait, second);
    patch_helper_wait_hear(&wait, second);
    assert_int_equal(wait.next, 1);
    assert_int_equal(patch_helper_wait_next(&wait, &status), second);
    assert_int_equal(patch_helper_wait_next(&wait, &status), 0); /* nobody's child any more */
    assert_in_range(patch_helper_wait_rest(&wait), 1, HOUR_NS);
    wait.looked -= HOUR_NS; /* the rest is over */
    assert_int_equal(patch_helper_wait_rest(&wait), 1);
    assert_int_equal(patch_helper_wait_next(&wait, &status), first);
    assert_int_equal(patch_helper_wait_next(&wait, &status), 0);
    assert_int_equal(patch_helper_wait_rest(&wait), 0);
}

static void the_oldest_are_forgotten(void **state)
{
    (void)state;
    struct patch_helper_wait wait = resting();
    int status;
    pid_t child = make_ended();
    patch_helper_wait_hear(&wait, child);
    for (int i = 0; i < PATCH_HELPER_WAIT_HEARD; i++)
        patch_helper_wait_hear(&wait, INT32_MAX - i);
    assert_int_equal(patch_helper_wait_next(&wait, &status), 0);
    patch_helper_wait_hear(&wait, 0);
    patch_helper_wait_hear(&wait, child);
    assert_int_equal(patch_helper_wait_next(&wait, &status), child);
}

/* Where one is as dear as all, all are looked at. */
static void old_kernels_are_known(void **state)
{
    (void)state;
    struct patch_helper_wait wait = resting();
    int status;
    wait.heard_cost = wait.cost / 2;
    pid_t child = make_ended();
    assert_int_equal(patch_helper_wait_next(&wait, &status), child);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_looked_at_where_that_is_cheap),
        cmocka_unit_test(those_heard_of_are_asked_for_else),
        cmocka_unit_test(the_oldest_are_forgotten),
        cmocka_unit_test(old_kernels_are_known),
    };
    return cmocka_run_group_tests_name("patch_helper_wait", tests, NULL, NULL);
}
