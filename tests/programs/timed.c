/* A program whose signals, timers, threads and children are watched: what it prints must be the same whether
 * time is sampled inside of it or not. `timed MODE [NUMBER]`; each mode prints what it saw, and burns CPU
 * time meanwhile. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
static char mode_inherited[] = "inherited";

/* --- work --- */

static double cpu_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static volatile unsigned long sink;

static __attribute__((noinline)) void spin(void)
{
    for (unsigned long i = 0; i < 20000; i++)
        sink = sink * 31 + i;
}

static __attribute__((noinline)) void burn(double ms)
{
    for (double end = cpu_ms() + ms; cpu_ms() < end;)
        spin();
}

static __attribute__((noinline)) void burn_three(void)
{
    for (int i = 0; i < 3; i++)
        spin();
    __asm__ volatile(""); /* so that no call is its last deed */
}

static __attribute__((noinline)) void burn_one(void)
{
    spin();
    __asm__ volatile("");
}

/* Three quarters of the time are burn_three's. */
static void shares(long ms)
{
    for (double end = cpu_ms() + (double)ms; cpu_ms() < end;) {
        burn_three();
        burn_one();
        __asm__ volatile("");
    }
    puts("shares");
}

/* --- calls that a signal interrupts --- */

enum { SHORT_US = 300 };
static const struct timespec brief = {0, SHORT_US * 1000};

static struct timespec soon(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_nsec += SHORT_US * 1000;
    time.tv_sec += time.tv_nsec >= 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

static int pipes[2], epoll, sockets[2], semaphores, messages;
static mqd_t queue;
static sem_t semaphore;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

static int by_poll(void)
{
    return poll(&(struct pollfd){pipes[0], POLLIN, 0}, 1, 1);
}
static int by_ppoll(void)
{
    return ppoll(&(struct pollfd){pipes[0], POLLIN, 0}, 1, &brief, NULL);
}
static int by_select(void)
{
    fd_set set;
    FD_ZERO(&set);
    FD_SET(pipes[0], &set);
    return select(pipes[0] + 1, &set, NULL, NULL, &(struct timeval){0, SHORT_US});
}
static int by_pselect(void)
{
    return pselect(0, NULL, NULL, NULL, &brief, NULL);
}
static int by_epoll_wait(void)
{
    struct epoll_event event;
    return epoll_wait(epoll, &event, 1, 1);
}
static int by_nanosleep(void)
{
    return nanosleep(&brief, NULL);
}
static int by_clock_nanosleep(void)
{
    return clock_nanosleep(CLOCK_MONOTONIC, 0, &brief, NULL);
}
static int by_usleep(void)
{
    return usleep(SHORT_US);
}
static int by_futex(void)
{
    int word = 0;
    return syscall(SYS_futex, &word, 0, 0, &brief, NULL, 0) < 0 && errno == ETIMEDOUT ? 0 : -1;
}
static int by_sem_timedwait(void)
{
    const struct timespec until = soon();
    return sem_timedwait(&semaphore, &until) < 0 && errno == ETIMEDOUT ? 0 : -1;
}
static int by_condition(void)
{
    const struct timespec until = soon();
    pthread_mutex_lock(&mutex);
    int error = pthread_cond_timedwait(&condition, &mutex, &until);
    pthread_mutex_unlock(&mutex);
    return error == ETIMEDOUT || error == 0 ? 0 : -1;
}
static int by_sigtimedwait(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGURG);
    return sigtimedwait(&set, NULL, &brief) < 0 && errno == EAGAIN ? 0 : -1;
}
static int by_recv(void)
{
    char byte;
    return recv(sockets[0], &byte, 1, 0) < 0 && errno == EAGAIN ? 0 : -1;
}
static int by_semtimedop(void)
{
    struct sembuf take = {0, -1, 0};
    return semtimedop(semaphores, &take, 1, &brief) < 0 && errno == EAGAIN ? 0 : -1;
}
static int by_mq_timedreceive(void)
{
    char text[64];
    const struct timespec until = soon();
    return mq_timedreceive(queue, text, sizeof text, NULL, &until) < 0 && errno == ETIMEDOUT ? 0 : -1;
}
/* Two ends in one thread after another: the reading one waits. */
static int by_read(void)
{
    char byte = 0;
    return write(pipes[1], &byte, 1) == 1 && read(pipes[0], &byte, 1) == 1 ? 0 : -1;
}
static int by_msgrcv(void)
{
    struct {
        long type;
        char text[8];
    } message = {1, "a"};
    if (msgsnd(messages, &message, 8, 0))
        return -1;
    return msgrcv(messages, &message, 8, 1, 0) == 8 ? 0 : -1;
}
static int by_waitpid(void)
{
    pid_t pid = vfork();
    if (pid == 0)
        _exit(7);
    int status;
    return waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7 ? 0 : -1;
}

