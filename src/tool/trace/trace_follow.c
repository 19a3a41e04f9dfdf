/* What the kernel reports of followed threads, by the kind of stop: a trap, an announced thread or process,
 * an exec, an exit. trace_follow_handle_status is the one entry; trace_follow_poll does what only time
 * brings. The work is in trace_follow_create.c (new threads and processes), trace_follow_gs.c (their gs
 * bases), trace_follow_settle.c (who may go on), trace_follow_hold.c (stopping and reattaching),
 * trace_follow_add.c (which processes are followed) and trace_follow_detach.c; the tables are in
 * trace_follow_tables.c. */
#include "trace_follow_inside.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base_clock.h"
#include "proc_privileges.h"

#define EVENT(status) ((int)((unsigned)(status) >> 16))
#define TRIES         3                         /* of what must not fail */
#define ENDING_NS     (200 * UINT64_C(1000000)) /* how long a first thread waits in its exit for tally */

/* --- execs --- */

static uint64_t privilege_flags(pid_t pid)
{
    enum proc_privileges privileges = proc_privileges_of(pid);
    return privileges == PROC_PRIVILEGES_LOST      ? TRACE_FLAG_PRIVILEGES_LOST
           : privileges == PROC_PRIVILEGES_UNKNOWN ? TRACE_FLAG_PRIVILEGES_UNKNOWN
                                                   : 0;
}

static void image_started(struct trace_follow *follow, struct trace_follow_space *space,
                          struct trace_stop_thread *thread)
{
    thread->life &= ~(uint32_t)TRACE_FOLLOW_EXECED;
    trace_stop_set_options(&space->stop, thread);
    if (thread->life & TRACE_FOLLOW_LEAVING)
        return;
    trace_follow_hold_new(space);
    trace_follow_emit(follow, &(struct trace_event){.kind = TRACE_EXEC,
                                                    .pid = thread->process,
                                                    .tid = thread->tid,
                                                    .flags = privilege_flags(thread->process)});
}

/* The process is alone in a new address space. Returns that, or the old one when memory ran out. */
static struct trace_follow_space *move_to_new_space(struct trace_follow *follow,
                                                    struct trace_follow_space *old, pid_t pid)
{
    bool leaving = false;
    for (size_t i = 0; i < old->stop.count; i++) {
        struct trace_stop_thread *thread = &old->stop.threads[i];
        if (thread->process != pid || thread->state == TRACE_STOP_GONE)
            continue;
        leaving = leaving || (thread->life & TRACE_FOLLOW_LEAVING);
        trace_follow_thread_ended(follow, thread);
    }
    trace_follow_resume_creators(follow, old);
    struct trace_follow_process *process = trace_follow_process(follow, pid);
    struct trace_follow_space *space = trace_follow_add_space(follow, pid);
    process = process || !space ? process : trace_follow_add_process(follow, pid, space);
    uint32_t life = TRACE_FOLLOW_KNOWN | TRACE_FOLLOW_EXECED | (leaving ? TRACE_FOLLOW_LEAVING : 0);
    if (!space || !process || trace_stop_add(&space->stop, pid, pid, life) < 0) {
        follow->broken = true;
        return old;
    }
    process->space = space;
    process->detaches_children = false;
    TRACE_FOLLOW_COUNT(follow, pid, execs, 1);
    return space;
}

/* --- ends --- */

void trace_follow_report_endings(struct trace_follow *follow)
{
    follow->follower.first_options = PTRACE_O_TRACEEXIT;
}

static void continue_exit(pid_t tid)
{
    for (int i = 0; i < TRIES && ptrace(PTRACE_CONT, tid, 0, 0); i++)
        ; /* a killed thread ends by itself */
}

void trace_follow_let_end(struct trace_follow_process *process)
{
    if (process->ending_since)
        continue_exit(process->pid);
    process->ending_since = 0;
}

/* A first thread is stopped in its exit: it runs no further instruction of the program, and the memory still
 * exists. */
static void first_thread_ending(struct trace_follow *follow, const struct trace_follow_space *space,
                                struct trace_stop_thread *thread)
{
    struct trace_follow_process *process = trace_follow_process(follow, thread->process);
    thread->state = TRACE_STOP_KERNEL;
    if (!process || process->leaving || process->space != space || thread->tid != process->pid) {
        continue_exit(thread->tid);
        return;
    }
    process->ending_since = base_clock_now();
    trace_follow_emit_thread(follow, TRACE_ENDING, thread, 0);
}

