/* The order in which the kernel reports a fork, chosen by the test: it is the tracer itself, and waits for
 * one process at a time. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "helper_session.h"
#include "trace_detach.h"
#include "trace_follow.h"

enum { LOOKS = 20000, NAP_US = 500 };

struct processes {
    struct trace_follow follow;
    pid_t parent, child;
};

/* Says `done` as soon as it runs again after the fork. */
static int fork_once(void)
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(7);
    atomic_store(&helper_session_truth->done, 1);
    if (waitpid(pid, &status, 0) != pid)
        return 1;
    return WIFSIGNALED(status) ? 100 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* The parent is stopped in its fork's event, which has not been handled. */
static void begin(struct processes *processes)
{
    struct base_error error = {0};
    siginfo_t facts;
    unsigned long message = 0;
    memset(helper_session_truth, 0, sizeof *helper_session_truth);
    processes->parent = helper_session_fork(fork_once);
    trace_follow_begin(&processes->follow);
    helper_session_must(trace_follow_add(&processes->follow, processes->parent, &error), &error);
    atomic_store(&helper_session_truth->go, true);
    assert_int_equal(waitid(P_PID, (id_t)processes->parent, &facts, WSTOPPED | WNOWAIT | __WALL), 0);
    assert_int_equal(facts.si_status, SIGTRAP | PTRACE_EVENT_FORK << 8);
    assert_int_equal(ptrace(PTRACE_GETEVENTMSG, processes->parent, 0, &message), 0);
    processes->child = (pid_t)message;
}

/* Handles the next status of one process. Returns whether it lives. */
static bool take(struct processes *processes, pid_t pid)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, __WALL), pid);
    trace_follow_handle_status(&processes->follow, pid, status);
    return WIFSTOPPED(status);
}

static struct trace_follow_space *space_of(const struct processes *processes, pid_t pid)
{
    const struct trace_follow_process *process = trace_follow_process(&processes->follow, pid);
    assert_non_null(process);
    return process->space;
}

static enum trace_stop_state state_of(const struct processes *processes, pid_t pid)
{
    return trace_stop_find(&space_of(processes, pid)->stop, pid)->state;
}

/* Everything goes on, and ends. Returns the parent's exit status. */
static int finish(struct processes *processes)
{
    int status, exit_status = -1;
    for (int i = 0; i < LOOKS && processes->follow.process_count; i++) {
        pid_t pid = waitpid(-1, &status, __WALL | WNOHANG);
        if (pid > 0)
            trace_follow_handle_status(&processes->follow, pid, status);
        if (pid == processes->parent && WIFEXITED(status))
            exit_status = WEXITSTATUS(status);
        trace_follow_poll(&processes->follow, UINT64_MAX, &(bool){false}); /* what is held is resumed */
        if (pid <= 0)
            helper_session_nap_us(NAP_US);
    }
    if (exit_status < 0)
        kill(processes->parent, SIGKILL);
    trace_follow_end(&processes->follow);
    return exit_status;
}

static void a_forker_is_stopped_until_its_child_has_trapped(void **state)
{
    (void)state;
    struct processes processes;
    begin(&processes);
    assert_true(take(&processes, processes.parent)); /* the event */
    for (int i = 0; i < LOOKS && !atomic_load(&helper_session_truth->done); i++) {
        siginfo_t facts = {0};
        waitid(P_PID, (id_t)processes.parent, &facts, WSTOPPED | WNOWAIT | WNOHANG | __WALL);
        if (facts.si_pid)
            break;
        helper_session_nap_us(NAP_US);
    }
    assert_int_equal(atomic_load(&helper_session_truth->done), 0);
    assert_true(take(&processes, processes.parent)); /* the trap */
    assert_int_equal(state_of(&processes, processes.parent), TRACE_STOP_STOPPED);
    assert_int_equal(processes.follow.event_count, 0);
    assert_true(take(&processes, processes.child));
    assert_int_equal(processes.follow.event_count, 1);
    assert_int_equal(processes.follow.events[0].kind, TRACE_FORK);
    assert_int_equal(processes.follow.events[0].pid, processes.child);
    assert_int_equal(state_of(&processes, processes.parent), TRACE_STOP_RUNNING);
    assert_int_equal(finish(&processes), 7);
}

/* The other order: nothing need be stopped for long, but the same is reported. */
static void a_child_may_trap_before_it_is_announced(void **state)
{
    (void)state;
    struct processes processes;
    begin(&processes);
    assert_true(take(&processes, processes.child));
    assert_int_equal(processes.follow.event_count, 0);
    assert_true(take(&processes, processes.parent));
    assert_int_equal(processes.follow.event_count, 1);
    assert_int_equal(processes.follow.events[0].kind, TRACE_FORK);
    assert_int_equal(finish(&processes), 7);
}

/* No thread may wait for the trap of a child that was killed, least of all its creator. */
static void a_child_may_end_before_it_is_announced(void **state)
{
    (void)state;
    struct processes processes;
    begin(&processes);
    kill(processes.child, SIGKILL);
    while (take(&processes, processes.child))
        ;
    assert_true(take(&processes, processes.parent));
    assert_null(trace_follow_process(&processes.follow, processes.child));
    assert_int_equal(finish(&processes), 100 + SIGKILL);
    assert_int_equal(atomic_load(&helper_session_truth->done), 1);
}

static void a_child_may_end_before_it_traps(void **state)
{
    (void)state;
    struct processes processes;
    begin(&processes);
    kill(processes.child, SIGKILL);
    assert_true(take(&processes, processes.parent));
    while (take(&processes, processes.child))
        ;
    assert_int_equal(finish(&processes), 100 + SIGKILL);
}

/* Detached, it would run on before its child is known. */
static void a_thread_that_waits_for_its_child_is_not_detached(void **state)
{
    (void)state;
    struct processes processes;
    struct base_error error = {0};
    begin(&processes);
    assert_true(take(&processes, processes.parent));
    if (trace_detach_may_reattach(processes.parent)) {
        struct trace_follow_space *space = space_of(&processes, processes.parent);
        assert_int_equal(trace_follow_detach(&processes.follow, space, NULL, 0, &error), BASE_EBUSY);
        assert_false(space->detached);
        assert_int_equal(atomic_load(&helper_session_truth->done), 0);
    }
    assert_int_equal(finish(&processes), 7);
}

int main(int argc, char **argv)
{
    if (!helper_session_main(argc, argv))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_forker_is_stopped_until_its_child_has_trapped),
        cmocka_unit_test(a_child_may_trap_before_it_is_announced),
        cmocka_unit_test(a_child_may_end_before_it_is_announced),
        cmocka_unit_test(a_child_may_end_before_it_traps),
        cmocka_unit_test(a_thread_that_waits_for_its_child_is_not_detached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
