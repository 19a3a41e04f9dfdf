#include "trace_step.h"

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>

/* Raised by an instruction, these would kill the program if they were blocked; the step itself is reported by
 * SIGTRAP. */
#define NEVER_BLOCKED                                                                                        \
    (1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1) | 1ull << (SIGFPE - 1) | 1ull << (SIGILL - 1) |            \
     1ull << (SIGTRAP - 1) | 1ull << (SIGSYS - 1))
#define TRIES 3 /* of restoring the mask */

bool trace_step_is_within(const struct trace_step_range *ranges, size_t count, uint64_t address)
{
    for (size_t i = 0; i < count; i++)
        if (address >= ranges[i].start && address < ranges[i].end)
            return true;
    return false;
}

/* 1: its pc is in a range, and it can be stepped; 0: it is outside. */
static int check_position(const struct trace_stop *stop, pid_t tid, const struct trace_step_range *ranges,
                          size_t count, struct base_error *error)
{
    struct user_regs_struct registers;
    int result = trace_stop_read(stop, tid, &registers, error);
    if (result < 0 || !trace_step_is_within(ranges, count, registers.rip))
        return result;
    bool restarts =
        (long)registers.orig_rax >= 0 && (long)registers.rax <= -512 && (long)registers.rax >= -516;
    if (restarts)
        return base_fail(error, BASE_EBUSY, "thread %d waits in a system call and cannot be moved", tid);
    return 1;
}

static bool is_step(pid_t tid, int status)
{
    siginfo_t info;
    return status >> 8 == SIGTRAP && !ptrace(PTRACE_GETSIGINFO, tid, 0, &info) && info.si_code == TRAP_TRACE;
}

/* One instruction, then the trap. 0: a signal was delivered first. */
static int step_once(struct trace_stop *stop, struct trace_stop_thread *thread, struct base_error *error)
{
    int status, result = trace_stop_step(thread, PTRACE_SINGLESTEP, 0, &status, error);
    if (result < 0)
        return result;
    bool stepped = is_step(thread->tid, status);
    result = trace_stop_settle(stop, thread, stepped ? TRACE_STOP_NO_SIGNAL : status, error);
    return result < 0 ? result : stepped;
}

static int step_while_inside(struct trace_stop *stop, struct trace_stop_thread *thread,
                             const struct trace_step_range *ranges, size_t count, struct base_error *error)
{
    int inside = 1;
    for (int i = 0; i < TRACE_STEP_MOST && inside > 0; i++) {
        int stepped = step_once(stop, thread, error);
        if (stepped < 0)
            return stepped;
        inside = check_position(stop, thread->tid, ranges, count, error);
        if (!stepped && inside >= 0)
            return base_fail(error, BASE_EBUSY, "thread %d was given a signal while it was moved",
                             thread->tid);
    }
    if (inside > 0)
        return base_fail(error, BASE_EBUSY, "thread %d does not leave the code that is to change",
                         thread->tid);
    return inside;
}

int trace_step_block_signals(pid_t tid, uint64_t *before)
{
    if (ptrace(PTRACE_GETSIGMASK, tid, (void *)sizeof *before, before))
        return -1;
    uint64_t blocked = ~(NEVER_BLOCKED & ~*before);
    return ptrace(PTRACE_SETSIGMASK, tid, (void *)sizeof blocked, &blocked) ? -1 : 0;
}

void trace_step_restore_signals(pid_t tid, uint64_t before)
{
    for (int i = 0; i < TRIES && ptrace(PTRACE_SETSIGMASK, tid, (void *)sizeof before, &before); i++)
        ;
}

int trace_step_out(struct trace_stop *stop, pid_t tid, const struct trace_step_range *ranges, size_t count,
                   struct base_error *error)
{
    uint64_t before;
    int result = check_position(stop, tid, ranges, count, error);
    if (result <= 0)
        return result;
    if (trace_step_block_signals(tid, &before))
        return base_fail_errno(error, errno, "signals of thread %d cannot be blocked", tid);
    result = step_while_inside(stop, trace_stop_find(stop, tid), ranges, count, error);
    trace_step_restore_signals(tid, before);
    return result;
}
