/* refuse ERROR CALL COMMAND...: runs the command under a seccomp filter that answers a system call with an error, as those of containers
 * do. CALL is its name, or NAME:ARGUMENT:MASK:VALUE: only where an argument (0 to 5) has these of its lower 32 bits, as for
 * memory that could be written and executed. */
#include <errno.h>
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
    CALL(access),
    CALL(arch_prctl),
    CALL(bpf),
    CALL(brk),
    CALL(chdir),
    CALL(chmod),
    CALL(clock_getres),
    CALL(clock_gettime),
    CALL(clock_nanosleep),
    CALL(clone),
    CALL(clone3),
    CALL(close_range),
    CALL(dup2),
    CALL(epoll_create1),
    CALL(epoll_ctl),
    CALL(epoll_wait),
    CALL(eventfd2),
    CALL(faccessat),
    CALL(faccessat2),
    CALL(fallocate),
    CALL(fchmod),
    CALL(fchown),
    CALL(fcntl),
    CALL(fdatasync),
    CALL(flock),
    CALL(fsync),
    CALL(ftruncate),
    CALL(futex),
    CALL(futex_waitv),
    CALL(getcwd),
    CALL(getdents64),
    CALL(geteuid),
    CALL(getpgrp),
    CALL(getpid),
    CALL(getppid),
    CALL(getpriority),
    CALL(getrandom),
    CALL(gettid),
    CALL(getuid),
    CALL(ioctl),
    CALL(kcmp),
    CALL(kill),
    CALL(lseek),
    CALL(lstat),
    CALL(madvise),
    CALL(memfd_create),
    CALL(mkdir),
    CALL(mmap),
    CALL(mprotect),
    CALL(mremap),
    CALL(munmap),
    CALL(newfstatat),
    CALL(openat),
    CALL(perf_event_open),
    CALL(pidfd_getfd),
    CALL(pidfd_open),
    CALL(pidfd_send_signal),
    CALL(pipe2),
    CALL(poll),
    CALL(ppoll),
    CALL(prctl),
    CALL(prlimit64),
    CALL(process_vm_readv),
    CALL(process_vm_writev),
    CALL(ptrace),
    CALL(pwrite64),
    CALL(readlink),
    CALL(readlinkat),
    CALL(recvfrom),
    CALL(recvmsg),
    CALL(remap_file_pages),
    CALL(rename),
    CALL(rseq),
    CALL(rt_sigaction),
    CALL(rt_sigpending),
    CALL(rt_sigprocmask),
    CALL(rt_sigtimedwait),
    CALL(sched_getaffinity),
    CALL(sched_setscheduler),
    CALL(sched_yield),
    CALL(sendmsg),
    CALL(sendto),
    CALL(set_robust_list),
    CALL(setpriority),
    CALL(setsid),
    CALL(setsockopt),
    CALL(shutdown),
    CALL(sigaltstack),
    CALL(signalfd4),
    CALL(socket),
    CALL(socketpair),
    CALL(statfs),
    CALL(statx),
    CALL(sysinfo),
    CALL(tgkill),
    CALL(timer_create),
    CALL(timer_delete),
    CALL(timer_settime),
    CALL(uname),
    CALL(unlink),
    CALL(userfaultfd),
    CALL(wait4),
    CALL(waitid),
};

static int number_of(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (strlen(calls[i].name) == length && !strncmp(calls[i].name, name, length))
            return calls[i].number;
    return -1;
}

/* What CALL says. False: nothing that is known. */
static int read_call(const char *text, unsigned *number, unsigned *argument, unsigned *mask, unsigned *value)
{
    size_t length = strcspn(text, ":");
    int found = number_of(text, length);
    *number = (unsigned)found;
    *argument = *mask = *value = 0;
    return found >= 0 &&
           (!text[length] ||
            (sscanf(text + length, ":%u:%i:%i", argument, (int *)mask, (int *)value) == 3 && *argument < 6));
}

int main(int argc, char **argv)
{
    unsigned number, argument, mask, value;
    if (argc < 4 || !read_call(argv[2], &number, &argument, &mask, &value))
        return 99;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + argument * sizeof(__u64)),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
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
