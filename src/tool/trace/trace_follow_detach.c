/* Letting a space go for a while, and taking it again. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base_clock.h"
#include "proc_target.h"
#include "trace_detach.h"
#include "trace_follow_inside.h"

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

/* The process that has the space for itself; NULL: there are several. */
static struct trace_follow_process *owner_of(struct trace_follow *follow,
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

static void detach_all(struct trace_stop *stop)
{
    for (size_t i = 0; i < stop->count; i++) {
        struct trace_stop_thread *thread = &stop->threads[i];
        if (thread->state != TRACE_STOP_STOPPED)
            continue;
        trace_stop_detach(thread);
        if (thread->state == TRACE_STOP_GONE)
            thread->state = TRACE_STOP_DETACHED;
    }
}

/* The space is held. */
static int detach_held(struct trace_follow *follow, struct trace_follow_space *space, pid_t pid, int file,
                       const struct trace_step_range *ranges, size_t count, struct base_error *error)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = pid};
    int result = trace_detach_check(space, ranges, count, error);
    if (result == BASE_OK && (follow->urgent || follow->orphan_count || space->need_since))
        result = base_fail(error, BASE_EBUSY, "something is being born in process %d", pid);
    if (result == BASE_OK && epoll_ctl(follow->ends, EPOLL_CTL_ADD, file, &event))
        result = base_fail_errno(error, errno, "the end of process %d cannot be watched", pid);
    if (result < 0)
        return result;
    space->detached = true;
    space->detached_file = file;
    space->detached_image = proc_target_stat(pid, PROC_TARGET_STACK);
    space->detached_since = base_clock_now();
    TRACE_FOLLOW_COUNT(follow, pid, detachments, 1);
    detach_all(&space->stop);
    return BASE_OK;
}

int trace_follow_detach(struct trace_follow *follow, struct trace_follow_space *space,
                        const struct trace_step_range *ranges, size_t count, struct base_error *error)
{
    const struct trace_follow_process *owner = owner_of(follow, space);
    if (space->detached)
        return BASE_OK;
    if (!owner || space->stop.holding)
        return base_fail(error, BASE_EBUSY, "process %d %s", space->stop.pid,
                         owner ? "is held" : "shares its memory with another");
    pid_t pid = owner->pid;
    if (!trace_detach_may_come_back(pid))
        return base_fail(error, BASE_EPERMISSION, "process %d could not be traced again", pid);
    int file = (int)syscall(SYS_pidfd_open, pid, 0);
    if (file < 0)
        return base_fail_errno(error, errno, "the end of process %d cannot be watched", pid);
    int result = trace_follow_hold(follow, space, error);
    bool held = result == BASE_OK;
    if (held)
        result = detach_held(follow, space, pid, file, ranges, count, error);
    if (result < 0)
        close(file);
    if (held)
        trace_follow_release(follow, space);
    return result;
}

static int retake(struct trace_follow *follow, struct trace_stop *stop, pid_t pid, struct base_error *error)
{
    for (size_t i = 0; i < stop->count; i++) {
        struct trace_stop_thread *thread = &stop->threads[i];
        if (thread->state != TRACE_STOP_DETACHED)
            continue;
        int result = trace_stop_retake(stop, thread, error);
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
    struct trace_follow_process *owner = space->detached ? owner_of(follow, space) : NULL;
    if (!owner)
        return BASE_OK;
    pid_t pid = owner->pid;
    int result = proc_target_stat(pid, PROC_TARGET_STACK) == space->detached_image ? BASE_OK : BASE_ENOTFOUND;
    if (result == BASE_OK)
        result = retake(follow, &space->stop, pid, error);
    if (result == BASE_ENOTFOUND || (result == BASE_OK && !trace_follow_has_thread(space, pid))) {
        end_detached_process(follow, owner);
        return base_fail(error, BASE_ENOTFOUND, "process %d is not what it was any more", pid);
    }
    if (result == BASE_OK)
        trace_follow_end_detached(follow, space);
    return result;
}

void trace_follow_look_for_ends(struct trace_follow *follow)
{
    struct epoll_event event;
    while (epoll_wait(follow->ends, &event, 1, 0) == 1) {
        struct trace_follow_process *process = trace_follow_process(follow, event.data.fd);
        if (!process || !process->space->detached)
            return; /* its file is closed */
        end_detached_process(follow, process);
    }
}
