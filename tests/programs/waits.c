/* waits MODE [MILLISECONDS] - waits in functions that know how long they waited, and works in another one.
 *
 * Each wait measures itself: the time that passed, without what the thread ran or was queued for a CPU in it,
 * by its own schedstat. So the truth does not depend on what else the machine does. Prints `wait FUNCTION
 * SECONDS` a function and `process SECONDS` of CPU time.
 *
 *   alternate  one thread: long and short waits, and work, in turn        long     one thread, one wait
 *   threads    four threads, each in a wait of its own                    come     threads that live 5 to 50
 *              ms, one after the other
 *   children   a child that waits, and a parent that waits for it         stopped  a child that is stopped,
 *              and a parent that waits
 *   stdin      waits for its standard input, after a line of output */
#include <alloca.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "truth.h"

enum { LONG_MS = 30, SHORT_MS = 8, WORK_MS = 4 };

struct account {
    double passed, elsewhere; /* seconds */
};

static struct account account_now(void)
{
    unsigned long long ran = 0, queued = 0;
    char path[64];

    snprintf(path, sizeof path, "/proc/self/task/%ld/schedstat", syscall(SYS_gettid));
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%llu %llu", &ran, &queued) != 2)
        abort();
    fclose(file);
    return (struct account){truth_clock(CLOCK_MONOTONIC), (double)(ran + queued) * 1e-9};
}

/* One wait at a time writes to one of these. */
static double waited_long, waited_short, waited_poll, waited_read, waited_child;

static void add(double *sum, struct account before)
{
    struct account after = account_now();

    *sum += after.passed - before.passed - (after.elsewhere - before.elsewhere);
}

static void pass(long milliseconds)
{
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};

    while (nanosleep(&time, &time))
        ;
}

TRUTH_FUNCTION void wait_long(long milliseconds)
{
    struct account before = account_now();
    TRUTH_CALL(pass(milliseconds));
    add(&waited_long, before);
}

TRUTH_FUNCTION void wait_short(long milliseconds)
{
    struct account before = account_now();
    TRUTH_CALL(pass(milliseconds));
    add(&waited_short, before);
}

/* Its frame is as large as an argument says: only the frame pointer finds it. */
TRUTH_FUNCTION void wait_poll(long milliseconds)
{
    volatile char *room = alloca((size_t)milliseconds + 100);
    struct account before = account_now();

    room[0] = room[milliseconds] = 0;
    TRUTH_CALL(poll(NULL, 0, (int)milliseconds));
    add(&waited_poll, before);
}

TRUTH_FUNCTION void wait_read(int file)
{
    struct account before = account_now();
    char byte;

    if (read(file, &byte, 1) < 0)
        abort();
    add(&waited_read, before);
}

TRUTH_FUNCTION void wait_child(pid_t child)
{
    struct account before = account_now();

    TRUTH_CALL(waitpid(child, NULL, 0));
    add(&waited_child, before);
}

TRUTH_FUNCTION void work(long milliseconds)
{
    double end = truth_clock(CLOCK_THREAD_CPUTIME_ID) + (double)milliseconds * 1e-3;

    while (truth_clock(CLOCK_THREAD_CPUTIME_ID) < end)
        TRUTH_WORK(TRUTH_CHUNK / 16);
}

static void alternate(long milliseconds)
{
    double end = truth_clock(CLOCK_MONOTONIC) + (double)milliseconds * 1e-3;

    while (truth_clock(CLOCK_MONOTONIC) < end) {
        TRUTH_CALL(wait_long(LONG_MS));
        TRUTH_CALL(work(WORK_MS));
        TRUTH_CALL(wait_short(SHORT_MS));
    }
}

/* --- threads --- */

static int ends[2];
static long thread_milliseconds;

static void *run_long(void *argument)
{
    TRUTH_CALL(wait_long(thread_milliseconds));
    return argument;
}

static void *run_poll(void *argument)
{
    TRUTH_CALL(wait_poll(thread_milliseconds));
    return argument;
}

static void *run_read(void *argument)
{
    TRUTH_CALL(wait_read(ends[0]));
    return argument;
}

static void threads(long milliseconds)
{
    void *(*const bodies[])(void *) = {run_long, run_poll, run_read};
    enum { THREADS = sizeof bodies / sizeof *bodies };
    pthread_t made[THREADS];

    thread_milliseconds = milliseconds;
    if (pipe(ends))
        abort();
    for (int i = 0; i < THREADS; i++)
        pthread_create(&made[i], NULL, bodies[i], NULL);
    TRUTH_CALL(wait_short(milliseconds));
    if (write(ends[1], "", 1) != 1)
        abort();
    for (int i = 0; i < THREADS; i++)
        pthread_join(made[i], NULL);
}

static void come(long milliseconds)
{
    double end = truth_clock(CLOCK_MONOTONIC) + (double)milliseconds * 1e-3;
    pthread_t one;

    for (long i = 0; truth_clock(CLOCK_MONOTONIC) < end; i++) {
        thread_milliseconds = 5 + i * 7 % 46;
        pthread_create(&one, NULL, run_long, NULL);
        pthread_join(one, NULL);
    }
}

/* --- children --- */

static void children(long milliseconds, bool stopped)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0 && stopped)
        for (;;)
            raise(SIGSTOP);
    if (child == 0) {
        TRUTH_CALL(wait_long(milliseconds));
        printf("wait wait_long %.9f\n", waited_long);
        fflush(stdout);
        _exit(0);
    }
    if (stopped) {
        TRUTH_CALL(wait_poll(milliseconds));
        kill(child, SIGKILL);
    }
    TRUTH_CALL(wait_child(child));
}

static void tell(const char *function, double seconds)
{
    if (seconds > 0)
        printf("wait %s %.9f\n", function, seconds);
}

int main(int argc, char **argv)
{
    struct truth truth = truth_begin(argc, argv);
    long milliseconds = truth_number(&truth, 1, 500);

    if (truth_flag(&truth, "alternate"))
        TRUTH_CALL(alternate(milliseconds));
    else if (truth_flag(&truth, "long"))
        TRUTH_CALL(wait_poll(milliseconds));
    else if (truth_flag(&truth, "threads"))
        TRUTH_CALL(threads(milliseconds));
    else if (truth_flag(&truth, "come"))
        TRUTH_CALL(come(milliseconds));
    else if (truth_flag(&truth, "children") || truth_flag(&truth, "stopped"))
        TRUTH_CALL(children(milliseconds, truth_flag(&truth, "stopped")));
    else if (truth_flag(&truth, "stdin")) {
        puts("waits");
        fflush(stdout);
        TRUTH_CALL(wait_read(STDIN_FILENO));
    }
    tell("wait_long", waited_long);
    tell("wait_short", waited_short);
    tell("wait_poll", waited_poll);
    tell("wait_read", waited_read);
    tell("wait_child", waited_child);
    truth_process();
    return 0;
}
