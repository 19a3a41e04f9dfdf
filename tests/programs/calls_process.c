/* calls_process MODE [COUNT] - processes that count their calls, each for itself.
 *
 *   fork COUNT      COUNT children at once, each forks one more; all work at the same time
 *   exec COUNT      one process that runs COUNT images, one after another
 *   vfork COUNT     children that work in their parent's memory and then run an image
 *   spawn COUNT     posix_spawn
 *   memory COUNT    clone(CLONE_VM) without CLONE_THREAD, one at a time
 *   untraced COUNT  the same with CLONE_UNTRACED, which no tracer is notified of
 *   thread COUNT    a thread that is not the first runs the image
 *   children COUNT  threads that fork and end at once, while others are created: the children go on alone
 *   crowd COUNT     COUNT threads live together; while they are created another one forks child after child
 *   leaf COUNT      works, in one process */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "calls_truth.h"
#include "truth.h"

extern char **environ;
static const char *self;

TRUTH_FUNCTION int process_leaf(int value)
{
    __asm__ volatile("" : "+r"(value));
    return value + 1;
}

TRUTH_FUNCTION int process_pointed(int value)
{
    __asm__ volatile("" : "+r"(value));
    return value + 3;
}

TRUTH_FUNCTION int process_work(int rounds)
{
    int (*volatile pointer)(int) = process_pointed;
    int value = 0;

    for (int i = 0; i < rounds; i++) {
        value = CALLS("process_work", "process_leaf", "direct", process_leaf(value));
        value = CALLS("process_work", "process_pointed", "indirect", pointer(value));
    }
    return value;
}

static void wait_all(void)
{
    while (wait(NULL) > 0)
        ;
}

static void grandchild(int index)
{
    if (fork() == 0) {
        calls_reset();
        CALLS("*", "process_work", "", process_work(100 + index));
        calls_print();
        _exit(0);
    }
}

static int mode_fork(int count)
{
    CALLS("*", "process_work", "", process_work(50));
    for (int i = 0; i < count; i++)
        if (fork() == 0) {
            calls_reset();
            grandchild(i);
            CALLS("*", "process_work", "", process_work(1000 * (i + 1)));
            wait_all();
            calls_print();
            _exit(0);
        }
    CALLS("*", "process_work", "", process_work(5000));
    wait_all();
    calls_print();
    return 0;
}

static void run_image(const char *mode, int count)
{
    char number[16];

    snprintf(number, sizeof number, "%d", count);
    unsetenv("CALLS_WAIT");
    execl(self, self, mode, number, (char *)NULL);
    _exit(8);
}

static int mode_exec(int count)
{
    CALLS("*", "process_work", "", process_work(100 + count));
    calls_print();
    if (count > 0)
        run_image("exec", count - 1);
    return 0;
}

static int mode_vfork(int count)
{
    for (volatile int i = 0; i < count; i++) {
        if (vfork() == 0) {
            CALLS("*", "process_work", "", process_work(10));
            run_image("leaf", 20 + i);
        }
        CALLS("*", "process_work", "", process_work(30));
        wait_all();
    }
    calls_print();
    return 0;
}

static int mode_spawn(int count)
{
    for (int i = 0; i < count; i++) {
        char name[] = "calls_process", mode[] = "leaf", rounds[] = "40";
        char *arguments[] = {name, mode, rounds, NULL};
        pid_t pid;

        if (posix_spawn(&pid, self, NULL, NULL, arguments, environ) != 0)
            return 1;
        CALLS("*", "process_work", "", process_work(30));
    }
    wait_all();
    calls_print();
    return 0;
}

TRUTH_FUNCTION int process_cloned(void *data)
{
    CALLS("process_cloned", "process_work", "direct", process_work(*(int *)data));
    return 0;
}

static int mode_memory(int count, int flags)
{
    size_t size = 256 * 1024;
    char *stack = malloc(size);

    for (int i = 0; stack != NULL && i < count; i++) {
        int rounds = 100 + i;

        CALLS_COUNT("*", "process_cloned", "");
        if (clone(process_cloned, stack + size, CLONE_VM | flags | SIGCHLD, &rounds) < 0)
            return 1;
        wait_all();
        CALLS("*", "process_work", "", process_work(30));
    }
    free(stack);
    calls_print();
    return 0;
}

