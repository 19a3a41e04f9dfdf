#include "collect_calls_crew.h"

#include <pthread.h>
#include <sched.h>

#define MOST 8 /* more than a handful of large images no program has */

struct crew {
    collect_calls_job *job;
    void *context;
    size_t count, next;
};

static void *work(void *context)
{
    struct crew *crew = context;
    size_t number;
    while ((number = __atomic_fetch_add(&crew->next, 1, __ATOMIC_RELAXED)) < crew->count)
        crew->job(crew->context, number);
    return NULL;
}

static size_t processors(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    return count < 1 ? 1 : count > MOST ? MOST : (size_t)count;
}

void collect_calls_crew(size_t count, collect_calls_job *job, void *context)
{
    struct crew crew = {job, context, count, 0};
    pthread_t threads[MOST];
    size_t wanted = count > 1 ? processors() : 1, begun = 0;
    if (wanted > count)
        wanted = count;
    while (begun + 1 < wanted && !pthread_create(&threads[begun], NULL, work, &crew))
        begun++;
    work(&crew);
    while (begun > 0)
        pthread_join(threads[--begun], NULL);
}
