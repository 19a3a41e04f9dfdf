/* calls_detached STEP... - a program that does nothing for a while, then creates threads and children in every way there is.
 *
 * Before each step it works a little now and then, until nobody traces it any more (30 s at most), and prints
 * "detached STEP". Where nobody traced it to begin with, it goes on at once.
 *
 *   threads   four that work
 *   fork      a child that waits as well, then has a thread
 *   vfork     a child that works in its parent's memory and runs another image
 *   spawn     posix_spawn
 *   system    system(3)
 *   raw       fork, by syscall(2)
 *   handler   a signal handler that forks
 *   signals   10,000 a second for a second; prints "signals BEFORE WHILE": those that came until it was
 *             detached, and after
 *   forever   works until it is killed
 *   exec      an image that does the remaining steps
 *   leaf      nothing */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "calls_truth.h"
#include "truth.h"

enum { LOOKS = 3000, LOOK_NS = 10000000, PERIOD_US = 100 };

extern char **environ;
static const char *self;
static volatile sig_atomic_t forked;
static volatile unsigned long received;

TRUTH_FUNCTION int loose_leaf(int value)
{
    __asm__ volatile("" : "+r"(value));
    return value + 1;
}

TRUTH_FUNCTION void loose_work(int rounds)
{
    for (int i = 0; i < rounds; i++)
        TRUTH_CALL(CALLS("loose_work", "loose_leaf", "direct", loose_leaf(i)));
}

static int tracer(void)
{
    char text[4096];
    int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    text[size > 0 ? size : 0] = '\0';
    const char *at = strstr(text, "TracerPid:");
    return at ? atoi(at + 10) : -1;
}

static void say(const char *text, const char *name)
{
    char line[256];
    int size = snprintf(line, sizeof line, "%s %s\n", text, name);
    if (write(1, line, (size_t)size) != size)
        _exit(9);
}

static void wait_until_loose(const char *step)
{
    if (tracer() == 0)
        return;
    for (int i = 0; i < LOOKS; i++) {
        struct timespec left = {0, LOOK_NS};
        CALLS("*", "loose_work", "", loose_work(3));
        while (nanosleep(&left, &left))
            ;
        if (tracer() == 0) {
            say("detached", step);
            return;
        }
    }
    say("held", step);
}

static void *thread(void *argument)
{
    CALLS("*", "loose_work", "", loose_work(1000));
    return argument;
}

static void have_threads(int count)
{
    pthread_t threads[4];
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, thread, NULL))
            _exit(7);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

static void child(const char *step)
{
    calls_reset();
    CALLS("*", "loose_work", "", loose_work(500));
    if (step)
        wait_until_loose(step);
    have_threads(step ? 1 : 0);
    calls_print();
    _exit(0);
}

static void finish(pid_t pid)
{
    int status = -1;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
        _exit(6);
}

static void run_leaf(void)
{
    execl(self, self, "leaf", (char *)NULL);
    _exit(8);
}

static void in_handler(int number)
{
    CALLS("*", "loose_work", "", loose_work(number));
    pid_t pid = fork();
    if (pid == 0)
        child(NULL);
    forked = pid;
}

static void count(int number)
{
    (void)number;
    received++;
}

static void handle(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

static void begin_signals(void)
{
    handle(SIGALRM, count);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, PERIOD_US}, {0, PERIOD_US}}, NULL);
}

static void end_signals(void)
{
    char line[64];
    unsigned long before = received;
    struct timespec now, end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    do {
        CALLS("*", "loose_work", "", loose_work(10));
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec < end.tv_sec + 1 || (now.tv_sec == end.tv_sec + 1 && now.tv_nsec < end.tv_nsec));
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    snprintf(line, sizeof line, "%lu %lu", before, received - before);
    say("signals", line);
}

static void spawn(void)
{
    char name[] = "calls_detached", leaf[] = "leaf";
    char *arguments[] = {name, leaf, NULL};
    pid_t pid;
    if (posix_spawn(&pid, self, NULL, NULL, arguments, environ))
        _exit(5);
    finish(pid);
}

static void shell(void)
{
    char command[4096];
    snprintf(command, sizeof command, "%s leaf", self);
    if (system(command))
        _exit(4);
}

static pid_t vforked(void)
{
    pid_t pid = vfork();
    if (pid == 0) {
        CALLS("*", "loose_work", "", loose_work(10));
        run_leaf();
    }
    return pid;
}

static void step(const char *name, char **rest)
{
    pid_t pid = 1;
    if (!strcmp(name, "signals"))
        begin_signals();
    if (strcmp(name, "leaf"))
        wait_until_loose(name);
    CALLS("*", "loose_work", "", loose_work(100));
    if (!strcmp(name, "threads"))
        have_threads(4);
    else if (!strcmp(name, "fork") && (pid = fork()) == 0)
        child("child");
    else if (!strcmp(name, "raw") && (pid = (pid_t)syscall(SYS_fork)) == 0)
        child(NULL);
    else if (!strcmp(name, "vfork"))
        pid = vforked();
    else if (!strcmp(name, "spawn"))
        spawn();
    else if (!strcmp(name, "system"))
        shell();
    else if (!strcmp(name, "signals"))
        end_signals();
    else if (!strcmp(name, "handler")) {
        handle(SIGUSR1, in_handler);
        raise(SIGUSR1);
        pid = forked;
    }
    while (!strcmp(name, "forever"))
        CALLS("*", "loose_work", "", loose_work(1000));
    if (pid != 1)
        finish(pid);
    if (strcmp(name, "exec"))
        return;
    calls_print();
    execv(self, rest);
    _exit(8);
}

int main(int count_of, char **arguments)
{
    static char path[4096];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    self = size > 0 ? path : arguments[0];
    calls_wait();
    unsetenv("CALLS_WAIT");
    for (int i = 1; i < count_of; i++)
        step(arguments[i], &arguments[i]); /* of an exec: its own name serves as the image's */
    calls_print();
    return 0;
}
