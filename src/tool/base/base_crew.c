#include "base_crew.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base_stack.h"

#define MOST 8 /* more than a handful of large images no program has */

/* On the heap, because a thread that gets its first turn when all is done still looks at it: on a busy
 * machine that turn comes milliseconds late, and nobody waits for it. */
struct crew {
    base_crew_job *job;
    void *context;
    size_t count, next;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t finished;
    size_t done;
    unsigned owners;
};

static void work(struct crew *crew)
{
    size_t number, mine = 0;
    while ((number = __atomic_fetch_add(&crew->next, 1, __ATOMIC_RELAXED)) < crew->count) {
        crew->job(crew->context, number);
        mine++;
    }
    pthread_mutex_lock(&crew->lock);
    crew->done += mine;
    pthread_cond_signal(&crew->finished);
    pthread_mutex_unlock(&crew->lock);
}

static void release(struct crew *crew)
{
    pthread_mutex_lock(&crew->lock);
    bool last = --crew->owners == 0;
    pthread_mutex_unlock(&crew->lock);
    if (!last)
        return;
    pthread_cond_destroy(&crew->finished);
    pthread_mutex_destroy(&crew->lock);
    free(crew);
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
static bool hire(struct crew *crew)
{
    pthread_t thread;
    pthread_mutex_lock(&crew->lock);
    crew->owners++;
    pthread_mutex_unlock(&crew->lock);
    if (!base_stack_thread(&thread, help, crew)) {
        pthread_detach(thread);
        return true;
    }
    release(crew);
    return false;
}

static void do_together(struct crew *crew)
{
    size_t wanted = processors();
    for (size_t i = 1; i < wanted && i < crew->count && hire(crew); i++)
        ;
    work(crew);
    pthread_mutex_lock(&crew->lock);
    while (crew->done < crew->count)
        pthread_cond_wait(&crew->finished, &crew->lock);
    pthread_mutex_unlock(&crew->lock);
    release(crew);
}

void base_crew(size_t count, base_crew_job *job, void *context)
{
    struct crew *crew = count > 1 && processors() > 1 ? malloc(sizeof *crew) : NULL;
    if (crew) {
        *crew = (struct crew){.job = job,
                              .context = context,
                              .count = count,
                              .lock = PTHREAD_MUTEX_INITIALIZER,
                              .finished = PTHREAD_COND_INITIALIZER,
                              .owners = 1};
        do_together(crew);
        return;
    }
    for (size_t i = 0; i < count; i++)
        job(context, i);
}