static const struct {
    const char *name;
    int (*call)(void);
} calls[] = {
    {"poll", by_poll},
    {"ppoll", by_ppoll},
    {"select", by_select},
    {"pselect", by_pselect},
    {"epoll_wait", by_epoll_wait},
    {"nanosleep", by_nanosleep},
    {"clock_nanosleep", by_clock_nanosleep},
    {"usleep", by_usleep},
    {"futex", by_futex},
    {"sem_timedwait", by_sem_timedwait},
    {"pthread_cond_timedwait", by_condition},
    {"sigtimedwait", by_sigtimedwait},
    {"recv", by_recv},
    {"semtimedop", by_semtimedop},
    {"mq_timedreceive", by_mq_timedreceive},
    {"read", by_read},
    {"msgrcv", by_msgrcv},
    {"waitpid", by_waitpid},
};
enum { CALLS = sizeof calls / sizeof *calls };

static void open_all(void)
{
    char name[32];
    snprintf(name, sizeof name, "/timed.%d", (int)getpid());
    if (pipe(pipes) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
        exit(1);
    setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){0, SHORT_US}, sizeof(struct timeval));
    epoll = epoll_create1(0);
    sem_init(&semaphore, 0, 0);
    semaphores = semget(IPC_PRIVATE, 1, 0600);
    messages = msgget(IPC_PRIVATE, 0600);
    queue = mq_open(name, O_RDONLY | O_CREAT, 0600, &(struct mq_attr){.mq_maxmsg = 1, .mq_msgsize = 64});
    mq_unlink(name);
}

static void close_all(void)
{
    semctl(semaphores, 0, IPC_RMID);
    msgctl(messages, IPC_RMID, NULL);
    mq_close(queue);
}

/* Each call follows a moment of work whose length differs, so that ticks fall on all parts of it. */
static void roll_call(long rounds)
{
    long bad[CALLS] = {0};
    open_all();
    for (long i = 0; i < rounds; i++)
        for (int j = 0; j < CALLS; j++) {
            for (long k = 0; k < (i * 7 + j) % 40; k++)
                sink = sink * 31 + (unsigned long)k;
            bad[j] += calls[j].call() != 0;
        }
    close_all();
    for (int j = 0; j < CALLS; j++)
        printf("%s %ld\n", calls[j].name, bad[j]);
    burn(60); /* something to sample */
}

/* --- signals --- */

static volatile sig_atomic_t caught[65];

static void on_signal(int signal)
{
    caught[signal]++;
}

static void show_actions(void)
{
    struct sigaction old;
    for (int i = 1; i <= 64; i++)
        if (!sigaction(i, NULL, &old) && (old.sa_handler != SIG_DFL || old.sa_flags))
            printf("signal %d: handler %d flags %x\n", i, old.sa_handler != SIG_DFL, (unsigned)old.sa_flags);
    for (int i = 1; i <= 64; i++) /* as daemons do when they begin */
        signal(i, SIG_DFL);
}

/* All signals are taken in turn, the timers' among them; and nobody but us raises any. */
static void actions(long ms)
{
    show_actions();
    burn((double)ms);
    show_actions();
    for (int i = 1; i <= 64; i++) {
        struct sigaction action = {.sa_handler = on_signal}, old;
        if (i == SIGKILL || i == SIGSTOP || sigaction(i, &action, &old))
            continue;
        if (old.sa_handler != SIG_DFL)
            printf("signal %d had a handler\n", i);
        burn(2);
        raise(i);
    }
    burn((double)ms);
    for (int i = 1; i <= 64; i++)
        if (caught[i] != (i != SIGKILL && i != SIGSTOP && i != 32 && i != 33))
            printf("signal %d came %d times\n", i, (int)caught[i]);
    puts("actions");
}

