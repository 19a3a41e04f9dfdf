#include "proc_ended.h"

#include <errno.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proc_target.h"

static uint64_t process_start(pid_t pid)
{
    struct proc_target_facts facts;
    return proc_target_facts(pid, pid, &facts) == BASE_OK ? facts.started : 0;
}

/* -1: there is none, or none that may be polled. */
static int open_pidfd(pid_t pid)
{
    struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
    if (end.fd >= 0 && poll(&end, 1, 0) < 0) {
        int number = errno;
        close(end.fd);
        errno = number;
        return -1;
    }
    return end.fd;
}

bool proc_ended_begin(struct proc_ended *ended, pid_t pid)
{
    *ended = (struct proc_ended){.pid = pid, .file = open_pidfd(pid)};
    if (ended->file < 0 && errno == ESRCH)
        return false;
    ended->started = process_start(pid);
    if (ended->file < 0)
        return !proc_ended_is(ended);
    return true;
}

bool proc_ended_is(const struct proc_ended *ended)
{
    struct pollfd end = {.fd = ended->file, .events = POLLIN};
    if (ended->file >= 0)
        return poll(&end, 1, 0) > 0;
    return !ended->started || process_start(ended->pid) != ended->started ||
           !proc_target_is_alive(ended->pid);
}

void proc_ended_close(struct proc_ended *ended)
{
    if (ended->file >= 0)
        close(ended->file);
    ended->file = -1;
}
