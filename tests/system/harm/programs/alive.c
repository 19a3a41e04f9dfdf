/* Many threads that live at the same time, each with calls to count: `alive THREADS`. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { CALLS = 50, STACK = 65536 };

static pthread_barrier_t all;
static volatile unsigned long sink;

__attribute__((noinline, noclone)) void job(void)
{
    for (int i = 0; i < 100; i++)
        sink += (unsigned long)i;
}

static void *run(void *unused)
{
    pthread_barrier_wait(&all);
    for (int i = 0; i < CALLS; i++)
        job();
    return unused;
}

int main(int count, char **arguments)
{
    unsigned threads = count > 1 ? (unsigned)strtoul(arguments[1], NULL, 10) : 1;
    pthread_t *made = calloc(threads, sizeof *made);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK);
    pthread_barrier_init(&all, NULL, threads);
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&made[i], &small, run, NULL) != 0)
            return 77;
    for (unsigned i = 0; i < threads; i++)
        pthread_join(made[i], NULL);
    printf("%u jobs\n", threads * CALLS);
    return 0;
}
