/* Programs that trace what they start: their children are detached, and no thread is stopped beside one that
 * still runs in a followed address space. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "helper_session.h"

/* Follows `function`, whose children are detached, from before its first action. */
static pid_t start(struct helper_session *tally, int (*function)(void))
{
    struct base_error error = {0};
    atomic_store(&helper_session_truth->go, false);
    pid_t pid = helper_session_fork(function);
    helper_session_follow(tally, pid);
    helper_session_prepare(tally, pid, 4);
    helper_session_must(helper_trace_detach_children(&tally->helper, pid, &error), &error);
    atomic_store(&helper_session_truth->go, true);
    return pid;
}

static int end_of(pid_t pid)
{
    int status;
    return waitpid(pid, &status, 0) != pid ? 1
           : WIFEXITED(status)             ? WEXITSTATUS(status)
                                           : 100 + WTERMSIG(status);
}

/* A process that starts one child, and fails if it cannot trace it, again and again: the child is reported
 * once, as detached, and then no more. */
static void trace_many(int (*function)(void), enum trace_event_kind creation)
{
    for (int i = 0; i < 50; i++) {
        struct helper_session tally = helper_session_begin();
        pid_t pid = start(&tally, function);
        helper_session_work_until_ended(&tally, pid);
        assert_int_equal(helper_session_wait_for(pid), 0);
        assert_int_equal(tally.kinds[creation], 1);
        assert_int_equal(tally.last[creation].flags, TRACE_FLAG_DETACHED);
        assert_int_equal(tally.kinds[TRACE_EXEC], 0);
        assert_int_equal(tally.kinds[TRACE_END], 1);
        helper_session_finish(&tally);
    }
}

/* --- fork --- */

static int seize_a_child(void)
{
    pid_t child = fork();
    if (child == 0) {
        if (helper_session_number_of(helper_session_own_gs()))
            atomic_fetch_add(&helper_session_truth->creations, 1);
        while (!atomic_load(&helper_session_truth->done))
            helper_session_nap_us(500);
        _exit(21);
    }
    if (ptrace(PTRACE_SEIZE, child, 0, 0))
        helper_session_wrong("seize", (uint64_t)errno);
    if (ptrace(PTRACE_DETACH, child, 0, 0) && errno != ESRCH) /* it runs */
        helper_session_wrong("detach", (uint64_t)errno);
    atomic_store(&helper_session_truth->done, 1);
    return 0;
}

static void a_fork_child_can_be_seized_at_once(void **state)
{
    (void)state;
    trace_many(seize_a_child, TRACE_FORK);
}

static int fork_one(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(22);
    atomic_store(&helper_session_truth->done, 1);
    return end_of(child);
}

static void a_forker_is_stopped_until_its_child_was_left(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct helper_session tally = helper_session_begin();
    tally.keep_held = true;
    pid_t pid = start(&tally, fork_one);
    helper_session_work_until(&tally, TRACE_FORK, 1);
    helper_session_nap_us(20000);
    assert_int_equal(atomic_load(&helper_session_truth->done), 0);
    helper_session_must(helper_trace_leave(&tally.helper, tally.last[TRACE_FORK].pid, &error), &error);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 22 << 8);
    helper_session_finish(&tally);
}

static void a_child_killed_before_it_was_left_keeps_no_forker(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    tally.keep_held = true;
    pid_t pid = start(&tally, fork_one);
    helper_session_work_until(&tally, TRACE_FORK, 1);
    assert_int_equal(kill(tally.last[TRACE_FORK].pid, SIGKILL), 0);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), (100 + SIGKILL) << 8);
    helper_session_finish(&tally);
}

/* Tally sends no request for so long that what it held goes on. */
static void a_silent_tally_keeps_no_forker(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    tally.keep_held = true;
    pid_t pid = start(&tally, fork_one);
    assert_int_equal(helper_session_wait_for(pid), 22 << 8);
    helper_session_finish(&tally);
}

/* --- vfork --- */

static int vfork_one(void)
{
    int status;
    pid_t child = vfork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0))
            _exit(2);
        execl("/bin/true", "true", (char *)NULL);
        _exit(3);
    }
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
        return 4;
    return ptrace(PTRACE_CONT, child, 0, 0) ? 5 : end_of(child);
}

static void a_vfork_child_can_be_traced(void **state)
{
    (void)state;
    trace_many(vfork_one, TRACE_VFORK);
}

static int vfork_and_linger(void)
{
    pid_t child = vfork();
    if (child == 0) {
        atomic_store(&helper_session_truth->beats, 1);
        while (!atomic_load(&helper_session_truth->done))
            ;
        _exit(23);
    }
    int ended = end_of(child);
    while (atomic_load(&helper_session_truth->done) != 2)
        helper_session_nap_us(500);
    return ended;
}

static void no_thread_is_held_beside_a_vfork_child(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct helper_session tally = helper_session_begin();
    pid_t pid = start(&tally, vfork_and_linger);
    while (!atomic_load(&helper_session_truth->beats))
        helper_session_work(&tally, 1);
    assert_int_equal(helper_trace_hold(&tally.helper, pid, NULL, &error), BASE_EBUSY);
    assert_non_null(strstr(error.text, "runs in its memory"));
    atomic_store(&helper_session_truth->done, 1);
    helper_session_hold(&tally, pid);
    helper_session_release(&tally, pid);
    atomic_store(&helper_session_truth->done, 2);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 23 << 8);
    helper_session_finish(&tally);
}

/* --- what stays followed --- */

static int make_a_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, helper_session_live, NULL))
        return 1;
    pthread_join(thread, NULL);
    return 0;
}

static void threads_stay_followed(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    pid_t pid = start(&tally, make_a_thread);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 0);
    assert_int_equal(tally.kinds[TRACE_CREATED], 1);
    assert_int_equal(atomic_load(&helper_session_truth->creations), 1);
    helper_session_finish(&tally);
}

static int become_a_shell(void)
{
    execl("/bin/sh", "sh", "-c", "/bin/true; exit 24", (char *)NULL);
    return 1;
}

static void another_image_has_its_children_followed(void **state)
{
    (void)state;
    struct helper_session tally = helper_session_begin();
    pid_t pid = start(&tally, become_a_shell);
    helper_session_work_until_ended(&tally, pid);
    assert_int_equal(helper_session_wait_for(pid), 24 << 8);
    unsigned children = tally.kinds[TRACE_FORK] + tally.kinds[TRACE_VFORK];
    assert_int_equal(children, 1);
    assert_int_equal(tally.last[TRACE_FORK].flags | tally.last[TRACE_VFORK].flags, 0);
    assert_int_equal(tally.kinds[TRACE_EXEC], 2);
    helper_session_finish(&tally);
}

int main(int argc, char **argv)
{
    if (!helper_session_main(argc, argv))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fork_child_can_be_seized_at_once),
        cmocka_unit_test(a_forker_is_stopped_until_its_child_was_left),
        cmocka_unit_test(a_child_killed_before_it_was_left_keeps_no_forker),
        cmocka_unit_test(a_silent_tally_keeps_no_forker),
        cmocka_unit_test(a_vfork_child_can_be_traced),
        cmocka_unit_test(no_thread_is_held_beside_a_vfork_child),
        cmocka_unit_test(threads_stay_followed),
        cmocka_unit_test(another_image_has_its_children_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
