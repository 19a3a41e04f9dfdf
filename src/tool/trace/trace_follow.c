#include "base_clock.h"
#include "trace_follow_inside.h"

#include <errno.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base_array.h"
#include "base_wait.h"
#include "proc_privileges.h"
#include "proc_target.h"

#define MILLISECOND   1000000u
#define ORPHAN_NS     (20 * MILLISECOND)
#define EVENT(status) ((int)((unsigned)(status) >> 16))
#define LEAVE_LOOKS   50
#define LEAVE_NS      20000
#define TRIES         3 /* of what must not fail */
#define ENDING_NS     (200 * MILLISECOND)
#define FREED_NS      (50 * MILLISECOND)
#define FREED_LOOK_NS 100000

/* --- letting run --- */

static void free_forker(struct trace_follow *follow, pid_t tid);

/* Who stands until this one has been let go: it is now, or is not to be any more. 0: nobody. */
static pid_t take_kept_forker(struct trace_stop_thread *thread)
{
    pid_t forker = thread->life & TRACE_FOLLOW_KEEPS_FORKER ? thread->creator : 0;
    thread->life &= ~(uint32_t)TRACE_FOLLOW_KEEPS_FORKER;
    return forker;
}

/* A thread in the trap that nothing keeps there goes on, or away. */
static void settle(struct trace_follow *follow, struct trace_follow_space *space, pid_t tid)
{
    const uint32_t keeps =
        TRACE_FOLLOW_NEWBORN | TRACE_FOLLOW_NEEDS | TRACE_FOLLOW_WAITS | TRACE_FOLLOW_FORKS;
    struct trace_stop_thread *thread = trace_stop_find(&space->stop, tid);
    if (!thread || thread->state != TRACE_STOP_STOPPED)
        return;
    pid_t process = thread->process;
    if (thread->life & TRACE_FOLLOW_LEAVING) {
        pid_t forker = take_kept_forker(thread);
        trace_stop_detach(thread);
        if (thread->state == TRACE_STOP_GONE)
            trace_stop_forget(&space->stop, tid);
        if (!trace_follow_has_thread(space, process)) {
            struct trace_follow_process *record = trace_follow_process(follow, process);
            if (record && record->space == space)
                trace_follow_drop_process(follow, record);
        }
        free_forker(follow, forker);
    } else if (!space->stop.holding && !(thread->life & keeps)) {
        pid_t forker = take_kept_forker(thread);
        trace_stop_go(thread);
        free_forker(follow, forker);
    }
}

static void settle_all(struct trace_follow *follow, struct trace_follow_space *space)
{
    for (size_t i = space->stop.count; i-- > 0;)
        if (i < space->stop.count)
            settle(follow, space, space->stop.threads[i].tid);
}

static void resume(void *context, struct trace_stop *stop)
{
    stop->holding = false;
    settle_all(context, (struct trace_follow_space *)stop);
}

/* --- gs bases --- */

static int set_gs(const struct trace_stop_thread *thread)
{
    for (int i = 0; i < TRIES; i++)
        if (!ptrace(PTRACE_POKEUSER, thread->tid, offsetof(struct user, regs.gs_base), thread->gs))
            return BASE_OK;
    return errno == ESRCH ? BASE_OK : BASE_EIO; /* killed: it will not run */
}

static bool take_gs(struct trace_follow_space *space, uint64_t *gs)
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

/* Of whose process the creator was. */
static pid_t parent_of(const struct trace_follow *follow, const struct trace_stop_thread *thread)
{
    const struct trace_follow_process *process = trace_follow_process(follow, thread->process);
    return thread->tid == thread->process && process ? process->parent : thread->process;
}

/* Creators whose children have what they needed go on. */
static void free_creators(struct trace_follow *follow, struct trace_follow_space *space)
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
        settle(follow, space, tid);
    }
}

