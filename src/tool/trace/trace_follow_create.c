/* New threads and processes.
 *
 * The kernel reports each of them twice, in either order: the creator stops with an event that announces it,
 * and the new thread traps before its first instruction. A thread that traps unannounced waits as an orphan.
 * When both have come, the thread is given its gs base, or the process is held. After ORPHAN_NS the creator
 * is taken to have been killed, and /proc says whose child the orphan is. */
#include "trace_follow_inside.h"

#include <errno.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base_array.h"
#include "base_clock.h"
#include "proc_target.h"

#define ORPHAN_NS (20 * UINT64_C(1000000))

void trace_follow_hold_new(struct trace_follow_space *space)
{
    space->stop.holding = true;
    space->stop.attempts = 1;
    space->held_since = space->stop.began = base_clock_now();
}

void trace_follow_thread_created(struct trace_follow *follow, struct trace_follow_space *space,
                                 struct trace_stop_thread *thread)
{
    uint64_t gs;
    thread->life &= ~(uint32_t)(TRACE_FOLLOW_NEW | TRACE_FOLLOW_UNANNOUNCED);
    thread->life |= TRACE_FOLLOW_KNOWN;
    trace_stop_set_options(&space->stop, thread);
    if (thread->life & TRACE_FOLLOW_FORKED) {
        bool keeps = (thread->life & TRACE_FOLLOW_KEEPS_FORKER) != 0;
        if (!(thread->life & TRACE_FOLLOW_LEAVING)) {
            trace_follow_hold_new(space);
            trace_follow_emit(follow, &(struct trace_event){.kind = TRACE_FORK,
                                                            .pid = thread->process,
                                                            .tid = thread->tid,
                                                            .parent = trace_follow_parent_of(follow, thread),
                                                            .flags = keeps ? TRACE_FLAG_DETACHED : 0});
        }
        if (!keeps)
            trace_follow_resume_forker(follow, thread->creator);
        return;
    }
    if (thread->life & (TRACE_FOLLOW_VFORKED | TRACE_FOLLOW_LEAVING))
        return;
    TRACE_FOLLOW_COUNT(follow, thread->process, creations, 1);
    if (trace_follow_take_gs(space, &gs))
        trace_follow_start_thread(follow, thread, gs);
    else
        trace_follow_need_gs(follow, space, thread);
}

bool trace_follow_shares_memory(pid_t left, pid_t right, int event)
{
    long answer = syscall(SYS_kcmp, left, right, KCMP_VM, 0, 0);
    return answer < 0 && errno != ESRCH ? event == PTRACE_EVENT_VFORK : answer == 0;
}

static bool take_orphan(struct trace_follow *follow, pid_t tid, int *status)
{
    for (size_t i = 0; i < follow->orphan_count; i++) {
        if (follow->orphans[i].tid != tid)
            continue;
        *status = follow->orphans[i].status;
        follow->orphans[i] = follow->orphans[--follow->orphan_count];
        return true;
    }
    return false;
}

/* Adds the thread, which is about to trap; if it has trapped already, as an orphan, that is handled now. */
static void expect_thread(struct trace_follow *follow, struct trace_follow_space *space, pid_t process,
                          pid_t tid, pid_t creator, uint32_t life)
{
    int status;
    trace_stop_forget(&space->stop, tid); /* an ended one with the same number */
    if (trace_stop_add(&space->stop, process, tid, life) < 0) {
        follow->broken = true;
        return;
    }
    trace_stop_find(&space->stop, tid)->creator = creator;
    follow->expected = tid;
    if (take_orphan(follow, tid, &status)) {
        trace_stop_handle_status(&space->stop, tid, status);
        trace_follow_settle(follow, space, tid);
    }
}

/* A detached vfork child still runs in the memory of `space`, until it runs another image or ends: the
 * creator's record has its number, so that a hold waits for it. Returns `detaches`. */
static bool note_detached_vfork(struct trace_follow_space *space, pid_t creator, pid_t child, bool detaches)
{
    struct trace_stop_thread *thread = detaches ? trace_stop_find(&space->stop, creator) : NULL;
    if (thread)
        thread->detached_child = child;
    return detaches;
}

