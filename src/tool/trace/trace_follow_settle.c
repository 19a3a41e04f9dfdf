/* Which stopped threads go on: all that no mark keeps stopped.
 *
 * The marks are those of enum trace_follow_life. Whoever removes a mark, or ends a hold, calls
 * trace_follow_settle: it resumes the thread, or detaches it when its process is left. */
#include "trace_follow_inside.h"

#include <stddef.h>

pid_t trace_follow_take_forker(struct trace_stop_thread *thread)
{
    pid_t forker = thread->life & TRACE_FOLLOW_KEEPS_FORKER ? thread->creator : 0;
    thread->life &= ~(uint32_t)TRACE_FOLLOW_KEEPS_FORKER;
    return forker;
}

void trace_follow_settle(struct trace_follow *follow, struct trace_follow_space *space, pid_t tid)
{
    const uint32_t keeps = TRACE_FOLLOW_NEW | TRACE_FOLLOW_NEEDS | TRACE_FOLLOW_WAITS | TRACE_FOLLOW_FORKS;
    struct trace_stop_thread *thread = trace_stop_find(&space->stop, tid);
    if (!thread || thread->state != TRACE_STOP_STOPPED)
        return;
    pid_t process = thread->process;
    if (thread->life & TRACE_FOLLOW_LEAVING) {
        pid_t forker = trace_follow_take_forker(thread);
        trace_stop_detach(thread);
        if (thread->state == TRACE_STOP_GONE)
            trace_stop_forget(&space->stop, tid);
        if (!trace_follow_has_thread(space, process)) {
            struct trace_follow_process *record = trace_follow_process(follow, process);
            if (record && record->space == space)
                trace_follow_drop_process(follow, record);
        }
        trace_follow_resume_forker(follow, forker);
    } else if (!space->stop.holding && !(thread->life & keeps)) {
        pid_t forker = trace_follow_take_forker(thread);
        trace_stop_resume(thread);
        trace_follow_resume_forker(follow, forker);
    }
}

void trace_follow_settle_all(struct trace_follow *follow, struct trace_follow_space *space)
{
    for (size_t i = space->stop.count; i-- > 0;)
        if (i < space->stop.count)
            trace_follow_settle(follow, space, space->stop.threads[i].tid);
}

void trace_follow_resume_creators(struct trace_follow *follow, struct trace_follow_space *space)
{
    struct trace_stop *stop = &space->stop;
    for (size_t i = stop->count; i-- > 0;) {
        if (i >= stop->count || !(stop->threads[i].life & TRACE_FOLLOW_WAITS))
            continue;
        bool waits = false;
        for (size_t j = 0; j < stop->count && !waits; j++)
            waits = stop->threads[j].creator == stop->threads[i].tid &&
                    (stop->threads[j].life & TRACE_FOLLOW_NEEDS) && stop->threads[j].state != TRACE_STOP_GONE;
        if (waits)
            continue;
        pid_t tid = stop->threads[i].tid;
        stop->threads[i].life &= ~(uint32_t)TRACE_FOLLOW_WAITS;
        trace_follow_settle(follow, space, tid);
    }
}

void trace_follow_keep_stopped(struct trace_stop_thread *thread, enum trace_follow_life why)
{
    thread->life |= (uint32_t)why;
    if (thread->state == TRACE_STOP_RUNNING && !thread->interrupted)
        trace_stop_interrupt(thread);
}

void trace_follow_resume_forker(struct trace_follow *follow, pid_t tid)
{
    struct trace_follow_space *space = tid ? trace_follow_find_space(follow, tid) : NULL;
    if (!space)
        return;
    trace_stop_find(&space->stop, tid)->life &= ~(uint32_t)TRACE_FOLLOW_FORKS;
    trace_follow_settle(follow, space, tid);
}

void trace_follow_resume(struct trace_follow *follow, struct trace_follow_space *space)
{
    space->stop.holding = false;
    trace_follow_settle_all(follow, space);
}