/* The thread stands in its first trap, or in need. */
static void start_with(struct trace_follow *follow, struct trace_stop_thread *thread, uint64_t gs)
{
    thread->gs = gs == TRACE_GS_KEEP ? 0 : gs;
    thread->life &= ~(uint32_t)TRACE_FOLLOW_NEEDS;
    if (gs != TRACE_GS_KEEP)
        set_gs(thread);
    trace_follow_emit_thread(follow, TRACE_CREATED, thread, parent_of(follow, thread));
}

/* Its next stop comes before it runs another instruction of the program. */
static void stand(struct trace_stop_thread *thread, enum trace_follow_life why)
{
    thread->life |= (uint32_t)why;
    if (thread->state == TRACE_STOP_RUNNING && !thread->interrupted)
        trace_stop_interrupt(thread);
}

static void need(struct trace_follow *follow, struct trace_follow_space *space,
                 struct trace_stop_thread *thread)
{
    struct trace_stop_thread *creator = trace_stop_find(&space->stop, thread->creator);
    thread->life |= TRACE_FOLLOW_NEEDS;
    space->need_since = base_clock_now();
    if (creator && creator->state != TRACE_STOP_GONE)
        stand(creator, TRACE_FOLLOW_WAITS);
    trace_follow_emit_thread(follow, TRACE_NEED, thread, parent_of(follow, thread));
}

static void feed(struct trace_follow *follow, struct trace_follow_space *space, bool with_nothing)
{
    uint64_t gs = 0;
    bool in_need = false;
    for (size_t i = 0; i < space->stop.count; i++) {
        struct trace_stop_thread *thread = &space->stop.threads[i];
        if (!(thread->life & TRACE_FOLLOW_NEEDS) || thread->state != TRACE_STOP_STOPPED)
            continue;
        in_need = !take_gs(space, &gs);
        if (in_need && !with_nothing)
            break;
        start_with(follow, thread, in_need ? 0 : gs);
        in_need = false;
    }
    space->need_since = in_need ? space->need_since : 0;
    free_creators(follow, space);
    settle_all(follow, space);
}

/* Nothing that was given before, or that is given later, is anybody's. */
static void drop_around_keep(struct trace_follow_space *space)
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
    drop_around_keep(space);
    if (space->need_since) /* else nobody stands for it */
        feed(follow, space, false);
    return BASE_OK;
}

int trace_follow_set_gs(struct trace_follow *follow, pid_t tid, uint64_t gs, struct base_error *error)
{
    struct trace_follow_space *space = trace_follow_find_space(follow, tid);
    struct trace_stop_thread *thread = space ? trace_stop_find(&space->stop, tid) : NULL;
    if (!thread)
        return base_fail(error, BASE_ENOTFOUND, "no thread %d is followed", tid);
    if (thread->state != TRACE_STOP_STOPPED && thread->state != TRACE_STOP_KERNEL)
        return base_fail(error, BASE_EUSAGE, "thread %d does not stand", tid);
    uint64_t before = thread->gs;
    thread->gs = gs;
    if (thread->state == TRACE_STOP_KERNEL) {
        thread->life |= TRACE_FOLLOW_SET_GS;
        return BASE_OK;
    }
    if (set_gs(thread) == BASE_OK)
        return BASE_OK;
    thread->gs = before;
    return base_fail_errno(error, errno, "gs base of thread %d cannot be set", tid);
}

/* What it has, or what it was given last if it cannot be asked: asleep in the kernel, or killed. */
static uint64_t gs_of(const struct trace_stop_thread *thread)
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
        uint64_t gs = thread->state != TRACE_STOP_GONE ? gs_of(thread) : 0;
        if (!gs || !trace_step_is_within(ranges, count, gs + offset))
            continue;
        thread->gs = 0;
        if (thread->state == TRACE_STOP_KERNEL)
            thread->life |= TRACE_FOLLOW_SET_GS;
        else if (set_gs(thread) < 0) {
            thread->gs = gs;
            result = base_fail_errno(error, errno, "gs base of thread %d cannot be set", thread->tid);
        }
    }
    return result;
}

/* --- births --- */

/* Its only thread stands. */
static void hold_new(struct trace_follow_space *space)
{
    space->stop.holding = true;
    space->stop.attempts = 1;
    space->held_since = space->stop.began = base_clock_now();
}