/* Adds a new process: in the memory of `space`, or in memory of its own. */
static void expect_process(struct trace_follow *follow, struct trace_follow_space *space, pid_t pid,
                           pid_t parent, pid_t creator, int event)
{
    bool shared = parent && trace_follow_shares_memory(creator, pid, event);
    const struct trace_follow_process *maker = trace_follow_process(follow, parent);
    bool leaving = maker && maker->leaving, detaches = maker && maker->detaches_children;
    uint32_t life = TRACE_FOLLOW_NEW;
    struct trace_follow_space *own = shared ? space : trace_follow_add_space(follow, pid);
    struct trace_follow_process *process = own ? trace_follow_add_process(follow, pid, own) : NULL;
    if (!process) {
        follow->broken = true;
        return;
    }
    process->parent = parent;
    life |= shared ? 0 : TRACE_FOLLOW_FORKED | (detaches && !leaving ? TRACE_FOLLOW_KEEPS_FORKER : 0);
    if (!shared && space) {
        own->exit_write = space->exit_write;
        own->exit_value = space->exit_value;
    }
    TRACE_FOLLOW_COUNT(follow, parent, forks, 1);
    if (shared && event == PTRACE_EVENT_VFORK) {
        life |= TRACE_FOLLOW_VFORKED;
        process->leaving = leaving;
        trace_follow_emit(follow, &(struct trace_event){.kind = TRACE_VFORK,
                                                        .pid = pid,
                                                        .tid = pid,
                                                        .parent = parent,
                                                        .flags = detaches ? TRACE_FLAG_DETACHED : 0});
        leaving = leaving || note_detached_vfork(space, creator, pid, detaches);
    }
    process->leaving = leaving;
    life |= leaving ? TRACE_FOLLOW_LEAVING : 0;
    struct trace_stop_thread *forker = !shared && space ? trace_stop_find(&space->stop, creator) : NULL;
    if (forker && forker->state != TRACE_STOP_GONE)
        trace_follow_keep_stopped(forker, TRACE_FOLLOW_FORKS);
    expect_thread(follow, own, pid, pid, creator, life);
}

/* A task that was killed and waited for before its creator stopped is no tracee any more: nothing more will
 * be reported of it. */
static bool is_traced(pid_t tid)
{
    siginfo_t unused;
    return !waitid(P_PID, (id_t)tid, &unused, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) ||
           errno != ECHILD;
}

void trace_follow_announce(struct trace_follow *follow, struct trace_follow_space *space, pid_t creator,
                           int event)
{
    unsigned long message = 0;
    if (ptrace(PTRACE_GETEVENTMSG, creator, 0, &message) && ptrace(PTRACE_GETEVENTMSG, creator, 0, &message))
        return; /* it was killed: the child will be an orphan */
    pid_t tid = (pid_t)message, process = trace_stop_find(&space->stop, creator)->process;
    struct trace_stop_thread *found = trace_stop_find(&space->stop, tid);
    if (found && found->state != TRACE_STOP_GONE) {
        bool waits = (found->life & TRACE_FOLLOW_UNANNOUNCED) != 0;
        found->life &= ~(uint32_t)TRACE_FOLLOW_UNANNOUNCED;
        found->creator = creator;
        if (waits && found->state == TRACE_STOP_STOPPED) {
            trace_follow_thread_created(follow, space, found);
            trace_follow_settle(follow, space, tid);
        }
        return;
    }
    if (trace_follow_process(follow, tid) || !is_traced(tid))
        return; /* adopted before, or it has ended */
    if (!proc_target_has_thread(process, tid)) {
        expect_process(follow, space, tid, process, creator, event);
        return;
    }
    uint32_t leaving = trace_stop_find(&space->stop, creator)->life & TRACE_FOLLOW_LEAVING;
    expect_thread(follow, space, process, tid, creator, TRACE_FOLLOW_NEW | leaving);
}

int trace_follow_found(void *context, struct trace_stop *stop, pid_t process, pid_t tid)
{
    struct trace_follow *follow = context;
    if (trace_follow_find_space(follow, tid))
        return 0;
    expect_thread(follow, (struct trace_follow_space *)stop, process, tid, 0,
                  TRACE_FOLLOW_NEW | TRACE_FOLLOW_UNANNOUNCED);
    return follow->broken ? BASE_ENOMEM : 1;
}

void trace_follow_keep_orphan(struct trace_follow *follow, pid_t tid, int status)
{
    int before;
    take_orphan(follow, tid, &before);
    if (!WIFSTOPPED(status))
        return;
    if (!base_array_room(follow->orphans, follow->orphan_count, follow->orphan_capacity)) {
        follow->broken = true;
        return;
    }
    follow->orphans[follow->orphan_count++] = (struct trace_follow_orphan){tid, status, base_clock_now()};
}

/* Nobody has announced it: /proc says whose child or thread it is. */
static void adopt_orphan(struct trace_follow *follow, pid_t tid)
{
    struct proc_target_facts facts;
    int status;
    if (proc_target_facts(tid, tid, &facts) < 0) {
        take_orphan(follow, tid, &status);
        return;
    }
    pid_t owner = facts.process == tid ? facts.parent : facts.process;
    const struct trace_follow_process *process = trace_follow_process(follow, owner);
    if (facts.process == tid)
        expect_process(follow, process ? process->space : NULL, tid, process ? owner : 0, process ? owner : 0,
                       PTRACE_EVENT_FORK);
    else if (process)
        expect_thread(follow, process->space, owner, tid, 0,
                      TRACE_FOLLOW_NEW | (process->leaving ? TRACE_FOLLOW_LEAVING : 0));
    else if (take_orphan(follow, tid, &status))
        ptrace(PTRACE_DETACH, tid, 0, 0); /* of a process that has just been left */
}

void trace_follow_adopt_orphans(struct trace_follow *follow)
{
    uint64_t now = base_clock_now();
    for (size_t i = follow->orphan_count; i-- > 0;)
        if (i < follow->orphan_count && now - follow->orphans[i].since > ORPHAN_NS)
            adopt_orphan(follow, follow->orphans[i].tid);
}
