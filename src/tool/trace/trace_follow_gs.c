/* gs bases: a pool for each space, and the threads that are given one.
 *
 * A new thread takes the first gs base of its space's pool before its first instruction. When the pool is
 * empty, the thread and its creator stay stopped (NEEDS, WAITS) until tally gives more. */
#include "trace_follow_inside.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <time.h>

#include "base_array.h"
#include "base_clock.h"

#define TRIES 3 /* of what must not fail */

int trace_follow_write_gs(const struct trace_stop_thread *thread)
{
    for (int i = 0; i < TRIES; i++)
        if (!ptrace(PTRACE_POKEUSER, thread->tid, offsetof(struct user, regs.gs_base), thread->gs))
            return BASE_OK;
    return errno == ESRCH ? BASE_OK : BASE_EIO; /* killed: it will not run */
}

bool trace_follow_take_gs(struct trace_follow_space *space, uint64_t *gs)
{
    if (space->pool_first == space->pool_count)
        return false;
    *gs = space->pool[space->pool_first];
    if (*gs == TRACE_GS_KEEP)
        return true;
    space->pool_first++;
    if (space->pool_first == space->pool_count)
        space->pool_first = space->pool_count = 0;
    return true;
}

void trace_follow_start_thread(struct trace_follow *follow, struct trace_stop_thread *thread, uint64_t gs)
{
    thread->gs = gs == TRACE_GS_KEEP ? 0 : gs;
    thread->life &= ~(uint32_t)TRACE_FOLLOW_NEEDS;
    if (gs != TRACE_GS_KEEP)
        trace_follow_write_gs(thread);
    trace_follow_emit_thread(follow, TRACE_CREATED, thread, trace_follow_parent_of(follow, thread));
}

void trace_follow_need_gs(struct trace_follow *follow, struct trace_follow_space *space,
                          struct trace_stop_thread *thread)
{
    struct trace_stop_thread *creator = trace_stop_find(&space->stop, thread->creator);
    thread->life |= TRACE_FOLLOW_NEEDS;
    space->need_since = base_clock_now();
    if (creator && creator->state != TRACE_STOP_GONE)
        trace_follow_keep_stopped(creator, TRACE_FOLLOW_WAITS);
    trace_follow_emit_thread(follow, TRACE_NEED, thread, trace_follow_parent_of(follow, thread));
}

void trace_follow_serve_needs(struct trace_follow *follow, struct trace_follow_space *space,
                              bool with_nothing)
{
    uint64_t gs = 0;
    bool in_need = false;
    for (size_t i = 0; i < space->stop.count; i++) {
        struct trace_stop_thread *thread = &space->stop.threads[i];
        if (!(thread->life & TRACE_FOLLOW_NEEDS) || thread->state != TRACE_STOP_STOPPED)
            continue;
        in_need = !trace_follow_take_gs(space, &gs);
        if (in_need && !with_nothing)
            break;
        trace_follow_start_thread(follow, thread, in_need ? 0 : gs);
        in_need = false;
    }
    space->need_since = in_need ? space->need_since : 0;
    trace_follow_resume_creators(follow, space);
    trace_follow_settle_all(follow, space);
}

/* With TRACE_GS_KEEP in the pool, no other entry is given to a thread: they are dropped. */
static void keep_only_keep_entry(struct trace_follow_space *space)
{
    for (size_t i = 0; i < space->pool_count; i++)
        if (space->pool[i] == TRACE_GS_KEEP) {
            space->pool[0] = TRACE_GS_KEEP;
            space->pool_count = 1;
        }
}

int trace_follow_give(struct trace_follow *follow, struct trace_follow_space *space, const uint64_t *gs,
                      size_t count, struct base_error *error)
{
    space->pool_count -= space->pool_first;
    if (space->pool_first)
        memmove(space->pool, space->pool + space->pool_first, space->pool_count * sizeof *space->pool);
    space->pool_first = 0;
    for (size_t i = 0; i < count; i++) {
        if (!base_array_room(space->pool, space->pool_count, space->pool_capacity)) {
            space->pool_count -= i;
            return base_fail(error, BASE_ENOMEM, "out of memory");
        }
        space->pool[space->pool_count++] = gs[i];
    }
    keep_only_keep_entry(space);
    if (space->need_since) /* else no thread waits for one */
        trace_follow_serve_needs(follow, space, false);
    return BASE_OK;
}

int trace_follow_set_gs(struct trace_follow *follow, pid_t tid, uint64_t gs, struct base_error *error)
{
    struct trace_follow_space *space = trace_follow_find_space(follow, tid);
    struct trace_stop_thread *thread = space ? trace_stop_find(&space->stop, tid) : NULL;
    if (!thread)
        return base_fail(error, BASE_ENOTFOUND, "no thread %d is followed", tid);
    if (thread->state != TRACE_STOP_STOPPED && thread->state != TRACE_STOP_KERNEL)
        return base_fail(error, BASE_EUSAGE, "thread %d is not stopped", tid);
    uint64_t before = thread->gs;
    thread->gs = gs;
    if (thread->state == TRACE_STOP_KERNEL) {
        thread->life |= TRACE_FOLLOW_SET_GS;
        return BASE_OK;
    }
    if (trace_follow_write_gs(thread) == BASE_OK)
        return BASE_OK;
    thread->gs = before;
    return base_fail_errno(error, errno, "gs base of thread %d cannot be set", tid);
}

/* The thread's gs base; of one whose registers cannot be read (asleep in the kernel, or killed) what it was
 * given last. */
static uint64_t current_gs(const struct trace_stop_thread *thread)
{
    errno = 0;
    long gs = thread->state == TRACE_STOP_STOPPED
                  ? ptrace(PTRACE_PEEKUSER, thread->tid, offsetof(struct user, regs.gs_base), 0)
                  : 0;
    return thread->state != TRACE_STOP_STOPPED || errno ? thread->gs : (uint64_t)gs;
}

int trace_follow_clear_gs(struct trace_follow_space *space, uint64_t offset,
                          const struct trace_step_range *ranges, size_t count, struct base_error *error)
{
    int result = BASE_OK;
    for (size_t i = 0; i < space->stop.count; i++) {
        struct trace_stop_thread *thread = &space->stop.threads[i];
        uint64_t gs = thread->state != TRACE_STOP_GONE ? current_gs(thread) : 0;
        if (!gs || !trace_step_is_within(ranges, count, gs + offset))
            continue;
        thread->gs = 0;
        if (thread->state == TRACE_STOP_KERNEL)
            thread->life |= TRACE_FOLLOW_SET_GS;
        else if (trace_follow_write_gs(thread) < 0) {
            thread->gs = gs;
            result = base_fail_errno(error, errno, "gs base of thread %d cannot be set", thread->tid);
        }
    }
    return result;
}
