/* In which control group a process is, by the text of /proc/PID/cgroup. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "proc_cgroup.h"

static void check_group(const char *text, const char *expected)
{
    char group[64] = "";
    assert_int_equal(proc_cgroup_parse(text, group, sizeof group), expected != NULL);
    if (expected)
        assert_string_equal(group, expected);
}

static void the_best_hierarchy_says_it(void **state)
{
    (void)state;
    check_group("0::/system.slice/nginx.service\n", "/system.slice/nginx.service");
    check_group("0::/system.slice/a:b\n", "/system.slice/a:b"); /* colons belong to the name */
    check_group("0::/\n", "/");
    check_group("12:cpu,cpuacct:/docker/1f\n1:name=systemd:/docker/2f\n0::/\n", "/docker/2f");
    check_group("12:cpu,cpuacct:/docker/1f\n0::/\n", "/docker/1f");
    check_group("1:name=systemd:/a\n0::/b\n", "/b");
    check_group("0::/no end of line", "/no end of line");
}

static void what_is_no_group_is_none(void **state)
{
    (void)state;
    check_group("", NULL);
    check_group("\n", NULL);
    check_group("nonsense\n", NULL);
    check_group("0:\n", NULL);
    char longest[6000];
    memset(longest, 'x', sizeof longest - 1);
    memcpy(longest, "0::/", 4);
    longest[sizeof longest - 1] = '\0';
    check_group(longest, NULL); /* there is no room for it */
    char small[4];
    assert_false(proc_cgroup_parse("0::/abc\n", small, sizeof small));
    assert_true(proc_cgroup_parse("0::/ab\n", small, sizeof small));
}

static void a_process_that_is_gone_has_none(void **state)
{
    (void)state;
    char group[4096];
    assert_false(proc_cgroup_of(0x7ffffff0, group, sizeof group));
    if (proc_cgroup_of(getpid(), group, sizeof group))
        assert_int_equal(group[0], '/');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_hierarchy_says_it),
        cmocka_unit_test(what_is_no_group_is_none),
        cmocka_unit_test(a_process_that_is_gone_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
