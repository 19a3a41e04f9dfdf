#include "base_wait.h"

#include <errno.h>
#include <stddef.h>
#include <sys/wait.h>

#include "base_error.h"

/* As waitpid puts it together; of a tracee's stop si_status has the event, too. */
static int status_of(const siginfo_t *info)
{
    switch (info->si_code) {
    case CLD_EXITED:
        return (info->si_status & 0xff) << 8;
    case CLD_KILLED:
        return info->si_status & 0x7f;
    case CLD_DUMPED:
        return (info->si_status & 0x7f) | 0x80;
    default:
        return info->si_status << 8 | 0x7f;
    }
}

pid_t base_wait(pid_t pid, int *status, int options)
{
    siginfo_t info = {0};
    pid_t got = waitpid(pid, status, options);
    if (got >= 0 || !base_error_is_refusal(errno))
        return got;
    if (waitid(pid < 0 ? P_ALL : P_PID, pid < 0 ? 0 : (id_t)pid, &info, options | WEXITED))
        return -1;
    if (info.si_pid && status)
        *status = status_of(&info);
    return info.si_pid;
}