TRUTH_FUNCTION void *process_thread(void *data)
{
    CALLS("process_thread", "process_work", "direct", process_work(77));
    calls_print();
    run_image("leaf", *(int *)data);
    return NULL;
}

static int mode_thread(int count)
{
    pthread_t thread;

    CALLS_COUNT("*", "process_thread", "");
    if (pthread_create(&thread, NULL, process_thread, &count) == 0)
        pthread_join(thread, NULL);
    return 1;
}

static void *forking_thread(void *data)
{
    if (fork() == 0) {
        calls_reset();
        CALLS("*", "process_work", "", process_work(200 + *(int *)data));
        calls_print();
        _exit(0);
    }
    return NULL;
}

/* Whether all children ended well. */
static int mode_children(int count)
{
    int status, failed = 0;

    for (int i = 0; i < count; i++) {
        int numbers[] = {i, i + 1000};
        pthread_t threads[2];

        for (int j = 0; j < 2; j++)
            if (pthread_create(&threads[j], NULL, forking_thread, &numbers[j]) != 0)
                return 1;
        CALLS("*", "process_work", "", process_work(30));
        for (int j = 0; j < 2; j++)
            pthread_join(threads[j], NULL);
        while (wait(&status) > 0)
            failed += status != 0;
    }
    calls_print();
    return failed != 0;
}

static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;
static int crowded;

static void *waiting_thread(void *data)
{
    CALLS("*", "process_work", "", process_work(3));
    pthread_mutex_lock(&door);
    pthread_mutex_unlock(&door);
    return data;
}

/* The number of children that did not end well. */
static void *repeatedly_forking_thread(void *data)
{
    int status, number = 0;

    while (!__atomic_load_n(&crowded, __ATOMIC_ACQUIRE)) {
        pid_t pid = fork();
        if (pid == 0) {
            calls_reset();
            CALLS("*", "process_work", "", process_work(10 + number));
            calls_print();
            _exit(0);
        }
        number++;
        if (waitpid(pid, &status, 0) != pid || status != 0)
            ++*(int *)data;
    }
    return NULL;
}

static int mode_crowd(int count)
{
    pthread_t forking, *threads = calloc((size_t)count, sizeof *threads);
    int failed = 0, created = 0;

    pthread_mutex_lock(&door);
    if (threads == NULL || pthread_create(&forking, NULL, repeatedly_forking_thread, &failed) != 0)
        return 1;
    while (created < count && pthread_create(&threads[created], NULL, waiting_thread, NULL) == 0)
        created++;
    __atomic_store_n(&crowded, 1, __ATOMIC_RELEASE);
    pthread_join(forking, NULL);
    pthread_mutex_unlock(&door);
    for (int i = 0; i < created; i++)
        pthread_join(threads[i], NULL);
    calls_print();
    return failed != 0 || created < count;
}

static int mode_leaf(int count)
{
    CALLS("*", "process_work", "", process_work(count));
    calls_print();
    return 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int count = argc > 2 ? atoi(argv[2]) : 1;

    self = "/proc/self/exe";
    if (strcmp(mode, "leaf") != 0)
        calls_wait();
    if (strcmp(mode, "fork") == 0)
        return mode_fork(count);
    if (strcmp(mode, "exec") == 0)
        return mode_exec(count);
    if (strcmp(mode, "vfork") == 0)
        return mode_vfork(count);
    if (strcmp(mode, "spawn") == 0)
        return mode_spawn(count);
    if (strcmp(mode, "memory") == 0)
        return mode_memory(count, 0);
    if (strcmp(mode, "untraced") == 0)
        return mode_memory(count, CLONE_UNTRACED);
    if (strcmp(mode, "thread") == 0)
        return mode_thread(count);
    if (strcmp(mode, "children") == 0)
        return mode_children(count);
    if (strcmp(mode, "crowd") == 0)
        return mode_crowd(count);
    return strcmp(mode, "leaf") == 0 ? mode_leaf(count) : 2;
}
