/* Detaching a space for a while: it is held, and all its threads are detached unless one is about to create a
 * thread or process. trace_follow_reattach (trace_follow_hold.c) is the way back. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base_clock.h"
#include "proc_target.h"
#include "trace_detach.h"
#include "trace_follow_inside.h"

static void detach_all_threads(struct trace_stop *stop)
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

/* The space is held, and its process may be detached. */
static int detach_held(struct trace_follow *follow, struct trace_follow_space *space, pid_t pid, int file,
                       struct base_error *error)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = pid};
    if (follow->urgent || follow->orphan_count || space->need_since)
        return base_fail(error, BASE_EBUSY, "process %d is creating a thread or a process", pid);
    if (epoll_ctl(follow->ends, EPOLL_CTL_ADD, file, &event))
        return base_fail_errno(error, errno, "the end of process %d cannot be watched", pid);
    space->detached = true;
    space->detached_file = file;
    space->detached_image = proc_target_stat(pid, PROC_TARGET_STACK);
    space->detached_since = base_clock_now();
    TRACE_FOLLOW_COUNT(follow, pid, detachments, 1);
    detach_all_threads(&space->stop);
    return BASE_OK;
}

int trace_follow_detach(struct trace_follow *follow, struct trace_follow_space *space,
                        const struct trace_step_range *ranges, size_t count, struct base_error *error)
{
    const struct trace_follow_process *owner = trace_follow_owner(follow, space);
    if (space->detached)
        return BASE_OK;
    if (!owner || space->stop.holding)
        return base_fail(error, BASE_EBUSY, "process %d %s", space->stop.pid,
                         owner ? "is held" : "shares its memory with another");
    pid_t pid = owner->pid;
    if (!trace_detach_may_reattach(pid))
        return base_fail(error, BASE_EPERMISSION, "process %d could not be traced again", pid);
    int file = (int)syscall(SYS_pidfd_open, pid, 0);
    if (file < 0)
        return base_fail_errno(error, errno, "the end of process %d cannot be watched", pid);
    int result = trace_follow_hold(follow, space, error);
    bool held = result == BASE_OK;
    if (held)
        result = trace_detach_check(space, ranges, count, error);
    if (result == BASE_OK)
        result = detach_held(follow, space, pid, file, error);
    if (result < 0)
        close(file);
    if (held)
        trace_follow_release(follow, space);
    return result;
}