/* As run times that make their own system calls take the signal. */
void restorer(void);
__asm__(".text\nrestorer: mov $15, %rax\nsyscall");

static long raw_action(const void *action, void *old)
{
    register long size __asm__("r10") = 8;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(SYS_rt_sigaction), "D"((long)SIGURG), "S"(action), "d"(old), "r"(size)
                     : "rcx", "r11", "memory");
    return result;
}

static void *burn_blocked(void *ms)
{
    burn(*(const double *)ms);
    return NULL;
}

static void unseen(long ms)
{
    /* handler, flags (SA_RESTART, SA_RESTORER), restorer, mask */
    const uint64_t kernel[4] = {(uint64_t)on_signal, 0x14000000, (uint64_t)restorer, 0};
    uint64_t found[4];
    double each = (double)ms;
    pthread_t thread;
    burn(each);
    long result = raw_action(kernel, NULL);
    pthread_create(&thread, NULL, burn_blocked, &each);
    pthread_join(thread, NULL);
    int before = caught[SIGURG];
    raise(SIGURG);
    result |= raw_action(NULL, found);
    printf("unseen %ld: kept %d, came %d\n", result, !memcmp(found, kernel, 16), caught[SIGURG] - before);
    burn(each);
}

/* A stack for signals that is too small for others' handlers: below it nothing may change. */
static void stack(long ms)
{
    enum { SMALL = 4096, BELOW = 16384 };
    static char bytes[BELOW + SMALL];
    long changed = 0;
    memset(bytes, 0x5a, sizeof bytes);
    const stack_t small = {.ss_sp = bytes + BELOW, .ss_size = SMALL};
    burn((double)ms);
    printf("stack %d\n", sigaltstack(&small, NULL));
    burn(2 * (double)ms);
    for (size_t i = 0; i < BELOW; i++)
        changed += bytes[i] != 0x5a;
    printf("stack: %ld bytes changed\n", changed);
}

static void show_status(const char *how, int status)
{
    printf("%s: %s %d\n", how, WIFEXITED(status) ? "exit" : "signal",
           WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

/* It is still in the group that the terminal tells when its window changes. */
static void leave_terminal(void)
{
    int terminal = open("/dev/tty", O_RDWR);
    if (terminal >= 0 && ioctl(terminal, TIOCNOTTY) < 0)
        exit(1);
    if (terminal >= 0)
        close(terminal);
}

/* As the kernel has it: the C library tells what a program knows of. */
static bool has_handler(int signal)
{
    char line[256];
    unsigned long set = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, "SigCgt:", 7))
            set = strtoul(line + 7, NULL, 16);
    if (file)
        fclose(file);
    return set >> (signal - 1) & 1;
}

static void take(int signal)
{
    struct sigaction action = {.sa_handler = on_signal}, old;
    if (sigaction(signal, &action, &old) || old.sa_handler != SIG_DFL)
        printf("signal %d had a handler\n", signal);
}

/* The timers' signal is taken, and when they go on with another one, that too. `ms` 0: they do not. */
static void moves(long ms)
{
    struct sigaction found;
    double each = (double)ms, end = cpu_ms() + 20000;
    pthread_t thread;
    int status = 0;
    burn(60);
    take(SIGURG);
    while (ms && !has_handler(SIGWINCH) && cpu_ms() < end)
        burn_three();
    printf("moves %d\n", ms && has_handler(SIGWINCH) ? 1 : 0);
    raise(SIGURG);
    for (end = cpu_ms() + each; cpu_ms() < end;)
        burn_one();
    pthread_create(&thread, NULL, burn_blocked, &each);
    pthread_join(thread, NULL);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        burn(each / 4);
        _exit(caught[SIGURG] * 10 + caught[SIGWINCH]);
    }
    waitpid(pid, &status, 0);
    show_status("child", status);
    raise(SIGURG);
    sigaction(SIGWINCH, NULL, &found);
    printf("as without: %d\n", found.sa_handler == SIG_DFL && found.sa_flags == 0);
    take(SIGWINCH);
    burn(60);
    raise(SIGURG);
    raise(SIGWINCH);
    printf("came %d and %d times\n", (int)caught[SIGURG], (int)caught[SIGWINCH]);
}