/* Who forked goes on. */
static void free_forker(struct trace_follow *follow, pid_t tid)
{
    struct trace_follow_space *space = tid ? trace_follow_find_space(follow, tid) : NULL;
    if (!space)
        return;
    trace_stop_find(&space->stop, tid)->life &= ~(uint32_t)TRACE_FOLLOW_FORKS;
    settle(follow, space, tid);
}

/* It stands in its first trap, and its creator is known as far as it can be. */
static void be_created(struct trace_follow *follow, struct trace_follow_space *space,
                       struct trace_stop_thread *thread)
{
    uint64_t gs;
    thread->life &= ~(uint32_t)(TRACE_FOLLOW_NEWBORN | TRACE_FOLLOW_UNANNOUNCED);
    thread->life |= TRACE_FOLLOW_KNOWN;
    trace_stop_set_options(&space->stop, thread);
    if (thread->life & TRACE_FOLLOW_FORKED) {
        bool keeps = (thread->life & TRACE_FOLLOW_KEEPS_FORKER) != 0;
        if (!(thread->life & TRACE_FOLLOW_LEAVING)) {
            hold_new(space);
            trace_follow_emit(follow, &(struct trace_event){.kind = TRACE_FORK,
                                                            .pid = thread->process,
                                                            .tid = thread->tid,
                                                            .parent = parent_of(follow, thread),
                                                            .flags = keeps ? TRACE_FLAG_FREED : 0});
        }
        if (!keeps)
            free_forker(follow, thread->creator);
        return;
    }
    if (thread->life & (TRACE_FOLLOW_VFORKED | TRACE_FOLLOW_LEAVING))
        return;
    TRACE_FOLLOW_COUNT(follow, thread->process, creations, 1);
    if (take_gs(space, &gs))
        start_with(follow, thread, gs);
    else
        need(follow, space, thread);
}

/* Where the kernel does not tell (no CONFIG_KCMP), a vfork child does and a fork child does not. */
static bool shares_memory(pid_t left, pid_t right, int event)
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

/* The thread is in the table, or is added; if it trapped before, that counts now. */
static void expect(struct trace_follow *follow, struct trace_follow_space *space, pid_t process, pid_t tid,
                   pid_t creator, uint32_t life)
{
    int status;
    trace_stop_forget(&space->stop, tid); /* another one, that is gone */
    if (trace_stop_add(&space->stop, process, tid, life) < 0) {
        follow->broken = true;
        return;
    }
    trace_stop_find(&space->stop, tid)->creator = creator;
    follow->expected = tid;
    if (take_orphan(follow, tid, &status)) {
        trace_stop_take(&space->stop, tid, status);
        settle(follow, space, tid);
    }
}

/* Let go, a vfork child runs in the memory of `space` still, until it runs another image or ends. */
static bool free_vforked(struct trace_follow_space *space, pid_t creator, pid_t child, bool frees)
{
    struct trace_stop_thread *thread = frees ? trace_stop_find(&space->stop, creator) : NULL;
    if (thread)
        thread->freed = child;
    return frees;
}

/* A process of its own: in the memory of `space`, or in another. */
static void expect_process(struct trace_follow *follow, struct trace_follow_space *space, pid_t pid,
                           pid_t parent, pid_t creator, int event)
{
    bool shared = parent && shares_memory(creator, pid, event);
    const struct trace_follow_process *maker = trace_follow_process(follow, parent);
    bool leaving = maker && maker->leaving, frees = maker && maker->frees;
    uint32_t life = TRACE_FOLLOW_NEWBORN;
    struct trace_follow_space *own = shared ? space : trace_follow_add_space(follow, pid);
    struct trace_follow_process *process = own ? trace_follow_add_process(follow, pid, own) : NULL;
    if (!process) {
        follow->broken = true;
        return;
    }
    process->parent = parent;
    life |= shared ? 0 : TRACE_FOLLOW_FORKED | (frees && !leaving ? TRACE_FOLLOW_KEEPS_FORKER : 0);
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
                                                        .flags = frees ? TRACE_FLAG_FREED : 0});
        leaving = leaving || free_vforked(space, creator, pid, frees);
    }
    process->leaving = leaving;
    life |= leaving ? TRACE_FOLLOW_LEAVING : 0;
    struct trace_stop_thread *forker = !shared && space ? trace_stop_find(&space->stop, creator) : NULL;
    if (forker && forker->state != TRACE_STOP_GONE)
        stand(forker, TRACE_FOLLOW_FORKS);
    expect(follow, own, pid, pid, creator, life);
}

