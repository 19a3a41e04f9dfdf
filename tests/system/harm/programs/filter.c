/* Sets a seccomp filter that kills for what Tally's agent does (memfd_create, gettid, sched_yield): by prctl(2), or, with an argument, by
 * syscall(2) as libseccomp does. Then threads and calls. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KILL(number)                                                                                         \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

__attribute__((noinline, used)) long leaf(long x)
{
    __asm__ volatile("");
    return x * 3 + 1;
}

static void *work(void *argument)
{
    long sum = 0;
    for (int i = 0; i < 500; i++)
        sum += leaf(i);
    free(malloc((size_t)(sum & 63)));
    return argument;
}

int main(int count, char **arguments)
{
    (void)arguments;
    struct sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                   KILL(SYS_memfd_create), KILL(SYS_gettid), KILL(SYS_sched_yield),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (count > 1 ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)
                  : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("seccomp");
        return 1;
    }
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        pthread_create(&thread, 0, work, 0);
        pthread_join(thread, 0);
    }
    work(0);
    usleep(200000);
    puts("fine");
    return 0;
}
