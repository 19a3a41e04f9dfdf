/* A C program in which nothing unwinds before the first backtrace(), which loads what does: `late_unwinder
 * backtrace`, `late_unwinder threads`, where a second thread looks when the first one has, or `late_unwinder
 * PLUGIN`, which has an unwinder of its own. Says that it is ready, waits for a line with timed functions on
 * all stacks, and prints how many frames were found. */
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 5, FRAMES = 64 };

#define TIMED __attribute__((noinline, noclone, used))
#define KEEP  __asm__ volatile("" ::: "memory") /* so that no call is its last deed */

typedef int look_function(void);

static sem_t waits, go;

static int by_backtrace(void)
{
    void *frames[FRAMES];
    return backtrace(frames, FRAMES);
}

static int by_plugin(const char *path)
{
    void *plugin = dlopen(path, RTLD_NOW);
    look_function *look = NULL;
    if (plugin != NULL)
        *(void **)&look = dlsym(plugin, "plugin_frames");
    return look != NULL ? look() : -1;
}

TIMED int timed_looker(int depth, const char *how);
TIMED int timed_looker(int depth, const char *how)
{
    int frames = 0;
    if (depth > 0)
        frames = timed_looker(depth - 1, how);
    else if (how == NULL) {
        sem_post(&waits);
        sem_wait(&go);
        frames = by_backtrace();
    } else {
        puts("ready");
        fflush(stdout);
        getchar();
        frames = strchr(how, '/') != NULL ? by_plugin(how) : by_backtrace();
    }
    KEEP;
    return frames;
}

static void *second(void *found)
{
    *(int *)found = timed_looker(DEPTH, NULL);
    return NULL;
}

int main(int count, char **arguments)
{
    const char *how = count > 1 ? arguments[1] : "backtrace";
    bool two = strcmp(how, "threads") == 0;
    pthread_t thread;
    int other = 0;
    sem_init(&waits, 0, 0);
    sem_init(&go, 0, 0);
    if (two) {
        if (pthread_create(&thread, NULL, second, &other) != 0)
            return 1;
        sem_wait(&waits);
    }
    printf("frames %d\n", timed_looker(DEPTH, how));
    if (two) {
        sem_post(&go);
        pthread_join(thread, NULL);
        printf("the other thread's %d\n", other);
    }
    return 0;
}
