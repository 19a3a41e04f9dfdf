#include "trace_child.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* --- start and end --- */

static void nap(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&time, &time) && errno == EINTR)
        ;
}

struct trace_child trace_child_start(trace_child_function *function, unsigned count)
{
    struct trace_child child;
    child.shared =
        mmap(NULL, sizeof *child.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (child.shared == MAP_FAILED || pipe(child.shared->pipe))
        abort();
    child.shared->count = count;
    child.pid = fork();
    if (child.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(function(child.shared));
    }
    while (!atomic_load(&child.shared->ready))
        nap(1);
    return child;
}

int trace_child_finish(struct trace_child *child)
{
    int status;
    atomic_store(&child->shared->stop, true);
    if (write(child->shared->pipe[1], "xxxxxxxxxxxxxxxx", 16) != 16)
        abort();
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
        ;
    int result =
        WIFEXITED(status) ? WEXITSTATUS(status) + 1000 * (int)atomic_load(&child->shared->wrong) : -1;
    close(child->shared->pipe[0]);
    close(child->shared->pipe[1]);
    munmap(child->shared, sizeof *child->shared);
    return result;
}

void trace_child_ready(struct trace_child_shared *shared)
{
    atomic_store(&shared->ready, 1);
}

void trace_child_wrong(struct trace_child_shared *shared, const char *what, long value)
{
    atomic_fetch_add(&shared->wrong, 1);
    printf("# in the child: %s: %ld\n", what, value);
    fflush(stdout);
}

/* --- seen from outside --- */

static long status_field(const char *directory, const char *key, char *text)
{
    char path[320], line[256];
    long value = -1;
    snprintf(path, sizeof path, "%s/status", directory);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, key, strlen(key))) {
            value = strtol(line + strlen(key), NULL, 10);
            if (text)
                *text = line[strlen(key) + 1];
        }
    if (file)
        fclose(file);
    return value;
}

char trace_child_state(pid_t pid)
{
    char directory[64], state = '?';
    snprintf(directory, sizeof directory, "/proc/%d", pid);
    status_field(directory, "State:", &state);
    return state;
}

static unsigned entries(pid_t pid, const char *name, long (*measure)(const char *path), long *sum)
{
    char path[64], item[320];
    unsigned count = 0;
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        if (entry->d_name[0] == '.')
            continue;
        count++;
        snprintf(item, sizeof item, "%s/%s", path, entry->d_name);
        if (measure)
            *sum += measure(item);
    }
    if (directory)
        closedir(directory);
    return count;
}

static long tracer_of(const char *path)
{
    long tracer = status_field(path, "TracerPid:", NULL);
    return tracer > 0 ? tracer : 0;
}

unsigned trace_child_turns(unsigned few, unsigned most)
{
#ifdef __SANITIZE_ADDRESS__
    few = (few + 2) / 3;
#endif
    return getenv("TALLY_LONG") ? most : few;
}

long trace_child_tracers(pid_t pid)
{
    long sum = 0;
    entries(pid, "task", tracer_of, &sum);
    return sum;
}

bool trace_child_is_free(pid_t pid)
{
    for (int i = 0; i < 2000; i++) {
        if (!trace_child_tracers(pid))
            return true; /* the helper of a killed tally may have a last request to finish */
        nap(5);
    }
    return false;
}

unsigned trace_child_descriptors(pid_t pid)
{
    return entries(pid, "fd", NULL, NULL);
}

unsigned trace_child_mappings(pid_t pid)
{
    char path[64], line[512];
    uint64_t here = (uint64_t)(uintptr_t)&trace_child_mappings, reach = 1ull << 31;
    unsigned count = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        uint64_t start = strtoul(line, NULL, 16);
        count += start < here + reach && start + reach > here;
    }
    if (file)
        fclose(file);
    return count;
}

/* --- threads that compute --- */

