/* A program that forbids itself system calls: `filtered FILTER [wait]`, with these filters.
 *
 *   list      kills for every call but those of a list, as a sandbox does; of those that the C library needs
 *             only for signals and threads none is there
 *   masks     kills for rt_sigprocmask alone        error    answers it, gettid and getpid with EPERM
 *   trap      ends futex, clock_gettime with SIGSYS  threads  list and what threads need, for all of several
 *             threads at once
 *   strict    SECCOMP_MODE_STRICT                    clock    forbids the time-stamp counter
 *   all       allows everything                      before   list, set before an exec of itself that does
 *             the work
 *
 * It allocates, calls, opens and throws nothing away before and after, below deep stacks, and prints what it
 * did; "wait": asks for a line before the filter is set. Whatever else happens to it, a filter did. Memory is
 * taken beforehand, so that no allocator needs the kernel. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BLOCKS = 500, DEPTH = 30, THREADS = 3, ITEMS = 64 };

#define TIMED __attribute__((noinline, noclone, used))
#define KEEP  __asm__ volatile("" ::: "memory") /* so that no call is its last deed */

TIMED long timed_work(long depth);
TIMED long timed_work(long depth)
{
    long sum = 1;
    if (depth > 0) {
        sum += timed_work(depth - 1);
    } else {
        char *blocks[8];
        for (int i = 0; i < 8; i++) {
            blocks[i] = malloc(100);
            memset(blocks[i], i, 100);
        }
        for (int i = 0; i < 8; i++) {
            sum += blocks[i][50];
            free(blocks[i]);
        }
    }
    KEEP;
    return sum;
}

static long work(void)
{
    long sum = 0;
    for (int i = 0; i < BLOCKS; i++)
        sum += timed_work(i % DEPTH);
    return sum;
}

/* Without stdio, which may ask for more. */
static void say(const char *what, long number)
{
    char line[80];
    int size = snprintf(line, sizeof line, "%s %ld\n", what, number);
    if (write(1, line, (size_t)size) != size)
        _exit(3);
}

/* --- filters --- */

struct listed {
    struct sock_filter items[ITEMS];
    unsigned short count;
};

static void put(struct listed *filter, struct sock_filter item)
{
    filter->items[filter->count++] = item;
}

static void begin(struct listed *filter)
{
    filter->count = 0;
    put(filter, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
    put(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0));
    put(filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
    put(filter, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
}

static void answer(struct listed *filter, const int *calls, size_t count, unsigned how)
{
    for (size_t i = 0; i < count; i++) {
        put(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1));
        put(filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, how));
    }
}

static void set(struct listed *filter, unsigned otherwise, int for_all)
{
    put(filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, otherwise));
    struct sock_fprog program = {filter->count, filter->items};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _exit(2);
    long failed = for_all ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program)
                          : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    if (failed)
        _exit(2);
}

static const int plain[] = {SYS_read,   SYS_write, SYS_exit,   SYS_exit_group, SYS_brk,        SYS_mmap,
                            SYS_munmap, SYS_open,  SYS_openat, SYS_close,      SYS_newfstatat, SYS_fstat};
static const int of_threads[] = {SYS_futex, SYS_madvise, SYS_mprotect, SYS_rt_sigprocmask, SYS_rseq};
static const int of_start[] = {SYS_execve,    SYS_arch_prctl,      SYS_access,          SYS_pread64,
                               SYS_mprotect,  SYS_set_tid_address, SYS_set_robust_list, SYS_rseq,
                               SYS_prlimit64, SYS_getrandom};

static void forbid(const char *how)
{
    static const int masks[] = {SYS_rt_sigprocmask}, some[] = {SYS_rt_sigprocmask, SYS_gettid, SYS_getpid},
                     waits[] = {SYS_futex, SYS_clock_gettime};
    struct listed filter;
    begin(&filter);
    if (!strcmp(how, "list") || !strcmp(how, "threads") || !strcmp(how, "before"))
        answer(&filter, plain, sizeof plain / sizeof *plain, SECCOMP_RET_ALLOW);
    if (!strcmp(how, "list")) {
        set(&filter, SECCOMP_RET_KILL_PROCESS, 0);
    } else if (!strcmp(how, "threads")) {
        answer(&filter, of_threads, sizeof of_threads / sizeof *of_threads, SECCOMP_RET_ALLOW);
        set(&filter, SECCOMP_RET_KILL_PROCESS, 1);
    } else if (!strcmp(how, "before")) {
        answer(&filter, of_start, sizeof of_start / sizeof *of_start, SECCOMP_RET_ALLOW);
        set(&filter, SECCOMP_RET_KILL_PROCESS, 0);
    } else if (!strcmp(how, "masks")) {
        answer(&filter, masks, 1, SECCOMP_RET_KILL_PROCESS);
        set(&filter, SECCOMP_RET_ALLOW, 0);
    } else if (!strcmp(how, "error")) {
        answer(&filter, some, 3, SECCOMP_RET_ERRNO | EPERM);
        set(&filter, SECCOMP_RET_ALLOW, 0);
    } else if (!strcmp(how, "trap")) {
        answer(&filter, waits, 2, SECCOMP_RET_TRAP);
        set(&filter, SECCOMP_RET_ALLOW, 0);
    } else if (!strcmp(how, "all")) {
        set(&filter, SECCOMP_RET_ALLOW, 0);
    } else if (!strcmp(how, "strict")) {
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    } else if (!strcmp(how, "clock")) {
        prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
    }
}

/* --- threads --- */

static pthread_barrier_t together;

static void *beside(void *sum)
{
    pthread_barrier_wait(&together);
    *(long *)sum = work();
    return NULL;
}

static long among_threads(void)
{
    pthread_t threads[THREADS];
    long sums[THREADS], sum = 0;
    pthread_barrier_init(&together, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, beside, &sums[i]))
            return -1;
    pthread_barrier_wait(&together);
    forbid("threads");
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        sum += sums[i];
    }
    return sum;
}

/* The filter is set below calls that are timed, and so are the calls that follow. */
TIMED long timed_between(const char *how);
TIMED long timed_between(const char *how)
{
    char byte;
    forbid(how);
    long sum = work();
    if (strcmp(how, "strict") != 0) {
        int file = open("/dev/null", O_RDONLY);
        sum += file >= 0 && read(file, &byte, 1) == 0;
        close(file);
    }
    KEEP;
    return sum;
}

int main(int count, char **arguments)
{
    const char *how = count > 1 ? arguments[1] : "all";
    char line[8];
    free(malloc(1 << 16));
    say("first", work());
    if (count > 2 && read(0, line, sizeof line) < 0)
        return 1;
    if (!strcmp(how, "before")) {
        forbid(how);
        execl("/proc/self/exe", "filtered", "again", NULL);
        return 1;
    }
    if (!strcmp(how, "threads"))
        say("threads", among_threads());
    else
        say("then", timed_between(how));
    syscall(SYS_exit, 5); /* exit_group is not strict's */
    return 0;
}
