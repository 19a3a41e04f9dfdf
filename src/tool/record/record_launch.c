#include "record_launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base_wait.h"

static _Noreturn void run_child(int go, int failed, char *const *argv,
                                const struct record_launch_inherited *inherited)
{
    char byte;
    ssize_t got;
    while ((got = read(go, &byte, 1)) < 0 && errno == EINTR)
        ;
    if (got != 1)
        _exit(125);
    if (inherited->descriptors.rlim_max)
        setrlimit(RLIMIT_NOFILE, &inherited->descriptors);
    setpriority(PRIO_PROCESS, 0, inherited->nice);
    sigprocmask(SIG_SETMASK, &inherited->signals, NULL);
    if (inherited->tracer)
        prctl(PR_SET_PTRACER, (unsigned long)inherited->tracer, 0ul, 0ul, 0ul);
    execvp(argv[0], argv);
    int number = errno;
    while (write(failed, &number, sizeof number) < 0 && errno == EINTR)
        ;
    _exit(125);
}

int record_launch_prepare(struct record_launch *launch, char *const *argv,
                          const struct record_launch_inherited *inherited, struct base_error *error)
{
    int go[2], failed[2];
    if (pipe2(go, O_CLOEXEC))
        return base_fail_errno(error, errno, "pipe");
    if (pipe2(failed, O_CLOEXEC)) {
        int number = errno;
        close(go[0]);
        close(go[1]);
        return base_fail_errno(error, number, "pipe");
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(go[1]);
        run_child(go[0], failed[1], argv, inherited);
    }
    int number = errno;
    close(go[0]);
    close(failed[1]);
    *launch = (struct record_launch){pid, go[1], failed[0]};
    if (pid > 0)
        return BASE_OK;
    close(go[1]);
    close(failed[0]);
    return base_fail_errno(error, number, "fork");
}

static void reap_child(pid_t pid)
{
    while (base_wait(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* execvp says "not permitted" when any directory of PATH may not be looked into, whether the command is
 * there or not. Shells say that it was not found. */
static bool is_in_path(const char *command)
{
    const char *at = getenv("PATH");
    while (at && *at) {
        size_t length = strcspn(at, ":");
        char path[4096];
        int written =
            snprintf(path, sizeof path, "%.*s/%s", length ? (int)length : 1, length ? at : ".", command);
        if (written > 0 && (size_t)written < sizeof path && !access(path, F_OK))
            return true;
        at += length + (at[length] == ':');
    }
    return false;
}

static bool is_missing(const char *command, int number)
{
    return number == ENOENT || (number == EACCES && !strchr(command, '/') && !is_in_path(command));
}

int record_launch_go(struct record_launch *launch, const char *command, struct base_error *error)
{
    int number = 0;
    ssize_t got;
    while ((got = write(launch->go, "g", 1)) < 0 && errno == EINTR)
        ;
    close(launch->go);
    while ((got = read(launch->failed, &number, sizeof number)) < 0 && errno == EINTR)
        ;
    close(launch->failed);
    if (got != (ssize_t)sizeof number)
        return BASE_OK;
    reap_child(launch->pid);
    if (is_missing(command, number))
        return base_fail(error, BASE_ENOTFOUND, "%s: command not found", command);
    base_fail_errno(error, number, "%s cannot be executed", command);
    return BASE_EPERMISSION;
}

void record_launch_abandon(struct record_launch *launch)
{
    close(launch->go);
    close(launch->failed);
    reap_child(launch->pid);
}
