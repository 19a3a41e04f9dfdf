/* Who is followed, in which memory, and what is told of them. */
#include "patch_follow_inside.h"

#include <stdlib.h>

#include "base_array.h"
#include "patch_target.h"

/* --- tables --- */

struct patch_follow_process *patch_follow_process(const struct patch_follow *follow, pid_t pid)
{
    for (size_t i = 0; i < follow->process_count; i++)
        if (follow->processes[i].pid == pid)
            return &follow->processes[i];
    return NULL;
}

struct patch_follow_space *patch_follow_add_space(struct patch_follow *follow, pid_t pid)
{
    struct patch_follow_space *space = calloc(1, sizeof *space);
    if (!space || !base_array_room(follow->spaces, follow->space_count, follow->space_capacity)) {
        free(space);
        return NULL;
    }
    space->stop = (struct patch_stop){.pid = pid, .follower = &follow->follower};
    space->memory.file = -1;
    follow->spaces[follow->space_count++] = space;
    return space;
}

struct patch_follow_process *patch_follow_add_process(struct patch_follow *follow, pid_t pid,
                                                      struct patch_follow_space *space)
{
    if (!base_array_room(follow->processes, follow->process_count, follow->process_capacity))
        return NULL;
    struct patch_follow_process *process = &follow->processes[follow->process_count++];
    *process = (struct patch_follow_process){.pid = pid, .space = space, .since = patch_target_now()};
    return process;
}

void patch_follow_drop_process(struct patch_follow *follow, struct patch_follow_process *process)
{
    patch_follow_end_looseness(follow, process->space);
    follow->total.followed_ns += patch_target_now() - process->since;
    *process = follow->processes[--follow->process_count];
}

void patch_follow_space_free(struct patch_follow_space *space)
{
    patch_memory_close(&space->memory);
    patch_stop_free(&space->stop);
    patch_staged_free(&space->staged);
    free(space->pool);
}

static bool is_empty(const struct patch_stop *stop)
{
    for (size_t i = 0; i < stop->count; i++)
        if (stop->threads[i].state != PATCH_STOP_GONE)
            return false;
    return true;
}

void patch_follow_drop_empty_spaces(struct patch_follow *follow)
{
    size_t kept = 0;
    for (size_t i = 0; i < follow->space_count; i++) {
        struct patch_follow_space *space = follow->spaces[i];
        if (!is_empty(&space->stop)) {
            follow->spaces[kept++] = space;
            continue;
        }
        patch_follow_space_free(space);
        free(space);
    }
    follow->space_count = kept;
}

struct patch_follow_space *patch_follow_find_space(const struct patch_follow *follow, pid_t tid)
{
    for (size_t i = 0; i < follow->space_count; i++) {
        const struct patch_stop_thread *thread = patch_stop_find(&follow->spaces[i]->stop, tid);
        if (thread && thread->state != PATCH_STOP_GONE)
            return follow->spaces[i];
    }
    return NULL;
}

pid_t patch_follow_living(const struct patch_follow_space *space)
{
    pid_t living = 0;
    for (size_t i = 0; i < space->stop.count; i++) {
        const struct patch_stop_thread *thread = &space->stop.threads[i];
        if (thread->state == PATCH_STOP_STOPPED)
            return thread->tid;
        if (thread->state != PATCH_STOP_GONE &&
            (thread->state != PATCH_STOP_LOOSE || patch_target_has_thread(thread->process, thread->tid)))
            living = thread->tid;
    }
    return living;
}

bool patch_follow_has_thread(const struct patch_follow_space *space, pid_t process)
{
    for (size_t i = 0; i < space->stop.count; i++)
        if (space->stop.threads[i].process == process && space->stop.threads[i].state != PATCH_STOP_GONE)
            return true;
    return false;
}

/* --- events --- */

void patch_follow_emit(struct patch_follow *follow, const struct patch_trace_event *event)
{
    const struct patch_follow_process *process = patch_follow_process(follow, event->pid);
    if (process && process->leaving)
        return;
    if (!base_array_room(follow->events, follow->event_count, follow->event_capacity)) {
        follow->broken = true;
        return;
    }
    follow->events[follow->event_count++] = *event;
    follow->urgent = follow->urgent || (event->kind != PATCH_TRACE_BIRTH && event->kind != PATCH_TRACE_DEATH);
}

void patch_follow_emit_thread(struct patch_follow *follow, enum patch_trace_kind kind,
                              const struct patch_stop_thread *thread, pid_t parent)
{
    patch_follow_emit(
        follow,
        &(struct patch_trace_event){
            .kind = kind, .pid = thread->process, .tid = thread->tid, .parent = parent, .gs = thread->gs});
}

void patch_follow_thread_ended(struct patch_follow *follow, struct patch_stop_thread *thread)
{
    uint32_t life = thread->life;
    thread->state = PATCH_STOP_GONE;
    thread->life = 0;
    if (!(life & (PATCH_FOLLOW_NEWBORN | PATCH_FOLLOW_LEAVING | PATCH_FOLLOW_EXECED)))
        patch_follow_emit_thread(follow, PATCH_TRACE_DEATH, thread, 0);
}
