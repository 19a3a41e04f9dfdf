/* Which processes are followed: they are added with all their threads, and left.
 *
 * A vfork child that runs in the memory of an added process already is added too. Only a stopped thread can
 * be detached: a process that is left is marked and its running threads are interrupted; each thread is
 * detached at its next trap (trace_follow_settle.c). */
#include "trace_follow_inside.h"

#include <stddef.h>
#include <stdio.h>
#include <sys/wait.h>

#include "base_clock.h"
#include "base_wait.h"
#include "proc_target.h"

#define LEAVE_LOOKS 50
#define LEAVE_NS    20000

/* The space that the process runs in: a new one, unless it shares a known one. */
static struct trace_follow_space *space_for(struct trace_follow *follow, pid_t pid)
{
    for (size_t i = 0; i < follow->space_count; i++) {
        pid_t living = trace_follow_living(follow->spaces[i]);
        if (living && trace_follow_shares_memory(living, pid, 0))
            return follow->spaces[i];
    }
    return trace_follow_add_space(follow, pid);
}

static void set_leaving(struct trace_follow_process *process, bool leaving)
{
    struct trace_stop *stop = &process->space->stop;
    process->leaving = leaving;
    for (size_t i = 0; i < stop->count; i++) {
        struct trace_stop_thread *thread = &stop->threads[i];
        if (thread->process != process->pid)
            continue;
        thread->life &= ~(uint32_t)TRACE_FOLLOW_LEAVING;
        thread->life |= leaving ? TRACE_FOLLOW_LEAVING : 0;
        if (leaving && thread->state == TRACE_STOP_RUNNING && !thread->interrupted)
            trace_stop_interrupt(thread);
    }
}

/* Seizes all threads of a process that has a record. */
static int seize_all(struct trace_follow_process *process, struct base_error *error)
{
    pid_t pid = process->pid;
    struct trace_follow_space *space = process->space;
    int result = trace_stop_follow(&space->stop, pid, error);
    for (size_t i = 0; i < space->stop.count; i++)
        if (space->stop.threads[i].process == pid)
            space->stop.threads[i].life |= TRACE_FOLLOW_KNOWN;
    return result == 0 && !trace_follow_has_thread(space, pid)
               ? base_fail(error, BASE_ENOTFOUND, "process %d has ended", pid)
               : result;
}

/* A child that runs in the memory of a process that was not followed when it was created. Without a record,
 * or when it cannot be seized, it stays untraced; it is about to end or to exec. */
static void add_vforked(struct trace_follow *follow, struct trace_follow_space *space, pid_t child,
                        pid_t parent, pid_t creator)
{
    struct trace_follow_process *process =
        trace_follow_process(follow, child) ? NULL : trace_follow_add_process(follow, child, space);
    if (!process)
        return;
    process->parent = parent;
    if (seize_all(process, NULL) < 0) {
        trace_follow_leave(follow, child);
        return;
    }
    struct trace_stop_thread *thread = trace_stop_find(&space->stop, child);
    if (thread) {
        thread->life |= TRACE_FOLLOW_VFORKED;
        thread->creator = creator;
    }
    trace_follow_emit(
        follow, &(struct trace_event){.kind = TRACE_VFORK, .pid = child, .tid = child, .parent = parent});
}

/* Kernels without CONFIG_PROC_CHILDREN do not list them. */
static void add_vforked_of(struct trace_follow *follow, struct trace_follow_space *space, pid_t parent,
                           pid_t creator)
{
    char path[96];
    int child;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", parent, creator);
    FILE *file = fopen(path, "re");
    while (file && fscanf(file, "%d", &child) == 1)
        if (trace_follow_shares_memory(creator, child, 0))
            add_vforked(follow, space, child, parent, creator);
    if (file)
        fclose(file);
}

static int add_new(struct trace_follow *follow, pid_t pid, struct base_error *error)
{
    int result = proc_target_check(pid, error);
    struct trace_follow_space *space = result == BASE_OK ? space_for(follow, pid) : NULL;
    struct trace_follow_process *process = space ? trace_follow_add_process(follow, pid, space) : NULL;
    if (!process)
        return result < 0 ? result : base_fail(error, BASE_ENOMEM, "out of memory");
    result = seize_all(process, error);
    for (size_t i = 0; result >= 0 && i < space->stop.count; i++) {
        pid_t creator = space->stop.threads[i].tid;
        if (space->stop.threads[i].process == pid)
            add_vforked_of(follow, space, pid, creator);
        while (i < space->stop.count && space->stop.threads[i].tid < creator)
            i++; /* the table may have grown: the index of `creator` now */
    }
    return result;
}

int trace_follow_add(struct trace_follow *follow, pid_t pid, struct base_error *error)
{
    struct trace_follow_process *process = trace_follow_process(follow, pid);
    if (process)
        set_leaving(process, false);
    int result = process ? trace_follow_reattach(follow, process->space, error) : BASE_OK;
    if (result == BASE_OK)
        result = process ? seize_all(process, error) : add_new(follow, pid, error);
    if (result < 0)
        trace_follow_leave(follow, pid);
    return result < 0 ? result : BASE_OK;
}

/* A detached thread needs no trap to be left at. */
static void forget_detached(struct trace_follow *follow, struct trace_follow_space *space)
{
    trace_follow_end_detached(follow, space);
    for (size_t i = 0; i < space->stop.count; i++)
        if (space->stop.threads[i].state == TRACE_STOP_DETACHED)
            space->stop.threads[i].state = TRACE_STOP_GONE;
}

static size_t look_at_leaving(struct trace_follow *follow, const struct trace_follow_space *space, pid_t pid)
{
    size_t left = 0;
    int status;
    for (size_t i = space->stop.count; i-- > 0;) {
        const struct trace_stop_thread *thread = &space->stop.threads[i];
        if (i >= space->stop.count || thread->process != pid || thread->state == TRACE_STOP_GONE)
            continue;
        left++;
        if (base_wait(thread->tid, &status, __WALL | WNOHANG) > 0)
            trace_follow_handle_status(follow, space->stop.threads[i].tid, status);
    }
    return left;
}

size_t trace_follow_leave(struct trace_follow *follow, pid_t pid)
{
    struct trace_follow_process *process = trace_follow_process(follow, pid);
    size_t left = 0;
    if (!process)
        return 0;
    struct trace_follow_space *space = process->space;
    forget_detached(follow, space);
    trace_follow_let_end(process);
    set_leaving(process, true);
    if (!trace_follow_has_thread(space, pid))
        trace_follow_drop_process(follow, process); /* none was seized */
    trace_follow_settle_all(follow, space);
    for (int i = 0; i < LEAVE_LOOKS && (left = look_at_leaving(follow, space, pid)); i++)
        base_clock_sleep(LEAVE_NS);
    return left;
}