/* What was killed and waited for before its creator stopped is nobody's: nothing more will be told of it. */
static bool is_traced(pid_t tid)
{
    siginfo_t unused;
    return !waitid(P_PID, (id_t)tid, &unused, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) ||
           errno != ECHILD;
}

/* A creator's event. */
static void announce(struct trace_follow *follow, struct trace_follow_space *space, pid_t creator, int event)
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
            be_created(follow, space, found);
            settle(follow, space, tid);
        }
        return;
    }
    if (trace_follow_process(follow, tid) || !is_traced(tid))
        return; /* /proc told of it before, or it has ended */
    if (!proc_target_has_thread(process, tid)) {
        expect_process(follow, space, tid, process, creator, event);
        return;
    }
    uint32_t leaving = trace_stop_find(&space->stop, creator)->life & TRACE_FOLLOW_LEAVING;
    expect(follow, space, process, tid, creator, TRACE_FOLLOW_NEWBORN | leaving);
}

/* A stop found it before anybody announced it. */
static int found(void *context, struct trace_stop *stop, pid_t process, pid_t tid)
{
    struct trace_follow *follow = context;
    if (trace_follow_find_space(follow, tid))
        return 0;
    expect(follow, (struct trace_follow_space *)stop, process, tid, 0,
           TRACE_FOLLOW_NEWBORN | TRACE_FOLLOW_UNANNOUNCED);
    return follow->broken ? BASE_ENOMEM : 1;
}

/* --- orphans --- */

static void keep_orphan(struct trace_follow *follow, pid_t tid, int status)
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

/* Nobody announced it: /proc tells whose it is. */
static void adopt(struct trace_follow *follow, pid_t tid)
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
        expect(follow, process->space, owner, tid, 0,
               TRACE_FOLLOW_NEWBORN | (process->leaving ? TRACE_FOLLOW_LEAVING : 0));
    else if (take_orphan(follow, tid, &status))
        ptrace(PTRACE_DETACH, tid, 0, 0); /* of a process that was left in this moment */
}

static void adopt_orphans(struct trace_follow *follow)
{
    uint64_t now = base_clock_now();
    for (size_t i = follow->orphan_count; i-- > 0;)
        if (i < follow->orphan_count && now - follow->orphans[i].since > ORPHAN_NS)
            adopt(follow, follow->orphans[i].tid);
}

/* --- execs --- */

static uint64_t privilege_flags(pid_t pid)
{
    enum proc_privileges privileges = proc_privileges_of(pid);
    return privileges == PROC_PRIVILEGES_LOST      ? TRACE_FLAG_PRIVILEGES_LOST
           : privileges == PROC_PRIVILEGES_UNKNOWN ? TRACE_FLAG_PRIVILEGES_UNKNOWN
                                                   : 0;
}

static void arrive_in_image(struct trace_follow *follow, struct trace_follow_space *space,
                            struct trace_stop_thread *thread)
{
    thread->life &= ~(uint32_t)TRACE_FOLLOW_EXECED;
    trace_stop_set_options(&space->stop, thread);
    if (thread->life & TRACE_FOLLOW_LEAVING)
        return;
    hold_new(space);
    trace_follow_emit(follow, &(struct trace_event){.kind = TRACE_EXEC,
                                                    .pid = thread->process,
                                                    .tid = thread->tid,
                                                    .flags = privilege_flags(thread->process)});
}