/* Integers, flags and vector registers, all live across many instructions. */
static __attribute__((noinline)) uint64_t compute(unsigned rounds, double *sum)
{
    uint64_t a = 88172645463325252u, b = 1, carry = 0;
    double x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (unsigned i = 0; i < rounds; i++) {
        a ^= a << 13;
        a ^= a >> 7;
        a ^= a << 17;
        carry += __builtin_add_overflow(b, a, &b);
        for (int j = 0; j < 8; j++)
            x[j] = x[j] * 1.0000001 + (double)j;
    }
    *sum = x[0] + x[1] + x[2] + x[3] + x[4] + x[5] + x[6] + x[7];
    return b + carry;
}

struct worker {
    struct trace_child_shared *shared;
    unsigned index;
    uint64_t wanted;
    double wanted_sum;
};

static void compute_once(struct worker *worker)
{
    double sum;
    if (compute(2000, &sum) != worker->wanted || sum != worker->wanted_sum)
        trace_child_wrong(worker->shared, "a result", (long)worker->index);
    atomic_fetch_add_explicit(&worker->shared->rounds[worker->index], 1, memory_order_relaxed);
}

static void *run_worker(void *argument)
{
    struct worker *worker = argument;
    while (!atomic_load_explicit(&worker->shared->stop, memory_order_relaxed)) {
        compute_once(worker);
        if (worker->index >= TRACE_CHILD_BUSY)
            nap(20);
    }
    return NULL;
}

int trace_child_busy(struct trace_child_shared *shared)
{
    static struct worker workers[TRACE_CHILD_THREADS];
    static pthread_t threads[TRACE_CHILD_THREADS];
    pthread_attr_t small;
    double sum;
    uint64_t wanted = compute(2000, &sum);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (unsigned i = 1; i < shared->count; i++) {
        workers[i] = (struct worker){shared, i, wanted, sum};
        if (pthread_create(&threads[i], &small, run_worker, &workers[i]))
            return 3;
    }
    workers[0] = (struct worker){shared, 0, wanted, sum};
    trace_child_ready(shared);
    run_worker(&workers[0]);
    for (unsigned i = 1; i < shared->count; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

static void *live_shortly(void *argument)
{
    struct trace_child_shared *shared = argument;
    double sum;
    compute(500, &sum);
    atomic_fetch_add(&shared->rounds[1], 1);
    return NULL;
}

static void *start_threads(void *argument)
{
    struct trace_child_shared *shared = argument;
    while (!atomic_load(&shared->stop)) {
        pthread_t threads[4];
        for (int i = 0; i < 4; i++)
            if (pthread_create(&threads[i], NULL, live_shortly, shared))
                trace_child_wrong(shared, "pthread_create", errno);
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
        atomic_fetch_add(&shared->rounds[0], 4);
    }
    return NULL;
}

int trace_child_creates_threads(struct trace_child_shared *shared)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        if (pthread_create(&threads[i], NULL, start_threads, shared))
            return 3;
    trace_child_ready(shared);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    return atomic_load(&shared->rounds[0]) != atomic_load(&shared->rounds[1]);
}

/* --- signals --- */

static struct trace_child_shared *signal_shared;

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    unsigned long long seen = atomic_fetch_add(&signal_shared->signals, 1);
    if (info->si_value.sival_int != (int)seen || info->si_code != SI_QUEUE || info->si_pid == 0)
        trace_child_wrong(signal_shared, "siginfo", info->si_value.sival_int);
}

int trace_child_signals(struct trace_child_shared *shared)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct worker worker = {.shared = shared};
    signal_shared = shared;
    worker.wanted = compute(2000, &worker.wanted_sum);
    sigaction(SIGRTMIN, &action, NULL);
    trace_child_ready(shared);
    run_worker(&worker);
    return 0;
}

/* --- calls that block --- */

