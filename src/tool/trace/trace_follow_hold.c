/* Holding: all threads of a space are stopped, and resumed.
 *
 * A detached space is reattached first. A hold may find threads that nobody announced, and may have to wait
 * for vfork children that were detached: they run the same text. */
#include "trace_follow_inside.h"

#include <stddef.h>
#include <sys/epoll.h>
#include <sys/ptrace.h>

#include "base_clock.h"
#include "proc_target.h"

#define DETACHED_NS      (50 * UINT64_C(1000000)) /* how long detached vfork children are waited for */
#define DETACHED_LOOK_NS 100000

int trace_follow_open_memory(struct trace_follow_space *space, struct base_error *error)
{
    if (space->memory.file >= 0)
        return BASE_OK;
    return trace_memory_open(&space->memory, trace_follow_living(space), error);
}

/* Threads that were found only by this stop. */
static void report_found_threads(struct trace_follow *follow, struct trace_follow_space *space)
{
    for (size_t i = 0; i < space->stop.count; i++) {
        struct trace_stop_thread *thread = &space->stop.threads[i];
        if (thread->state == TRACE_STOP_GONE)
            continue;
        if (thread->life & TRACE_FOLLOW_UNANNOUNCED) {
            if (thread->state == TRACE_STOP_STOPPED)
                trace_follow_thread_created(follow, space, thread);
        } else if (!(thread->life & (TRACE_FOLLOW_KNOWN | TRACE_FOLLOW_NEW))) {
            thread->life |= TRACE_FOLLOW_KNOWN;
            trace_follow_emit_thread(follow, TRACE_FOUND, thread, 0);
        }
    }
}

/* A thread that waits for its vfork child does not stop before the child goes on, and need not be waited
 * for. */
static void accept_vfork_parents(struct trace_follow_space *space)
{
    for (size_t i = 0; i < space->stop.count; i++) {
        const struct trace_stop_thread *child = &space->stop.threads[i];
        struct trace_stop_thread *parent = trace_stop_find(&space->stop, child->creator);
        if (!(child->life & TRACE_FOLLOW_VFORKED) || child->state == TRACE_STOP_GONE || !parent ||
            parent->state != TRACE_STOP_RUNNING)
            continue;
        if (!parent->interrupted)
            trace_stop_interrupt(parent);
        if (parent->interrupted &&
            proc_target_is_in_kernel(parent->process, parent->tid, &parent->pc, &parent->sp))
            parent->state = TRACE_STOP_KERNEL;
    }
}

/* Detached vfork children run the same text, and cannot be stopped. */
static int await_detached_children(struct trace_follow_space *space, struct base_error *error)
{
    uint64_t began = base_clock_now();
    for (size_t i = 0; i < space->stop.count; i++) {
        struct trace_stop_thread *thread = &space->stop.threads[i];
        while (thread->detached_child && thread->state != TRACE_STOP_GONE &&
               trace_follow_shares_memory(thread->tid, thread->detached_child, PTRACE_EVENT_VFORK)) {
            if (base_clock_now() - began > DETACHED_NS)
                return base_fail(error, BASE_EBUSY, "process %d, which is not followed, runs in its memory",
                                 thread->detached_child);
            base_clock_sleep(DETACHED_LOOK_NS);
        }
        thread->detached_child = 0;
    }
    return BASE_OK;
}

static void end_detached_process(struct trace_follow *follow, struct trace_follow_process *process)
{
    struct trace_stop *stop = &process->space->stop;
    for (size_t i = 0; i < stop->count; i++)
        if (stop->threads[i].state != TRACE_STOP_GONE)
            trace_follow_thread_ended(follow, &stop->threads[i]);
    trace_follow_emit(follow,
                      &(struct trace_event){.kind = TRACE_END, .pid = process->pid, .tid = process->pid});
    trace_follow_drop_process(follow, process);
}

static int reseize_all(struct trace_follow *follow, struct trace_stop *stop, pid_t pid,
                       struct base_error *error)
{
    for (size_t i = 0; i < stop->count; i++) {
        struct trace_stop_thread *thread = &stop->threads[i];
        if (thread->state != TRACE_STOP_DETACHED)
            continue;
        int result = trace_stop_reseize(stop, thread, error);
        if (result < 0)
            return result;
        if (result == 0)
            trace_follow_thread_ended(follow, thread);
    }
    int result = trace_stop_follow(stop, pid, error);
    return result < 0 ? result : BASE_OK;
}

int trace_follow_reattach(struct trace_follow *follow, struct trace_follow_space *space,
                          struct base_error *error)
{
    struct trace_follow_process *owner = space->detached ? trace_follow_owner(follow, space) : NULL;
    if (!owner)
        return BASE_OK;
    pid_t pid = owner->pid;
    int result = proc_target_stat(pid, PROC_TARGET_STACK) == space->detached_image ? BASE_OK : BASE_ENOTFOUND;
    if (result == BASE_OK)
        result = reseize_all(follow, &space->stop, pid, error);
    if (result == BASE_ENOTFOUND || (result == BASE_OK && !trace_follow_has_thread(space, pid))) {
        end_detached_process(follow, owner);
        return base_fail(error, BASE_ENOTFOUND, "process %d runs another image, or has ended", pid);
    }
    if (result == BASE_OK)
        trace_follow_end_detached(follow, space);
    return result;
}

void trace_follow_poll_ends(struct trace_follow *follow)
{
    struct epoll_event event;
    while (epoll_wait(follow->ends, &event, 1, 0) == 1) {
        struct trace_follow_process *process = trace_follow_process(follow, event.data.fd);
        if (!process || !process->space->detached)
            return; /* the event is of a pidfd that is closed already */
        end_detached_process(follow, process);
    }
}

int trace_follow_hold(struct trace_follow *follow, struct trace_follow_space *space, struct base_error *error)
{
    int result = BASE_OK;
    space->timed_out = false;
    result = trace_follow_reattach(follow, space, error);
    if (result == BASE_OK && !space->stop.holding)
        result = await_detached_children(space, error);
    if (result == BASE_OK && !space->stop.holding) {
        accept_vfork_parents(space);
        result = trace_stop_begin(&space->stop, space->stop.pid, error);
        space->held_since = base_clock_now();
    }
    if (result < 0)
        return result;
    report_found_threads(follow, space);
    result = trace_follow_open_memory(space, error);
    if (result < 0)
        trace_follow_resume(follow, space);
    return result;
}

void trace_follow_release(struct trace_follow *follow, struct trace_follow_space *space)
{
    trace_memory_close(&space->memory);
    TRACE_FOLLOW_COUNT(follow, space->stop.pid, stopped_ns, base_clock_now() - space->stop.began);
    trace_follow_resume(follow, space);
}
