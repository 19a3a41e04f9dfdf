/* refuse ERROR NAME COMMAND...: runs the command under a seccomp filter that answers one system call with an error, as those of
 * containers do. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#define CALL(name)                                                                                           \
    {                                                                                                        \
#name, SYS_##name                                                                                    \
    }

static const struct {
    const char *name;
    int number;
} calls[] = {
    CALL(pidfd_open),
    CALL(pidfd_getfd),
    CALL(memfd_create),
    CALL(kcmp),
    CALL(process_vm_readv),
    CALL(process_vm_writev),
    CALL(prctl),
    CALL(timer_create),
    CALL(perf_event_open),
    CALL(ptrace),
    CALL(bpf),
    CALL(futex_waitv),
    CALL(eventfd2),
    CALL(signalfd4),
    CALL(close_range),
    CALL(getpriority),
    CALL(setpriority),
    CALL(sched_setscheduler),
    CALL(epoll_create1),
    CALL(setsid),
    CALL(prlimit64),
    CALL(madvise),
    CALL(ftruncate),
    CALL(socketpair),
    CALL(getrandom),
    CALL(flock),
    CALL(fchmod),
    CALL(chdir),
    CALL(getdents64),
    CALL(setsockopt),
    CALL(clock_getres),
    CALL(wait4),
    CALL(userfaultfd),
    CALL(getppid),
    CALL(mkdir),
};

static int number_of(const char *name)
{
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (!strcmp(calls[i].name, name))
            return calls[i].number;
    return -1;
}

int main(int argc, char **argv)
{
    int number = argc > 3 ? number_of(argv[2]) : -1;
    if (number < 0)
        return 99;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)atoi(argv[1])),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof code[0], code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) {
        perror("seccomp");
        return 99;
    }
    execvp(argv[3], argv + 3);
    perror(argv[3]);
    return 127;
}
