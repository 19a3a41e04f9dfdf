/* The threads of a stop, sorted by tid. */
#include "trace_stop_inside.h"

#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_search.h"

size_t trace_stop_index(const struct trace_stop *stop, pid_t tid)
{
    return base_search_below(stop->threads, stop->count, tid, (uint64_t)tid);
}

struct trace_stop_thread *trace_stop_find(const struct trace_stop *stop, pid_t tid)
{
    size_t at = trace_stop_index(stop, tid);
    return at < stop->count && stop->threads[at].tid == tid ? &stop->threads[at] : NULL;
}

int trace_stop_insert(struct trace_stop *stop, pid_t process, pid_t tid)
{
    if (!base_array_room(stop->threads, stop->count, stop->capacity))
        return BASE_ENOMEM;
    size_t at = trace_stop_index(stop, tid);
    memmove(&stop->threads[at + 1], &stop->threads[at], (stop->count - at) * sizeof *stop->threads);
    stop->threads[at] =
        (struct trace_stop_thread){.process = process, .tid = tid, .state = TRACE_STOP_RUNNING};
    stop->count++;
    return BASE_OK;
}

int trace_stop_add(struct trace_stop *stop, pid_t process, pid_t tid, uint32_t life)
{
    int result = trace_stop_insert(stop, process, tid);
    if (result < 0)
        return result;
    struct trace_stop_thread *thread = trace_stop_find(stop, tid);
    thread->interrupted = true;
    thread->life = life;
    return BASE_OK;
}

void trace_stop_forget(struct trace_stop *stop, pid_t tid)
{
    size_t at = trace_stop_index(stop, tid);
    if (at >= stop->count || stop->threads[at].tid != tid)
        return;
    stop->count--;
    memmove(&stop->threads[at], &stop->threads[at + 1], (stop->count - at) * sizeof *stop->threads);
}

void trace_stop_forget_gone(struct trace_stop *stop)
{
    size_t kept = 0;
    for (size_t i = 0; i < stop->count; i++)
        if (stop->threads[i].state != TRACE_STOP_GONE)
            stop->threads[kept++] = stop->threads[i];
    stop->count = kept;
}

void trace_stop_free(struct trace_stop *stop)
{
    free(stop->threads);
    *stop = (struct trace_stop){0};
}
