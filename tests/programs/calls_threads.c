/* calls_threads fixed THREADS CALLS | churn THREADS | nested THREADS | outlive THREADS - threads that count
 * their calls.
 *
 *   fixed    all at once, each makes as many calls of one function, directly, by pointer and in recursion
 *   churn    so many short-lived ones, 16 at a time, that make a handful of calls each
 *   nested   each thread makes the next one before it works
 *   outlive  one that works for a second and a half, and ends after so many short-lived ones */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calls_truth.h"
#include "truth.h"

struct pool {
    unsigned long calls;
    int (*by_pointer)(int);
    pthread_barrier_t begun;
};

TRUTH_FUNCTION int thread_leaf(int value)
{
    __asm__ volatile("" : "+r"(value));
    return value + 1;
}

TRUTH_FUNCTION int thread_other(int value)
{
    __asm__ volatile("" : "+r"(value));
    return value + 2;
}

TRUTH_FUNCTION int thread_down(int depth)
{
    int below = 0;

    if (depth > 0)
        below = 1 + CALLS("thread_down", "thread_down", "direct", thread_down(depth - 1));
    __asm__ volatile("" : "+r"(below)); /* else the compiler makes a loop of it */
    return below;
}

TRUTH_FUNCTION int thread_round(struct pool *pool, int value)
{
    value = CALLS("thread_round", "thread_leaf", "direct", thread_leaf(value));
    value = CALLS("thread_round", "thread_other", "indirect", pool->by_pointer(value));
    __asm__ volatile("" : "+r"(value));
    return value;
}

TRUTH_FUNCTION void *thread_body(void *data)
{
    struct pool *pool = data;
    int value = 0;

    pthread_barrier_wait(&pool->begun);
    for (unsigned long i = 0; i < pool->calls; i++)
        value = CALLS("thread_body", "thread_round", "direct", thread_round(pool, value));
    CALLS("thread_body", "thread_down", "direct", thread_down(100));
    return NULL;
}

TRUTH_FUNCTION void *thread_short(void *data)
{
    int value = 0;

    for (int i = 0; i < 3; i++)
        value = CALLS("thread_short", "thread_leaf", "direct", thread_leaf(value));
    value = CALLS("thread_short", "thread_other", "indirect", ((struct pool *)data)->by_pointer(value));
    __asm__ volatile("" : : "r"(value));
    return NULL;
}

static int fixed(struct pool *pool, long count)
{
    pthread_t *threads = calloc((size_t)count, sizeof *threads);

    if (threads == NULL)
        return 1;
    pthread_barrier_init(&pool->begun, NULL, (unsigned)count + 1);
    for (long i = 0; i < count; i++) {
        CALLS_COUNT("*", "thread_body", "");
        if (pthread_create(&threads[i], NULL, thread_body, pool) != 0)
            return 1;
    }
    calls_wait();
    pthread_barrier_wait(&pool->begun);
    for (long i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    return 0;
}

static int churn(struct pool *pool, long count)
{
    pthread_t threads[16];
    pthread_attr_t attributes;

    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * 1024);
    calls_wait();
    for (long done = 0; done < count;) {
        int wave = 0;

        for (; wave < 16 && done < count; wave++, done++) {
            CALLS_COUNT("*", "thread_short", "");
            if (pthread_create(&threads[wave], &attributes, thread_short, pool) != 0)
                return 1;
        }
        while (wave > 0)
            pthread_join(threads[--wave], NULL);
    }
    return 0;
}

static volatile int may_leave;

TRUTH_FUNCTION void *thread_steady(void *data)
{
    int value = 0;

    while (!may_leave) {
        value = CALLS("thread_steady", "thread_round", "direct", thread_round(data, value));
        usleep(200);
    }
    return NULL;
}

static int outlive(struct pool *pool, long count)
{
    pthread_t steady;

    CALLS_COUNT("*", "thread_steady", "");
    if (pthread_create(&steady, NULL, thread_steady, pool) != 0)
        return 1;
    usleep(1500000);
    if (churn(pool, count) != 0)
        return 1;
    usleep(100000);
    may_leave = 1;
    return pthread_join(steady, NULL);
}

struct link {
    struct pool *pool;
    long left;
};

TRUTH_FUNCTION void *thread_nested(void *data)
{
    struct link *link = data, next = {link->pool, link->left - 1};
    pthread_t thread;
    int made = 0;

    if (link->left > 0) {
        CALLS_COUNT("*", "thread_nested", "");
        made = pthread_create(&thread, NULL, thread_nested, &next) == 0;
    }
    for (int i = 0; i < 1000; i++)
        CALLS("thread_nested", "thread_leaf", "direct", thread_leaf(i));
    if (made)
        pthread_join(thread, NULL);
    return NULL;
}

int main(int argc, char **argv)
{
    struct pool pool = {.calls = argc > 3 ? strtoul(argv[3], NULL, 10) : 1000, .by_pointer = thread_other};
    long count = argc > 2 ? atol(argv[2]) : 2;
    struct link link = {&pool, count - 1};
    int failed = 1;

    __asm__ volatile("" : "+m"(pool.by_pointer));
    if (argc > 1 && strcmp(argv[1], "fixed") == 0)
        failed = fixed(&pool, count);
    else if (argc > 1 && strcmp(argv[1], "churn") == 0)
        failed = churn(&pool, count);
    else if (argc > 1 && strcmp(argv[1], "outlive") == 0)
        failed = outlive(&pool, count);
    else if (argc > 1 && strcmp(argv[1], "nested") == 0)
        failed = CALLS("main", "thread_nested", "direct", thread_nested(&link)) != NULL;
    if (failed)
        return 1;
    calls_print();
    return 0;
}