/* Continues first threads that have waited in their exit too long. Returns whether one still waits. */
static bool end_overdue_exits(struct trace_follow *follow, uint64_t deadline, bool *ended)
{
    uint64_t now = base_clock_now();
    bool waits = false;
    for (size_t i = 0; i < follow->process_count; i++) {
        struct trace_follow_process *process = &follow->processes[i];
        bool silent = process->ending_since && process->ending_since < deadline;
        if (silent || (process->ending_since && now - process->ending_since > ENDING_NS))
            trace_follow_let_end(process);
        *ended = *ended || silent;
        waits = waits || process->ending_since;
    }
    return waits;
}

/* --- stops, by kind --- */

static void thread_ended(struct trace_follow *follow, struct trace_follow_space *space,
                         struct trace_stop_thread *thread, int status)
{
    pid_t pid = thread->process;
    bool never_ran = (thread->life & (TRACE_FOLLOW_NEW | TRACE_FOLLOW_VFORKED)) == TRACE_FOLLOW_NEW;
    bool needed = (thread->life & TRACE_FOLLOW_NEEDS) != 0;
    bool forked = (thread->life & TRACE_FOLLOW_FORKED) != 0;
    pid_t creator = thread->creator, kept = trace_follow_take_forker(thread);
    trace_follow_thread_ended(follow, thread);
    if (needed)
        trace_follow_resume_creators(follow, space);
    trace_follow_resume_forker(follow, never_ran && forked ? creator : kept);
    struct trace_follow_process *process = trace_follow_process(follow, pid);
    if (trace_follow_has_thread(space, pid) || !process || process->space != space)
        return;
    if (!never_ran)
        trace_follow_emit(follow,
                          &(struct trace_event){.kind = TRACE_END, .pid = pid, .tid = pid, .status = status});
    trace_follow_drop_process(follow, process);
}

static void thread_trapped(struct trace_follow *follow, struct trace_follow_space *space,
                           struct trace_stop_thread *thread)
{
    if (thread->life & TRACE_FOLLOW_SET_GS)
        trace_follow_write_gs(thread);
    thread->life &= ~(uint32_t)TRACE_FOLLOW_SET_GS;
    if (thread->life & TRACE_FOLLOW_EXECED)
        image_started(follow, space, thread);
    else if ((thread->life & TRACE_FOLLOW_NEW) && !(thread->life & TRACE_FOLLOW_UNANNOUNCED))
        trace_follow_thread_created(follow, space, thread);
}

static struct trace_stop *stop_reported(void *context, struct trace_stop *stop, pid_t tid, int status)
{
    struct trace_follow *follow = context;
    struct trace_follow_space *space = (struct trace_follow_space *)stop;
    struct trace_stop_thread *thread = trace_stop_find(stop, tid);
    int event = WIFSTOPPED(status) ? EVENT(status) : -1;
    if (event < 0)
        thread_ended(follow, space, thread, status);
    else if (event == PTRACE_EVENT_STOP && thread->state == TRACE_STOP_STOPPED)
        thread_trapped(follow, space, thread);
    else if (event == PTRACE_EVENT_EXIT)
        first_thread_ending(follow, space, thread);
    else if (event == PTRACE_EVENT_EXEC)
        return &move_to_new_space(follow, space, thread->process)->stop;
    else if (event == PTRACE_EVENT_CLONE || event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK)
        trace_follow_announce(follow, space, tid, event);
    else if (event == 0 && WSTOPSIG(status) != (SIGTRAP | 0x80))
        TRACE_FOLLOW_COUNT(follow, thread->process, signals, 1);
    return stop;
}

/* --- the owner's calls --- */

static void resume_space(void *context, struct trace_stop *stop)
{
    trace_follow_resume(context, (struct trace_follow_space *)stop);
}

void trace_follow_begin(struct trace_follow *follow)
{
    *follow = (struct trace_follow){.follower = {.context = follow,
                                                 .on_status = stop_reported,
                                                 .on_found = trace_follow_found,
                                                 .resume = resume_space},
                                    .ends = epoll_create1(EPOLL_CLOEXEC)};
}

/* The space of the thread that called exec, in a process whose first thread had ended before it was followed:
 * `pid` is in no space yet. */