static void check(struct trace_child_shared *shared, const char *what, long got, long wanted)
{
    if (got != wanted)
        trace_child_wrong(shared, what, got < 0 ? -errno : got);
    atomic_fetch_add(&shared->rounds[0], 1);
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void *in_nanosleep(void *argument)
{
    struct timespec time = {0, 900000000};
    uint64_t began = now_ms();
    check(argument, "nanosleep", nanosleep(&time, NULL), 0);
    if (now_ms() - began < 899)
        trace_child_wrong(argument, "nanosleep was short", (long)(now_ms() - began));
    return NULL;
}

static void *in_read(void *argument)
{
    struct trace_child_shared *shared = argument;
    char byte;
    check(shared, "read", read(shared->pipe[0], &byte, 1), 1);
    return NULL;
}

static void *in_poll(void *argument)
{
    struct trace_child_shared *shared = argument;
    struct pollfd one = {shared->pipe[0], POLLIN, 0};
    check(shared, "poll", poll(&one, 1, 60000), 1);
    return NULL;
}

static void *in_select(void *argument)
{
    struct trace_child_shared *shared = argument;
    struct timespec limit = {60, 0};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(shared->pipe[0], &set);
    check(shared, "pselect", pselect(shared->pipe[0] + 1, &set, NULL, NULL, &limit, &(sigset_t){0}), 1);
    return NULL;
}

static void *in_epoll(void *argument)
{
    struct trace_child_shared *shared = argument;
    struct epoll_event event = {.events = EPOLLIN};
    int file = epoll_create1(0);
    epoll_ctl(file, EPOLL_CTL_ADD, shared->pipe[0], &event);
    check(shared, "epoll_wait", epoll_wait(file, &event, 1, -1), 1);
    return NULL;
}

static void *in_epoll_with_timeout(void *argument)
{
    struct trace_child_shared *shared = argument;
    struct epoll_event event = {.events = EPOLLIN};
    int file = epoll_create1(0);
    check(shared, "epoll_pwait", epoll_pwait(file, &event, 1, 700, &(sigset_t){0}), 0);
    return NULL;
}

static void *in_semop(void *argument)
{
    int set = semget(IPC_PRIVATE, 1, 0600);
    struct sembuf take = {0, -1, 0};
    struct timespec limit = {0, 700000000};
    long got = semtimedop(set, &take, 1, &limit);
    check(argument, "semtimedop", got < 0 ? -errno : got, -EAGAIN);
    semctl(set, 0, IPC_RMID);
    return NULL;
}

static void *in_sigtimedwait(void *argument)
{
    struct timespec limit = {0, 700000000};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    long got = sigtimedwait(&set, NULL, &limit);
    check(argument, "sigtimedwait", got < 0 ? -errno : got, -EAGAIN);
    return NULL;
}

static void *in_futex(void *argument)
{
    static uint32_t word;
    struct timespec limit = {0, 700000000};
    long got = syscall(SYS_futex, &word, 0, 0, &limit, NULL, 0);
    check(argument, "futex", got < 0 ? -errno : got, -ETIMEDOUT);
    return NULL;
}

static void *in_vfork(void *argument)
{
    int status = -1;
    pid_t child = vfork();
    if (child == 0) {
        nap(600);
        _exit(7);
    }
    pid_t got = waitpid(child, &status, 0);
    check(argument, "vfork", got == child ? WEXITSTATUS(status) : -errno, 7);
    return NULL;
}

static void *in_waitpid(void *argument)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        nap(600);
        _exit(9);
    }
    pid_t got = waitpid(child, &status, 0);
    check(argument, "waitpid", got == child ? WEXITSTATUS(status) : -errno, 9);
    return NULL;
}

int trace_child_blocked(struct trace_child_shared *shared)
{
    static void *(*const functions[])(void *) = {
        in_nanosleep, in_read,  in_poll,         in_select, in_epoll,  in_epoll_with_timeout,
        in_semop,     in_futex, in_sigtimedwait, in_vfork,  in_waitpid};
    enum { COUNT = sizeof functions / sizeof *functions };
    pthread_t threads[COUNT];
    for (unsigned i = 0; i < COUNT; i++)
        if (pthread_create(&threads[i], NULL, functions[i], shared))
            return 3;
    nap(50);
    trace_child_ready(shared);
    for (unsigned i = 0; i < COUNT; i++)
        pthread_join(threads[i], NULL);
    return atomic_load(&shared->rounds[0]) != COUNT;
}
