/* The tables: which processes are followed, in which spaces their threads are, and the events that report
 * them. */
#include "base_clock.h"
#include "trace_follow_inside.h"

#include <stdlib.h>

#include "base_array.h"
#include "proc_target.h"

/* --- tables --- */

struct trace_follow_process *trace_follow_process(const struct trace_follow *follow, pid_t pid)
{
    for (size_t i = 0; i < follow->process_count; i++)
        if (follow->processes[i].pid == pid)
            return &follow->processes[i];
    return NULL;
}

struct trace_follow_space *trace_follow_add_space(struct trace_follow *follow, pid_t pid)
{
    struct trace_follow_space *space = calloc(1, sizeof *space);
    if (!space || !base_array_room(follow->spaces, follow->space_count, follow->space_capacity)) {
        free(space);
        return NULL;
    }
    space->stop = (struct trace_stop){.pid = pid, .follower = &follow->follower};
    space->memory.file = -1;
    follow->spaces[follow->space_count++] = space;
    return space;
}

struct trace_follow_process *trace_follow_add_process(struct trace_follow *follow, pid_t pid,
                                                      struct trace_follow_space *space)
{
    if (!base_array_room(follow->processes, follow->process_count, follow->process_capacity))
        return NULL;
    struct trace_follow_process *process = &follow->processes[follow->process_count++];
    *process = (struct trace_follow_process){.pid = pid, .space = space, .since = base_clock_now()};
    return process;
}

struct trace_follow_process *trace_follow_owner(struct trace_follow *follow,
                                                const struct trace_follow_space *space)
{
    struct trace_follow_process *owner = NULL;
    for (size_t i = 0; i < follow->process_count; i++) {
        if (follow->processes[i].space != space)
            continue;
        if (owner)
            return NULL;
        owner = &follow->processes[i];
    }
    return owner;
}

void trace_follow_end_detached(struct trace_follow *follow, struct trace_follow_space *space)
{
    uint64_t spent = space->detached ? base_clock_now() - space->detached_since : 0;
    if (!space->detached)
        return;
    for (size_t i = 0; i < follow->process_count; i++)
        if (follow->processes[i].space == space)
            follow->processes[i].cost.detached_ns += spent;
    follow->total.detached_ns += spent;
    close(space->detached_file);
    space->detached = false;
}

void trace_follow_drop_process(struct trace_follow *follow, struct trace_follow_process *process)
{
    trace_follow_end_detached(follow, process->space);
    follow->total.followed_ns += base_clock_now() - process->since;
    *process = follow->processes[--follow->process_count];
}

void trace_follow_space_free(struct trace_follow_space *space)
{
    trace_memory_close(&space->memory);
    trace_stop_free(&space->stop);
    trace_staged_free(&space->staged);
    free(space->pool);
}

static bool is_empty(const struct trace_stop *stop)
{
    for (size_t i = 0; i < stop->count; i++)
        if (stop->threads[i].state != TRACE_STOP_GONE)
            return false;
    return true;
}

void trace_follow_drop_empty_spaces(struct trace_follow *follow)
{
    size_t kept = 0;
    for (size_t i = 0; i < follow->space_count; i++) {
        struct trace_follow_space *space = follow->spaces[i];
        if (!is_empty(&space->stop)) {
            follow->spaces[kept++] = space;
            continue;
        }
        trace_follow_space_free(space);
        free(space);
    }
    follow->space_count = kept;
}

struct trace_follow_space *trace_follow_find_space(const struct trace_follow *follow, pid_t tid)
{
    for (size_t i = 0; i < follow->space_count; i++) {
        const struct trace_stop_thread *thread = trace_stop_find(&follow->spaces[i]->stop, tid);
        if (thread && thread->state != TRACE_STOP_GONE)
            return follow->spaces[i];
    }
    return NULL;
}

pid_t trace_follow_living(const struct trace_follow_space *space)
{
    pid_t living = 0;
    for (size_t i = 0; i < space->stop.count; i++) {
        const struct trace_stop_thread *thread = &space->stop.threads[i];
        if (thread->state == TRACE_STOP_STOPPED)
            return thread->tid;
        if (thread->state != TRACE_STOP_GONE &&
            (thread->state != TRACE_STOP_DETACHED || proc_target_has_thread(thread->process, thread->tid)))
            living = thread->tid;
    }
    return living;
}

bool trace_follow_has_thread(const struct trace_follow_space *space, pid_t process)
{
    for (size_t i = 0; i < space->stop.count; i++)
        if (space->stop.threads[i].process == process && space->stop.threads[i].state != TRACE_STOP_GONE)
            return true;
    return false;
}

pid_t trace_follow_parent_of(const struct trace_follow *follow, const struct trace_stop_thread *thread)
{
    const struct trace_follow_process *process = trace_follow_process(follow, thread->process);
    return thread->tid == thread->process && process ? process->parent : thread->process;
}

/* --- events --- */

void trace_follow_emit(struct trace_follow *follow, const struct trace_event *event)
{
    const struct trace_follow_process *process = trace_follow_process(follow, event->pid);
    if (process && process->leaving)
        return;
    if (!base_array_room(follow->events, follow->event_count, follow->event_capacity)) {
        follow->broken = true;
        return;
    }
    follow->events[follow->event_count++] = *event;
    follow->urgent = follow->urgent || (event->kind != TRACE_CREATED && event->kind != TRACE_EXITED);
}

void trace_follow_emit_thread(struct trace_follow *follow, enum trace_event_kind kind,
                              const struct trace_stop_thread *thread, pid_t parent)
{
    trace_follow_emit(
        follow,
        &(struct trace_event){
            .kind = kind, .pid = thread->process, .tid = thread->tid, .parent = parent, .gs = thread->gs});
}

void trace_follow_thread_ended(struct trace_follow *follow, struct trace_stop_thread *thread)
{
    uint32_t life = thread->life;
    thread->state = TRACE_STOP_GONE;
    thread->life = 0;
    if (!(life & (TRACE_FOLLOW_NEW | TRACE_FOLLOW_LEAVING | TRACE_FOLLOW_EXECED)))
        trace_follow_emit_thread(follow, TRACE_EXITED, thread, 0);
}
