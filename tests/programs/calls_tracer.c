/* calls_tracer fork|vfork TIMES - starts children and traces each of them from its beginning: one that was
 * forked is seized at once, and must run on as if it were alone; one that was vforked asks to be traced and runs an image. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "calls_truth.h"

CALLS_FUNCTION static long tracer_step(long value)
{
    __asm__ volatile("" : "+r"(value));
    return value * 3 + 1;
}

/* Only the children call it, who are not counted. */
CALLS_FUNCTION static long child_step(long value)
{
    __asm__ volatile("" : "+r"(value));
    return value + 1;
}

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    return 1;
}

static int trace_forked(void)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        long sum = 0;
        for (int i = 0; i < 1000; i++)
            sum = child_step(sum);
        raise(SIGSTOP);
        _exit(child_step(sum) == 1001 ? 42 : 1);
    }
    if (ptrace(PTRACE_SEIZE, child, 0, 0))
        return fail("seize");
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status) || WSTOPSIG(status) != SIGSTOP)
        return fail("it did not stop");
    if (ptrace(PTRACE_DETACH, child, 0, 0) || kill(child, SIGCONT))
        return fail("detach");
    return waitpid(child, &status, 0) != child || status != 42 << 8 ? fail("its end") : 0;
}

static int trace_vforked(char *program)
{
    int status;
    char word[] = "image", *image[] = {program, word, NULL};
    pid_t child = vfork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0))
            _exit(2);
        execv("/proc/self/exe", image);
        _exit(3);
    }
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP) {
        errno = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
        return fail("it did not stop at its image");
    }
    if (ptrace(PTRACE_CONT, child, 0, 0))
        return fail("continue");
    return waitpid(child, &status, 0) != child || status != 42 << 8 ? fail("its end") : 0;
}

int main(int count, char **arguments)
{
    if (count == 2 && !strcmp(arguments[1], "image"))
        return 42;
    if (count != 3)
        return 2;
    int forks = !strcmp(arguments[1], "fork"), failed = 0;
    long value = 0;
    calls_wait();
    for (long i = 0, times = strtol(arguments[2], NULL, 10); i < times && !failed; i++) {
        value = CALLS_DIRECT(main, tracer_step, value);
        failed = forks ? trace_forked() : trace_vforked(arguments[0]);
        value = CALLS_DIRECT(main, tracer_step, value);
    }
    calls_print();
    return failed;
}