static struct trace_follow_space *find_exec_caller(struct trace_follow *follow, pid_t pid)
{
    unsigned long caller = 0;
    ptrace(PTRACE_GETEVENTMSG, pid, 0, &caller);
    struct trace_follow_space *space = trace_follow_find_space(follow, (pid_t)caller);
    space = space ? space : trace_follow_add_space(follow, pid);
    if (!space || trace_stop_add(&space->stop, pid, pid, TRACE_FOLLOW_NEW) < 0)
        follow->broken = true;
    return space;
}

int trace_follow_handle_status(struct trace_follow *follow, pid_t tid, int status)
{
    struct trace_follow_space *space = trace_follow_find_space(follow, tid);
    if (!space && WIFSTOPPED(status) && EVENT(status) == PTRACE_EVENT_EXEC)
        space = find_exec_caller(follow, tid);
    if (!space) {
        trace_follow_keep_orphan(follow, tid, status);
        return BASE_ENOTFOUND;
    }
    trace_stop_handle_status(&space->stop, tid, status);
    space = trace_follow_find_space(follow, tid); /* an exec moved it */
    if (space)
        trace_follow_settle(follow, space, tid);
    return BASE_OK;
}

bool trace_follow_poll(struct trace_follow *follow, uint64_t deadline, bool *ended)
{
    bool waits = end_overdue_exits(follow, deadline, ended);
    trace_follow_adopt_orphans(follow);
    trace_follow_drop_empty_spaces(follow);
    for (size_t i = 0; i < follow->space_count; i++) {
        struct trace_follow_space *space = follow->spaces[i];
        if (space->stop.holding && space->held_since < deadline) {
            trace_follow_release(follow, space);
            space->timed_out = *ended = true;
        }
        if (space->need_since && space->need_since < deadline) {
            trace_follow_serve_needs(follow, space, true);
            *ended = true;
        }
        waits = waits || space->stop.holding || space->need_since;
    }
    return waits || follow->orphan_count;
}

void trace_follow_detach_children(struct trace_follow_process *process)
{
    process->detaches_children = true;
}

/* --- costs --- */

static void add_time_so_far(const struct trace_follow_process *process, struct trace_cost *cost)
{
    uint64_t now = base_clock_now();
    cost->followed_ns += now - process->since;
    if (process->space->detached)
        cost->detached_ns += now - process->space->detached_since;
}

bool trace_follow_cost(const struct trace_follow *follow, pid_t pid, struct trace_cost *cost)
{
    const struct trace_follow_process *process = trace_follow_process(follow, pid);
    if (pid && !process)
        return false;
    *cost = pid ? process->cost : follow->total;
    for (size_t i = 0; i < follow->process_count; i++)
        if (!pid || follow->processes[i].pid == pid)
            add_time_so_far(&follow->processes[i], cost);
    return true;
}

/* --- the end --- */

bool trace_follow_awaits(const struct trace_follow *follow)
{
    for (size_t i = 0; i < follow->space_count; i++)
        if (trace_stop_awaits(&follow->spaces[i]->stop))
            return true;
    return false;
}

static void write_at_exit(const struct trace_follow_space *space)
{
    struct trace_memory memory = {.file = -1};
    pid_t tid = trace_follow_living(space);
    if (!space->exit_write || !tid || trace_memory_open(&memory, tid, NULL) < 0)
        return;
    for (int i = 0; i < TRIES && trace_memory_write(&memory, space->exit_write, &space->exit_value,
                                                    sizeof space->exit_value, NULL) < 0;
         i++)
        ;
    trace_memory_close(&memory);
}

void trace_follow_end(struct trace_follow *follow)
{
    for (size_t i = 0; i < follow->space_count; i++)
        write_at_exit(follow->spaces[i]);
    for (size_t i = 0; i < follow->space_count; i++) {
        struct trace_stop *stop = &follow->spaces[i]->stop;
        for (size_t j = 0; j < stop->count; j++)
            if (stop->threads[j].state == TRACE_STOP_STOPPED)
                trace_stop_detach(&stop->threads[j]);
        trace_follow_end_detached(follow, follow->spaces[i]);
        trace_follow_space_free(follow->spaces[i]);
        free(follow->spaces[i]);
    }
    close(follow->ends);
    free(follow->spaces);
    free(follow->processes);
    free(follow->orphans);
    free(follow->events);
    *follow = (struct trace_follow){0};
}
