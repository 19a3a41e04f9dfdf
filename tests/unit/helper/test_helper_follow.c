/* The order in which the kernel tells of a fork, chosen by the test: it is the tracer itself, and waits for
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

struct family {
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

/* The parent stands in its fork's event, which nobody has taken. */
static void begin(struct family *family)
{
    struct base_error error = {0};
    siginfo_t facts;
    unsigned long message = 0;
    memset(helper_session_truth, 0, sizeof *helper_session_truth);
    family->parent = helper_session_fork(fork_once);
    trace_follow_begin(&family->follow);
    helper_session_must(trace_follow_add(&family->follow, family->parent, &error), &error);
    atomic_store(&helper_session_truth->go, true);
    assert_int_equal(waitid(P_PID, (id_t)family->parent, &facts, WSTOPPED | WNOWAIT | __WALL), 0);
    assert_int_equal(facts.si_status, SIGTRAP | PTRACE_EVENT_FORK << 8);
    assert_int_equal(ptrace(PTRACE_GETEVENTMSG, family->parent, 0, &message), 0);
    family->child = (pid_t)message;
}

/* Takes the next that is told of one process. Returns whether it lives. */
static bool take(struct family *family, pid_t pid)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, __WALL), pid);
    trace_follow_take(&family->follow, pid, status);
    return WIFSTOPPED(status);
}

static struct trace_follow_space *space_of(const struct family *family, pid_t pid)
{
    const struct trace_follow_process *process = trace_follow_process(&family->follow, pid);
    assert_non_null(process);
    return process->space;
}

static enum trace_stop_state state_of(const struct family *family, pid_t pid)
{
    return trace_stop_find(&space_of(family, pid)->stop, pid)->state;
}

/* Everything goes on, and ends. Returns the parent's exit status. */
static int finish(struct family *family)
{
    int status, exit_status = -1;
    for (int i = 0; i < LOOKS && family->follow.process_count; i++) {
        pid_t pid = waitpid(-1, &status, __WALL | WNOHANG);
        if (pid > 0)
            trace_follow_take(&family->follow, pid, status);
        if (pid == family->parent && WIFEXITED(status))
            exit_status = WEXITSTATUS(status);
        trace_follow_poll(&family->follow, UINT64_MAX, &(bool){false}); /* what is held is let go */
        if (pid <= 0)
            helper_session_nap_us(NAP_US);
    }
    if (exit_status < 0)
        kill(family->parent, SIGKILL);
    trace_follow_end(&family->follow);
    return exit_status;
}

static void a_forker_stands_until_its_child_has_trapped(void **state)
{
    (void)state;
    struct family family;
    begin(&family);
    assert_true(take(&family, family.parent)); /* the event */
    for (int i = 0; i < LOOKS && !atomic_load(&helper_session_truth->done); i++) {
        siginfo_t facts = {0};
        waitid(P_PID, (id_t)family.parent, &facts, WSTOPPED | WNOWAIT | WNOHANG | __WALL);
        if (facts.si_pid)
            break;
        helper_session_nap_us(NAP_US);
    }
    assert_int_equal(atomic_load(&helper_session_truth->done), 0);
    assert_true(take(&family, family.parent)); /* the trap */
    assert_int_equal(state_of(&family, family.parent), TRACE_STOP_STOPPED);
    assert_int_equal(family.follow.event_count, 0);
    assert_true(take(&family, family.child));
    assert_int_equal(family.follow.event_count, 1);
    assert_int_equal(family.follow.events[0].kind, TRACE_FORK);
    assert_int_equal(family.follow.events[0].pid, family.child);
    assert_int_equal(state_of(&family, family.parent), TRACE_STOP_RUNNING);
    assert_int_equal(finish(&family), 7);
}

/* The other order: nobody need be stopped for long, but the same is told. */
static void a_child_may_trap_before_it_is_announced(void **state)
{
    (void)state;
    struct family family;
    begin(&family);
    assert_true(take(&family, family.child));
    assert_int_equal(family.follow.event_count, 0);
    assert_true(take(&family, family.parent));
    assert_int_equal(family.follow.event_count, 1);
    assert_int_equal(family.follow.events[0].kind, TRACE_FORK);
    assert_int_equal(finish(&family), 7);
}

/* Nobody may wait for the trap of one that was killed: first and foremost not who made it. */
static void a_child_may_end_before_it_is_announced(void **state)
{
    (void)state;
    struct family family;
    begin(&family);
    kill(family.child, SIGKILL);
    while (take(&family, family.child))
        ;
    assert_true(take(&family, family.parent));
    assert_null(trace_follow_process(&family.follow, family.child));
    assert_int_equal(finish(&family), 100 + SIGKILL);
    assert_int_equal(atomic_load(&helper_session_truth->done), 1);
}

static void a_child_may_end_before_it_traps(void **state)
{
    (void)state;
    struct family family;
    begin(&family);
    kill(family.child, SIGKILL);
    assert_true(take(&family, family.parent));
    while (take(&family, family.child))
        ;
    assert_int_equal(finish(&family), 100 + SIGKILL);
}

/* Let go, it would run on before its child is known. */
static void who_waits_for_its_child_is_not_let_go(void **state)
{
    (void)state;
    struct family family;
    struct base_error error = {0};
    begin(&family);
    assert_true(take(&family, family.parent));
    if (trace_detach_may_reattach(family.parent)) {
        struct trace_follow_space *space = space_of(&family, family.parent);
        assert_int_equal(trace_follow_detach(&family.follow, space, NULL, 0, &error), BASE_EBUSY);
        assert_false(space->detached);
        assert_int_equal(atomic_load(&helper_session_truth->done), 0);
    }
    assert_int_equal(finish(&family), 7);
}

int main(int argc, char **argv)
{
    if (!helper_session_main(argc, argv))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_forker_stands_until_its_child_has_trapped),
        cmocka_unit_test(a_child_may_trap_before_it_is_announced),
        cmocka_unit_test(a_child_may_end_before_it_is_announced),
        cmocka_unit_test(a_child_may_end_before_it_traps),
        cmocka_unit_test(who_waits_for_its_child_is_not_let_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