/* The process is alone in a new memory. The answer is its space, or the old one when memory ran out. */
static struct trace_follow_space *become(struct trace_follow *follow, struct trace_follow_space *old,
                                         pid_t pid)
{
    bool leaving = false;
    for (size_t i = 0; i < old->stop.count; i++) {
        struct trace_stop_thread *thread = &old->stop.threads[i];
        if (thread->process != pid || thread->state == TRACE_STOP_GONE)
            continue;
        leaving = leaving || (thread->life & TRACE_FOLLOW_LEAVING);
        trace_follow_thread_ended(follow, thread);
    }
    free_creators(follow, old);
    struct trace_follow_process *process = trace_follow_process(follow, pid);
    struct trace_follow_space *space = trace_follow_add_space(follow, pid);
    process = process || !space ? process : trace_follow_add_process(follow, pid, space);
    uint32_t life = TRACE_FOLLOW_KNOWN | TRACE_FOLLOW_EXECED | (leaving ? TRACE_FOLLOW_LEAVING : 0);
    if (!space || !process || trace_stop_add(&space->stop, pid, pid, life) < 0) {
        follow->broken = true;
        return old;
    }
    process->space = space;
    process->frees = false;
    TRACE_FOLLOW_COUNT(follow, pid, execs, 1);
    return space;
}

/* --- ends --- */

void trace_follow_report_endings(struct trace_follow *follow)
{
    follow->follower.first_options = PTRACE_O_TRACEEXIT;
}

static void leave_life(pid_t tid)
{
    for (int i = 0; i < TRIES && ptrace(PTRACE_CONT, tid, 0, 0); i++)
        ; /* one that was killed goes by itself */
}

void trace_follow_let_end(struct trace_follow_process *process)
{
    if (process->ending_since)
        leave_life(process->pid);
    process->ending_since = 0;
}

/* A first thread stands in its exit: nothing of the program runs on it any more, and the memory is there
 * still. */
static void about_to_end(struct trace_follow *follow, const struct trace_follow_space *space,
                         struct trace_stop_thread *thread)
{
    struct trace_follow_process *process = trace_follow_process(follow, thread->process);
    thread->state = TRACE_STOP_KERNEL;
    if (!process || process->leaving || process->space != space || thread->tid != process->pid) {
        leave_life(thread->tid);
        return;
    }
    process->ending_since = base_clock_now();
    trace_follow_emit_thread(follow, TRACE_ENDING, thread, 0);
}

/* Returns whether one waits still. */
static bool let_end_late(struct trace_follow *follow, uint64_t deadline, bool *ended)
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

/* --- what the stops tell --- */

static void end_thread(struct trace_follow *follow, struct trace_follow_space *space,
                       struct trace_stop_thread *thread, int status)
{
    pid_t pid = thread->process;
    bool unborn = (thread->life & (TRACE_FOLLOW_NEWBORN | TRACE_FOLLOW_VFORKED)) == TRACE_FOLLOW_NEWBORN;
    bool needed = (thread->life & TRACE_FOLLOW_NEEDS) != 0;
    bool forked = (thread->life & TRACE_FOLLOW_FORKED) != 0;
    pid_t creator = thread->creator, kept = take_kept_forker(thread);
    trace_follow_thread_ended(follow, thread);
    if (needed)
        free_creators(follow, space);
    free_forker(follow, unborn && forked ? creator : kept);
    struct trace_follow_process *process = trace_follow_process(follow, pid);
    if (trace_follow_has_thread(space, pid) || !process || process->space != space)
        return;
    if (!unborn)
        trace_follow_emit(follow,
                          &(struct trace_event){.kind = TRACE_END, .pid = pid, .tid = pid, .status = status});
    trace_follow_drop_process(follow, process);
}

static void arrive(struct trace_follow *follow, struct trace_follow_space *space,
                   struct trace_stop_thread *thread)
{
    if (thread->life & TRACE_FOLLOW_SET_GS)
        set_gs(thread);
    thread->life &= ~(uint32_t)TRACE_FOLLOW_SET_GS;
    if (thread->life & TRACE_FOLLOW_EXECED)
        arrive_in_image(follow, space, thread);
    else if ((thread->life & TRACE_FOLLOW_NEWBORN) && !(thread->life & TRACE_FOLLOW_UNANNOUNCED))
        be_created(follow, space, thread);
}