/* Where they may not go on. */
static void stays(long ms)
{
    bool moved = false;
    burn((double)ms);
    take(SIGURG);
    for (double end = cpu_ms() + 2 * (double)ms; cpu_ms() < end && !moved;) {
        moved = has_handler(SIGWINCH);
        spin();
    }
    raise(SIGURG);
    printf("stays %d, came %d times\n", !moved, (int)caught[SIGURG]);
}

static void leaves(long ms)
{
    leave_terminal();
    stays(ms);
}

static void show_pending(const char *where)
{
    sigset_t set;
    sigpending(&set);
    for (int i = 1; i <= 64; i++)
        if (sigismember(&set, i) == 1)
            printf("%s: %d is pending\n", where, i);
}

static void wait_for(int signal, const sigset_t *all)
{
    int got = 0;
    kill(getpid(), signal);
    sigwait(all, &got);
    printf("sigwait %s\n", got == signal ? "fine" : "got another");
}

/* Somebody who blocks everything, and waits for everything. */
static void waits(long ms)
{
    sigset_t all, before;
    pthread_t thread;
    struct signalfd_siginfo info;
    double each = (double)ms;
    sigfillset(&all);
    burn((double)ms);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_create(&thread, NULL, burn_blocked, &each);
    int file = signalfd(-1, &all, SFD_NONBLOCK);
    for (int i = 0; i < 100; i++) {
        burn(each / 100);
        show_pending("blocked");
        if (sigtimedwait(&all, NULL, &brief) >= 0 || errno != EAGAIN)
            puts("sigtimedwait got something");
        if (read(file, &info, sizeof info) >= 0 || errno != EAGAIN)
            puts("signalfd got something");
    }
    pthread_join(thread, NULL);
    wait_for(SIGUSR1, &all);
    wait_for(SIGURG, &all);
    kill(getpid(), SIGUSR2);
    printf("signalfd %d\n", read(file, &info, sizeof info) == sizeof info && info.ssi_signo == SIGUSR2);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    burn((double)ms);
    show_pending("after");
    puts("waits");
}

/* --- threads --- */

static void threads(long count)
{
    pthread_t *ids = calloc((size_t)count, sizeof *ids);
    double each = 1200 / (double)count;
    for (long i = 0; ids && i < count; i++)
        pthread_create(&ids[i], NULL, burn_blocked, &each);
    for (long i = 0; ids && i < count; i++)
        pthread_join(ids[i], NULL);
    free(ids);
    puts("threads");
}

static void *live_shortly(void *argument)
{
    for (int i = 0; i < 2; i++)
        spin();
    return argument;
}

static void churn(long count)
{
    long sum = 0;
    for (long i = 0; i < count; i += 4) {
        pthread_t ids[4];
        void *result;
        for (long j = 0; j < 4; j++)
            if (pthread_create(&ids[j], NULL, live_shortly, (void *)(i + j)))
                exit(1);
        for (int j = 0; j < 4; j++) {
            pthread_join(ids[j], &result);
            sum += (long)result;
        }
    }
    printf("churn %ld\n", sum);
}

/* Work, and calls that wait, until the input ends. */
static volatile bool ended;

static void *burn_on(void *argument)
{
    while (!ended)
        burn_three();
    return argument;
}

static void *call_on(void *bad)
{
    while (!ended)
        for (int j = 0; j < CALLS; j++) {
            spin();
            ((long *)bad)[j] += calls[j].call() != 0;
        }
    return NULL;
}

static void *born_on(void *argument)
{
    while (!ended) {
        pthread_t thread;
        if (!pthread_create(&thread, NULL, live_shortly, NULL))
            pthread_join(thread, NULL);
    }
    return argument;
}

/* SIGURG is taken with the first line of the input. */
static void taken(void)
{
    pthread_t thread;
    char byte;
    pthread_create(&thread, NULL, burn_on, NULL);
    puts("begun");
    if (read(STDIN_FILENO, &byte, 1) == 1)
        take(SIGURG);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    ended = true;
    pthread_join(thread, NULL);
    raise(SIGURG);
    printf("taken: came %d and %d times\n", (int)caught[SIGURG], (int)caught[SIGWINCH]);
}

