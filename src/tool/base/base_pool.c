#include "base_pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base_stack.h"

#define MOST 8 /* threads: no program has more large images to plan at once */

/* On the heap, because a thread that gets its first turn when all is done still looks at it: on a busy
 * machine that turn comes milliseconds late, and nobody waits for it. */
struct pool {
    base_pool_job *job;
    void *context;
    size_t count, next;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t finished;
    size_t done;
    unsigned owners;
};

static void work(struct pool *pool)
{
    size_t number, mine = 0;
    while ((number = __atomic_fetch_add(&pool->next, 1, __ATOMIC_RELAXED)) < pool->count) {
        pool->job(pool->context, number);
        mine++;
    }
    pthread_mutex_lock(&pool->lock);
    pool->done += mine;
    pthread_cond_signal(&pool->finished);
    pthread_mutex_unlock(&pool->lock);
}

static void release(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    bool last = --pool->owners == 0;
    pthread_mutex_unlock(&pool->lock);
    if (!last)
        return;
    pthread_cond_destroy(&pool->finished);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

static void *help(void *context)
{
    work(context);
    release(context);
    return NULL;
}

static size_t processors(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    return count < 1 ? 1 : count > MOST ? MOST : (size_t)count;
}

/* False: no further thread can be had. */
static bool start_thread(struct pool *pool)
{
    pthread_t thread;
    pthread_mutex_lock(&pool->lock);
    pool->owners++;
    pthread_mutex_unlock(&pool->lock);
    if (!base_stack_thread(&thread, help, pool)) {
        pthread_detach(thread);
        return true;
    }
    release(pool);
    return false;
}

static void do_together(struct pool *pool)
{
    size_t wanted = processors();
    for (size_t i = 1; i < wanted && i < pool->count && start_thread(pool); i++)
        ;
    work(pool);
    pthread_mutex_lock(&pool->lock);
    while (pool->done < pool->count)
        pthread_cond_wait(&pool->finished, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    release(pool);
}

void base_pool(size_t count, base_pool_job *job, void *context)
{
    struct pool *pool = count > 1 && processors() > 1 ? malloc(sizeof *pool) : NULL;
    if (pool) {
        *pool = (struct pool){.job = job,
                              .context = context,
                              .count = count,
                              .lock = PTHREAD_MUTEX_INITIALIZER,
                              .finished = PTHREAD_COND_INITIALIZER,
                              .owners = 1};
        do_together(pool);
        return;
    }
    for (size_t i = 0; i < count; i++)
        job(context, i);
}
