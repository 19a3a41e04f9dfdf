/* Calls that a signal ends, or interrupts: what becomes of them must be what the signal's action and mask
 * say, also when they had worked so long before they waited that a timer of somebody else's went off. `ended
 * ROUNDS DIRECTORY` prints how often it was not so. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LINKS = 38, STEPS = 800, FILES_MOST = 20000 };

static atomic_int caught, number; /* of the call that is made; odd: it was begun */
static atomic_bool finished;
static atomic_int wanted; /* the signal */
static char fifo[] = "fifo", first[] = "link0";
static volatile unsigned long sink;

static void on_signal(int signal)
{
    (void)signal;
    caught++;
}

static void take(int signal, int flags)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
    sigaction(signal, &action, NULL);
}

/* --- the other thread: waits until the first one waits, and sends it a signal --- */

static bool waits(int call)
{
    char text[256] = "", path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)getpid());
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    const char *state = size > 0 ? strrchr(text, ')') : NULL;
    return state && state[2] == 'S' && number == call;
}

static void await(int call)
{
    while (number == call && !waits(call))
        sched_yield();
}

static void *send_all(void *argument)
{
    while (!finished) {
        int call = number, seen = caught;
        if (call % 2 == 0 || !waits(call)) {
            sched_yield();
            continue;
        }
        int signal = wanted;
        kill(getpid(), signal);
        while (number == call && caught == seen)
            sched_yield();
        await(call);
        if (number == call && signal != SIGUSR1) { /* it waits again: the end of it */
            int other = -1;
            while (number == call) {
                other = other < 0 ? open(fifo, O_WRONLY | O_NONBLOCK | O_CLOEXEC) : other;
                sched_yield();
            }
            if (other >= 0)
                close(other);
        }
    }
    return argument;
}

/* --- calls --- */

/* A long way to the file: the call works before it waits. */
static void make_way(void)
{
    static char text[STEPS * 5 + 16];
    if (mkdir("d", 0700) || mkfifo(fifo, 0600))
        exit(1);
    for (int i = 0; i < LINKS; i++) {
        char name[16];
        size_t at = 0;
        for (int j = 0; j < STEPS; j++, at += 5)
            memcpy(text + at, "d/../", 5);
        if (i + 1 < LINKS)
            snprintf(text + at, 16, "link%d", i + 1);
        else
            snprintf(text + at, 16, "%s", fifo);
        snprintf(name, sizeof name, "link%d", i);
        if (symlink(text, name))
            exit(1);
    }
}

static void work(long round)
{
    for (long i = 0; i < round * 7919 % 40000; i++)
        sink = sink * 31 + (unsigned long)i;
}

/* Of a handler that ends the call, and of one that lets it begin anew. */
static bool opens(int signal)
{
    int before = caught;
    wanted = signal;
    number++;
    int file = open(first, O_RDONLY | O_CLOEXEC), error = errno;
    number++;
    if (file >= 0)
        close(file);
    bool ended = file < 0 && error == EINTR;
    return ended == (signal == SIGALRM) && caught == before + 1;
}

/* The signal is blocked but while the call waits. */
static bool polls(struct pollfd *files, size_t count)
{
    sigset_t none;
    int before = caught;
    sigemptyset(&none);
    wanted = SIGUSR1;
    number++;
    int result = ppoll(files, count, NULL, &none), error = errno;
    bool right = result < 0 && error == EINTR && caught == before + 1;
    number++;
    return right;
}

static struct pollfd *many(size_t *count)
{
    struct rlimit limit;
    int ends[2];
    getrlimit(RLIMIT_NOFILE, &limit);
    *count = limit.rlim_max > FILES_MOST ? FILES_MOST : (size_t)limit.rlim_max;
    limit.rlim_cur = *count;
    struct pollfd *files = calloc(*count, sizeof *files);
    if (!files || setrlimit(RLIMIT_NOFILE, &limit) || pipe(ends))
        exit(1);
    for (size_t i = 0; i < *count; i++)
        files[i] = (struct pollfd){ends[0], POLLIN, 0};
    return files;
}

int main(int count, char **words)
{
    long rounds = count == 3 ? strtol(words[1], NULL, 10) : 0, bad[3] = {0, 0, 0};
    char directory[4096];
    size_t file_count;
    pthread_t other;
    sigset_t all, kept;
    if (count != 3 ||
        snprintf(directory, sizeof directory, "%s/ended.XXXXXX", words[2]) >= (int)sizeof directory ||
        !mkdtemp(directory) || chdir(directory))
        return 2;
    make_way();
    struct pollfd *files = many(&file_count);
    take(SIGALRM, 0);
    take(SIGUSR1, 0);
    take(SIGUSR2, SA_RESTART);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    pthread_create(&other, NULL, send_all, NULL);
    sigemptyset(&kept);
    sigaddset(&kept, SIGUSR1);
    pthread_sigmask(SIG_SETMASK, &kept, NULL);
    for (long i = 0; i < rounds; i++) {
        work(i);
        bad[0] += !opens(SIGALRM);
        bad[1] += !opens(SIGUSR2);
        bad[2] += !polls(files, file_count);
    }
    finished = true;
    pthread_join(other, NULL);
    free(files);
    for (int i = 0; i < LINKS; i++) {
        char name[16];
        snprintf(name, sizeof name, "link%d", i);
        unlink(name);
    }
    unlink(fifo);
    rmdir("d");
    if (chdir("/") || rmdir(directory))
        return 1;
    printf("ends %ld, goes on %ld, own mask %ld\n", bad[0], bad[1], bad[2]);
    return 0;
}