static void forever(void)
{
    void *(*const works[])(void *) = {burn_on, call_on, born_on};
    enum { WORKS = sizeof works / sizeof *works };
    pthread_t ids[WORKS];
    long bad[CALLS] = {0};
    char byte;
    open_all();
    for (int i = 0; i < WORKS; i++)
        pthread_create(&ids[i], NULL, works[i], bad);
    puts("begun");
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    ended = true;
    for (int i = 0; i < WORKS; i++)
        pthread_join(ids[i], NULL);
    close_all();
    for (int j = 0; j < CALLS; j++)
        printf("%s %ld\n", calls[j].name, bad[j]);
    show_pending("forever");
}

/* --- children --- */

static void spawn(char *self)
{
    posix_spawnattr_t attributes;
    sigset_t all;
    int status;
    pid_t pid;
    sigfillset(&all);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setsigmask(&attributes, &all);
    if (posix_spawn(&pid, self, NULL, &attributes, (char *[]){self, mode_inherited, NULL}, environ))
        exit(1);
    waitpid(pid, &status, 0);
    show_status("posix_spawn", status);
    posix_spawnattr_destroy(&attributes);
}

static void run(char *self, bool by_vfork)
{
    int status;
    fflush(stdout);
    pid_t pid = by_vfork ? vfork() : fork();
    if (pid == 0) {
        execv(self, (char *[]){self, mode_inherited, NULL});
        _exit(9);
    }
    waitpid(pid, &status, 0);
    show_status(by_vfork ? "vfork" : "fork", status);
}

static void children(char *self)
{
    int status;
    char line[64] = "";
    fflush(stdout);
    burn(50);
    pid_t pid = fork();
    if (pid == 0) {
        burn(400);
        for (int i = 1; i <= 64; i++) /* as before an exec */
            signal(i, SIG_DFL);
        _exit(5);
    }
    burn(50);
    waitpid(pid, &status, 0);
    show_status("child", status);
    show_status("system", system("exit 3"));
    FILE *pipe = popen("echo popen", "r");
    if (pipe && fgets(line, sizeof line, pipe))
        fputs(line, stdout);
    show_status("pclose", pclose(pipe));
    spawn(self);
    run(self, false);
    run(self, true);
    burn(50);
    puts("children");
}

/* What a new program finds. */
static void inherited(void)
{
    sigset_t set;
    show_actions();
    show_pending("inherited");
    sigprocmask(SIG_BLOCK, NULL, &set);
    printf("blocked %d\n", sigismember(&set, SIGURG));
    burn(20);
}

/* --- a filter that ends who touches timers --- */

static void filter(long ms)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, SYS_timer_create, 0, 2),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, SYS_timer_delete, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof code / sizeof *code, code};
    burn((double)ms);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0))
        exit(1);
    burn((double)ms);
    puts("filter");
}

/* Runs a command for which perf_event is refused. */
static void refuse(char **command)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
        !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0))
        execv(command[0], command);
    exit(1);
}

int main(int count, char **words)
{
    const char *mode = count > 1 ? words[1] : "";
    long number = count > 2 ? strtol(words[2], NULL, 10) : 200;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(mode, "shares"))
        shares(number);
    else if (!strcmp(mode, "calls"))
        roll_call(number);
    else if (!strcmp(mode, "actions"))
        actions(number);
    else if (!strcmp(mode, "unseen"))
        unseen(number);
    else if (!strcmp(mode, "stack"))
        stack(number);
    else if (!strcmp(mode, "moves"))
        moves(number);
    else if (!strcmp(mode, "stays"))
        stays(number);
    else if (!strcmp(mode, "leaves"))
        leaves(number);
    else if (!strcmp(mode, "taken"))
        taken();
    else if (!strcmp(mode, "waits"))
        waits(number);
    else if (!strcmp(mode, "threads"))
        threads(number);
    else if (!strcmp(mode, "churn"))
        churn(number);
    else if (!strcmp(mode, "children"))
        children(words[0]);
    else if (!strcmp(mode, mode_inherited))
        inherited();
    else if (!strcmp(mode, "forever"))
        forever();
    else if (!strcmp(mode, "refuse") && count > 2)
        refuse(words + 2);
    else if (!strcmp(mode, "filter"))
        filter(number);
    else
        return 2;
    return 0;
}
