/* Waiting by waitid tells what waitpid does: of ends, stops, and stops of tracees with their events. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base_wait.h"

/* The linker sends waitpid here: -Wl,--wrap=waitpid. */
static int refused; /* the error; 0: not */

pid_t __real_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
    if (!refused)
        return __real_waitpid(pid, status, options);
    errno = refused;
    return -1;
}

static pid_t start(void (*work)(void))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        work();
        _exit(0);
    }
    return child;
}

static void end_badly(void)
{
    _exit(200);
}

static void die(void)
{
    kill(getpid(), SIGKILL);
}

static void dump(void)
{
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    signal(SIGABRT, SIG_DFL);
    kill(getpid(), SIGABRT);
}

static void stop(void)
{
    kill(getpid(), SIGSTOP);
}

static void be_traced(void)
{
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    kill(getpid(), SIGSTOP);
    if (fork() == 0)
        _exit(0);
}

static int next(pid_t pid, int options)
{
    int status = -1;
    assert_int_equal(base_wait(pid, &status, options), pid);
    return status;
}

static void check_ends(void)
{
    int status = next(start(end_badly), 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 200);
    status = next(start(die), __WALL);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    status = next(start(dump), 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    pid_t stopped = start(stop);
    status = next(stopped, WUNTRACED);
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    assert_int_equal(base_wait(stopped, &status, WNOHANG), 0);
    kill(stopped, SIGCONT);
    assert_int_equal(base_wait(-1, &status, 0), stopped);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(base_wait(stopped, NULL, 0), -1);
    assert_int_equal(errno, ECHILD);
}

static void check_events(void)
{
    pid_t child = start(be_traced);
    int status = next(child, __WALL);
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACEFORK | PTRACE_O_EXITKILL);
    ptrace(PTRACE_CONT, child, 0, 0);
    status = next(child, __WALL);
    assert_true(WIFSTOPPED(status) && status >> 8 == (SIGTRAP | PTRACE_EVENT_FORK << 8));
    unsigned long created = 0;
    assert_int_equal(ptrace(PTRACE_GETEVENTMSG, child, 0, &created), 0);
    kill((pid_t)created, SIGKILL);
    kill(child, SIGKILL);
    while (base_wait(-1, NULL, __WALL) > 0)
        ;
}

static void the_same_by_both(void **state)
{
    (void)state;
    const int errors[] = {0, EPERM, ENOSYS};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        refused = errors[i];
        check_ends();
        check_events();
    }
    refused = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_same_by_both)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
