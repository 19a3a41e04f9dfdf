/* Fields of /proc/PID/status: by their whole name, from texts of all lengths. */
#include <grp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base_error.h"
#include "proc_status.h"
#include "proc_target.h"

static const char text[] = "Name:\tTgid: 5\nTgid:\t7\nPid:\t8\nUid:\t1\t2\t3\t4\nGroups:\t\nNSpid:\t8\t3\t2\n"
                           "CapEff:\t00000000a0000001\nx86_Thread_features:\tshstk \nlast:\t9";

static void test_fields(void **state)
{
    (void)state;
    assert_int_equal(proc_status_number(text, "Tgid", 0), 7);
    assert_int_equal(proc_status_number(text, "Pid", 0), 8);
    assert_int_equal(proc_status_number(text, "Uid", 0), 1);
    assert_int_equal(proc_status_number(text, "Uid", 3), 4);
    assert_int_equal(proc_status_number(text, "Uid", 4), 0);
    assert_int_equal(proc_status_number(text, "last", 0), 9);
    assert_int_equal(proc_status_set(text, "CapEff"), 0xa0000001);
    assert_memory_equal(proc_status_field(text, "Name"), "\tTgid: 5\n", 9);
    assert_memory_equal(proc_status_field(text, "x86_Thread_features"), "\tshstk \n", 8);
}

static void test_missing_fields(void **state)
{
    (void)state;
    long last = 1;
    assert_null(proc_status_field(text, "gid"));
    assert_null(proc_status_field("", "Tgid"));
    assert_int_equal(proc_status_number(text, "Threads", 0), 0);
    assert_int_equal(proc_status_number(text, "Groups", 0), 0); /* not that of the next line */
    assert_int_equal(proc_status_set(text, "CapPrm"), 0);
    assert_int_equal(proc_status_numbers(text, "Threads", &last), 0);
    assert_int_equal(last, 0);
}

static void test_numbers(void **state)
{
    (void)state;
    long last;
    assert_int_equal(proc_status_numbers(text, "NSpid", &last), 3);
    assert_int_equal(last, 2);
    assert_int_equal(proc_status_numbers(text, "Pid", &last), 1);
    assert_int_equal(last, 8);
    assert_int_equal(proc_status_numbers(text, "Groups", &last), 0);
}

static void test_own(void **state)
{
    (void)state;
    struct proc_status status;
    assert_int_equal(proc_status_read(getpid(), 0, &status), BASE_OK);
    assert_int_equal(proc_status_number(status.text, "Pid", 0), getpid());
    assert_int_equal(proc_status_read(getpid(), getpid(), &status), BASE_OK);
    assert_int_equal(proc_status_number(status.text, "PPid", 0), getppid());
    assert_null(proc_status_field(status.text, "Groups"));
    assert_non_null(proc_status_field(status.text, "NStgid")); /* the line behind it */
    assert_int_equal(proc_status_read(getpid(), 1, &status), getpid() == 1 ? BASE_OK : BASE_ENOTFOUND);
}

/* Users of large directories are in hundreds of groups, which stand before what follows. */
static void test_many_groups(void **state)
{
    (void)state;
    enum { GROUPS = 3000 };
    static gid_t groups[GROUPS];
    for (unsigned i = 0; i < GROUPS; i++)
        groups[i] = 2000000000 + i;
    if (geteuid() != 0)
        skip();
    pid_t child = fork();
    if (child == 0) {
        struct proc_target_facts facts;
        struct proc_target_credentials own;
        bool set = setgroups(GROUPS, groups) == 0;
        bool read = proc_target_facts(getpid(), getpid(), &facts) == BASE_OK &&
                    proc_target_credentials(getpid(), &own) == BASE_OK;
        _exit(!set ? 2 : read && facts.threads == 1 && own.bounding != 0 ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WEXITSTATUS(status) == 2)
        skip();
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields), cmocka_unit_test(test_missing_fields), cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_own),    cmocka_unit_test(test_many_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