static struct trace_stop *published(void *context, struct trace_stop *stop, pid_t tid, int status)
{
    struct trace_follow *follow = context;
    struct trace_follow_space *space = (struct trace_follow_space *)stop;
    struct trace_stop_thread *thread = trace_stop_find(stop, tid);
    int event = WIFSTOPPED(status) ? EVENT(status) : -1;
    if (event < 0)
        end_thread(follow, space, thread, status);
    else if (event == PTRACE_EVENT_STOP && thread->state == TRACE_STOP_STOPPED)
        arrive(follow, space, thread);
    else if (event == PTRACE_EVENT_EXIT)
        about_to_end(follow, space, thread);
    else if (event == PTRACE_EVENT_EXEC)
        return &become(follow, space, thread->process)->stop;
    else if (event == PTRACE_EVENT_CLONE || event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK)
        announce(follow, space, tid, event);
    else if (event == 0 && WSTOPSIG(status) != (SIGTRAP | 0x80))
        TRACE_FOLLOW_COUNT(follow, thread->process, signals, 1);
    return stop;
}

/* --- the owner's calls --- */

void trace_follow_begin(struct trace_follow *follow)
{
    *follow = (struct trace_follow){
        .follower = {.context = follow, .published = published, .found = found, .resume = resume},
        .ends = epoll_create1(EPOLL_CLOEXEC)};
}

/* An exec of a process whose first thread had ended before it was followed: the number is new to us. */
static struct trace_follow_space *find_caller(struct trace_follow *follow, pid_t pid)
{
    unsigned long caller = 0;
    ptrace(PTRACE_GETEVENTMSG, pid, 0, &caller);
    struct trace_follow_space *space = trace_follow_find_space(follow, (pid_t)caller);
    space = space ? space : trace_follow_add_space(follow, pid);
    if (!space || trace_stop_add(&space->stop, pid, pid, TRACE_FOLLOW_NEWBORN) < 0)
        follow->broken = true;
    return space;
}

int trace_follow_take(struct trace_follow *follow, pid_t tid, int status)
{
    struct trace_follow_space *space = trace_follow_find_space(follow, tid);
    if (!space && WIFSTOPPED(status) && EVENT(status) == PTRACE_EVENT_EXEC)
        space = find_caller(follow, tid);
    if (!space) {
        keep_orphan(follow, tid, status);
        return BASE_ENOTFOUND;
    }
    trace_stop_take(&space->stop, tid, status);
    space = trace_follow_find_space(follow, tid); /* an exec moved it */
    if (space)
        settle(follow, space, tid);
    return BASE_OK;
}

bool trace_follow_poll(struct trace_follow *follow, uint64_t deadline, bool *ended)
{
    bool waits = let_end_late(follow, deadline, ended);
    adopt_orphans(follow);
    trace_follow_drop_empty_spaces(follow);
    for (size_t i = 0; i < follow->space_count; i++) {
        struct trace_follow_space *space = follow->spaces[i];
        if (space->stop.holding && space->held_since < deadline) {
            trace_follow_release(follow, space);
            space->impatient = *ended = true;
        }
        if (space->need_since && space->need_since < deadline) {
            feed(follow, space, true);
            *ended = true;
        }
        waits = waits || space->stop.holding || space->need_since;
    }
    return waits || follow->orphan_count;
}

/* --- following and leaving --- */

