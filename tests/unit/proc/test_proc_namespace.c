/* proc_namespace: what /proc/self/status says of its reader. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proc_namespace.h"

static void numbers_are_compared(void **state)
{
    (void)state;
    assert_true(
        proc_namespace_is_own("Name:\ttally\nTgid:\t7\nPid:\t7\nPPid:\t1\nNSpid:\t7\nVmPeak:\t1\n", 7));
    assert_true(proc_namespace_is_own("Name:\ttally\nPid:\t7\nPPid:\t1\n", 7)); /* no CONFIG_PID_NS */
    assert_false(proc_namespace_is_own("Name:\ttally\nPid:\t4711\nNSpid:\t4711\t7\n", 7));
    assert_false(proc_namespace_is_own("Name:\ttally\nPid:\t7\nNSpid:\t7\t7\n", 7)); /* by chance the same */
    assert_false(proc_namespace_is_own("Name:\ttally\nPid:\t8\nNSpid:\t8\n", 7));
    assert_false(proc_namespace_is_own("", 7));
}

static void this_process_has_its_own_proc(void **state)
{
    struct base_error error = {0};
    (void)state;
    assert_int_equal(proc_namespace_check(&error), BASE_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_compared),
        cmocka_unit_test(this_process_has_its_own_proc),
    };
    return cmocka_run_group_tests_name("proc_namespace", tests, NULL, NULL);
}