/* The space that the process runs in: one that is known, if it shares it. */
static struct trace_follow_space *space_for(struct trace_follow *follow, pid_t pid)
{
    for (size_t i = 0; i < follow->space_count; i++) {
        pid_t living = trace_follow_living(follow->spaces[i]);
        if (living && shares_memory(living, pid, 0))
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

/* A child that runs in the memory of a process that was not followed when it was born. Without a record, or
 * when it cannot be seized, it is as if nobody knew of it; it is about to end or to exec. */
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

/* Kernels without CONFIG_PROC_CHILDREN do not tell. */
static void add_vforked_of(struct trace_follow *follow, struct trace_follow_space *space, pid_t parent,
                           pid_t creator)
{
    char path[96];
    int child;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", parent, creator);
    FILE *file = fopen(path, "re");
    while (file && fscanf(file, "%d", &child) == 1)
        if (shares_memory(creator, child, 0))
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
            i++; /* where it stands now */
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

/* They need no leaving. */
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
            trace_follow_take(follow, space->stop.threads[i].tid, status);
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
    settle_all(follow, space);
    for (int i = 0; i < LEAVE_LOOKS && (left = look_at_leaving(follow, space, pid)); i++)
        nanosleep(&(struct timespec){0, LEAVE_NS}, NULL);
    return left;
}

/* --- holding --- */

int trace_follow_open_memory(struct trace_follow_space *space, struct base_error *error)
{
    if (space->memory.file >= 0)
        return BASE_OK;
    return trace_memory_open(&space->memory, trace_follow_living(space), error);
}

/* What only this stop found. */
static void report_found(struct trace_follow *follow, struct trace_follow_space *space)
{
    for (size_t i = 0; i < space->stop.count; i++) {
        struct trace_stop_thread *thread = &space->stop.threads[i];
        if (thread->state == TRACE_STOP_GONE)
            continue;
        if (thread->life & TRACE_FOLLOW_UNANNOUNCED) {
            if (thread->state == TRACE_STOP_STOPPED)
                be_created(follow, space, thread);
        } else if (!(thread->life & (TRACE_FOLLOW_KNOWN | TRACE_FOLLOW_NEWBORN))) {
            thread->life |= TRACE_FOLLOW_KNOWN;
            trace_follow_emit_thread(follow, TRACE_FOUND, thread, 0);
        }
    }
}

/* Who waits for a vfork child will not stop before it, and need not be waited for. */
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

/* Vfork children that were let go run the same text, and cannot be stopped. */
static int await_freed(struct trace_follow_space *space, struct base_error *error)
{
    uint64_t began = base_clock_now();
    for (size_t i = 0; i < space->stop.count; i++) {
        struct trace_stop_thread *thread = &space->stop.threads[i];
        while (thread->freed && thread->state != TRACE_STOP_GONE &&
               shares_memory(thread->tid, thread->freed, PTRACE_EVENT_VFORK)) {
            if (base_clock_now() - began > FREED_NS)
                return base_fail(error, BASE_EBUSY, "process %d, which is not followed, runs in its memory",
                                 thread->freed);
            nanosleep(&(struct timespec){0, FREED_LOOK_NS}, NULL);
        }
        thread->freed = 0;
    }
    return BASE_OK;
}

int trace_follow_hold(struct trace_follow *follow, struct trace_follow_space *space, struct base_error *error)
{
    int result = BASE_OK;
    space->impatient = false;
    result = trace_follow_reattach(follow, space, error);
    if (result == BASE_OK && !space->stop.holding)
        result = await_freed(space, error);
    if (result == BASE_OK && !space->stop.holding) {
        accept_vfork_parents(space);
        result = trace_stop_begin(&space->stop, space->stop.pid, error);
        space->held_since = base_clock_now();
    }
    if (result < 0)
        return result;
    report_found(follow, space);
    result = trace_follow_open_memory(space, error);
    if (result < 0)
        resume(follow, &space->stop);
    return result;
}

void trace_follow_release(struct trace_follow *follow, struct trace_follow_space *space)
{
    trace_memory_close(&space->memory);
    TRACE_FOLLOW_COUNT(follow, space->stop.pid, stopped_ns, base_clock_now() - space->stop.began);
    resume(follow, &space->stop);
}

void trace_follow_free_children(struct trace_follow_process *process)
{
    process->frees = true;
}

/* --- costs --- */

static void add_running(const struct trace_follow_process *process, struct trace_cost *cost)
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
            add_running(&follow->processes[i], cost);
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
