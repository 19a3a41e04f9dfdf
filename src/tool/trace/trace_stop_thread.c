/* One thread: how its stops are handled, how it is resumed or detached, and its registers.
 *
 * The target must not notice a stop, so the thread keeps its system call and its signals: a call that answers
 * EINTR to any stop is restarted, a signal is delivered before the trap, and the tick of an agent's timer
 * that would make EINTR of a call which only our stop has interrupted is dropped. */
#include "trace_stop_inside.h"

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "base_clock.h"
#include "base_wait.h"
#include "proc_target.h"
#include "trace_x86_64_call.h"
#include "wire_agent_timer.h"

#define EVENT(status) ((int)((unsigned)(status) >> 16))
#define REST_NS       20000 /* a thread stops in 30 to 150 us */
#define REQUEST_TRIES 3     /* of what must not fail: resuming and detaching */
#define CUT_TRIES     9     /* to take a signal; each waits twice as long as the one before */
#define SIGNAL_NS     UINT64_C(2000000)
#define TRAP_NS       UINT64_C(200000000)

void trace_stop_rest(void)
{
    base_clock_sleep(REST_NS);
}

void trace_stop_interrupt(struct trace_stop_thread *thread)
{
    for (int i = 0; i < REQUEST_TRIES; i++) {
        if (!ptrace(PTRACE_INTERRUPT, thread->tid, 0, 0)) {
            thread->interrupted = true;
            return;
        }
    }
    /* The thread is ending; if it is not, the stop finds it missing. */
}

/* A call that answers EINTR to any stop is restarted, unless a handler runs first. */
static int restart_call(const struct trace_stop_thread *thread, struct user_regs_struct *registers)
{
    if (!trace_x86_64_call_restart(registers))
        return BASE_OK;
    for (int i = 0; i < REQUEST_TRIES; i++)
        if (!ptrace(PTRACE_SETREGS, thread->tid, 0, registers))
            return BASE_OK;
    return BASE_EIO;
}

/* The thread is in the trap: notes what it was doing, and restarts an interrupted call. */
static int thread_trapped(struct trace_stop_thread *thread)
{
    struct user_regs_struct registers;
    thread->state = TRACE_STOP_STOPPED;
    thread->interrupted = true;
    thread->in_call = false;
    if (ptrace(PTRACE_GETREGS, thread->tid, 0, &registers) &&
        ptrace(PTRACE_GETREGS, thread->tid, 0, &registers)) {
        thread->state =
            errno == ESRCH ? TRACE_STOP_RUNNING : TRACE_STOP_STOPPED; /* killed: its end will be reported */
        return errno == ESRCH ? BASE_OK : BASE_EIO;
    }
    thread->pc = registers.rip;
    thread->sp = registers.rsp;
    if (trace_x86_64_call_is_32_bit(&registers))
        return BASE_EUNSUPPORTED;
    thread->in_call = (long)registers.orig_rax >= 0;
    return restart_call(thread, &registers);
}

/* A timer of the agent's (agent_timer.c) ends no call by itself, since it expires behind the call. But a stop
 * of ours may come before that and interrupt the call; the handler would then make EINTR of it. So the signal
 * is dropped, and the kernel continues the call. The timer is not armed again, as when the handler finds an
 * EINTR that it cannot explain. */
static bool would_cut_call(const siginfo_t *info, const struct user_regs_struct *registers)
{
    return info->si_code == SI_TIMER &&
           (uint64_t)(uintptr_t)info->si_value.sival_ptr >> 32 == WIRE_AGENT_TIMER_VALUE(0) >> 32 &&
           trace_x86_64_call_is_cut(registers);
}

bool trace_stop_drops_signal(pid_t tid, const struct user_regs_struct *registers)
{
    siginfo_t info;
    return !ptrace(PTRACE_GETSIGINFO, tid, 0, &info) && would_cut_call(&info, registers);
}

/* A thread is stopped to receive `signal` (0: for another reason): it receives it and goes on. If the trap
 * was requested, it must be requested again, since any stop cancels the request; the thread then traps before
 * it runs an instruction. */
static int deliver_signal(struct trace_stop *stop, struct trace_stop_thread *thread, int signal)
{
    struct user_regs_struct registers;
    stop->delivered++;
    bool known = signal && !ptrace(PTRACE_GETREGS, thread->tid, 0, &registers);
    if (thread->interrupted)
        trace_stop_interrupt(thread);
    else if (known)
        restart_call(thread,
                     &registers); /* untraced, a signal that is ignored would not even have woken it */
    if (known && trace_stop_drops_signal(thread->tid, &registers))
        signal = 0;
    for (int i = 0; i < REQUEST_TRIES; i++)
        if (!ptrace(PTRACE_CONT, thread->tid, 0, signal))
            return BASE_OK;
    return errno == ESRCH ? BASE_OK : BASE_EIO; /* killed meanwhile */
}

int trace_stop_take_status(struct trace_stop *stop, pid_t tid, int status)
{
    struct trace_stop_thread *thread = trace_stop_find(stop, tid);
    bool is_trap = WIFSTOPPED(status) && EVENT(status) == PTRACE_EVENT_STOP;
    int result = BASE_OK;
    if (!WIFSTOPPED(status))
        thread->state = TRACE_STOP_GONE;
    if (is_trap) {
        thread->was_stopped = WSTOPSIG(status) != SIGTRAP;
        result = thread_trapped(thread);
    }
    if (stop->follower)
        stop = stop->follower->on_status(stop->follower->context, stop, tid, status);
    thread = trace_stop_find(stop, tid);
    if (!WIFSTOPPED(status) || is_trap || !thread || EVENT(status) == PTRACE_EVENT_EXIT)
        return result;
    bool is_signal = EVENT(status) == 0 && WSTOPSIG(status) != (SIGTRAP | 0x80);
    return deliver_signal(stop, thread, is_signal ? WSTOPSIG(status) : 0);
}

int trace_stop_wait_once(struct trace_stop *stop, pid_t tid)
{
    int status;
    pid_t got = base_wait(tid, &status, __WALL | WNOHANG);
    if (got == 0 || (got < 0 && errno != ECHILD))
        return 0;
    if (got < 0)
        status = 0; /* no child or tracee: it has ended */
    int result = trace_stop_take_status(stop, tid, status);
    return result < 0 ? result : 1;
}

/* Is such a signal pending for the thread, which is stopped in the trap, and not blocked? */
static bool has_pending_cut(const struct trace_stop_thread *thread)
{
    struct user_regs_struct registers;
    siginfo_t info[8];
    struct __ptrace_peeksiginfo_args from = {.nr = sizeof info / sizeof *info};
    uint64_t blocked;
    long count = thread->in_call ? ptrace(PTRACE_PEEKSIGINFO, thread->tid, &from, info) : 0;
    if (count <= 0 || ptrace(PTRACE_GETREGS, thread->tid, 0, &registers) ||
        ptrace(PTRACE_GETSIGMASK, thread->tid, (void *)sizeof blocked, &blocked))
        return false;
    for (long i = 0; i < count; i++)
        if (would_cut_call(&info[i], &registers) && !(blocked >> (info[i].si_signo - 1) & 1))
            return true;
    return false;
}

/* False: it has not stopped, or has ended (its state says so). */
static bool await_stop(struct trace_stop_thread *thread, uint64_t most_ns, int *status)
{
    const uint64_t began = base_clock_now();
    pid_t got;
    while ((got = base_wait(thread->tid, status, __WALL | WNOHANG)) == 0 || (got < 0 && errno == EINTR)) {
        if (base_clock_now() - began >= most_ns)
            return false;
        trace_stop_rest();
    }
    if (got > 0 && WIFSTOPPED(*status))
        return true;
    thread->state = TRACE_STOP_GONE;
    return false;
}

/* Continues the thread up to its first signal, for `most_ns`. The signal of a timer that was deleted or set anew
 * after it had expired is an entry of the queue and no more (Linux 6.13): the kernel drops it, and the thread goes
 * on, perhaps to wait for one that is held. So then it is stopped as usual. False: as await_stop; one that still
 * runs will stop. */
static bool continue_to_signal(struct trace_stop_thread *thread, uint64_t most_ns, int *status)
{
    if (ptrace(PTRACE_CONT, thread->tid, 0, 0))
        return false;
    if (await_stop(thread, most_ns, status))
        return true;
    if (thread->state == TRACE_STOP_GONE)
        return false;
    trace_stop_interrupt(thread);
    if (await_stop(thread, TRAP_NS, status))
        return true;
    if (thread->state != TRACE_STOP_GONE)
        thread->state = TRACE_STOP_RUNNING;
    return false;
}

/* A detached thread would get the timer's signal with no one to drop it. So the thread is continued up to its
 * first pending signal, and detached with that signal, or without it if it is the timer's. If the first
 * signal is another one, the timer's stays behind it: the other's handler ends the call anyway, or that
 * signal is ignored. Without PTRACE_INTERRUPT at first, since the trap would come before the signal, each time. */
static int take_first_signal(struct trace_stop_thread *thread)
{
    struct user_regs_struct registers;
    int status;
    for (int i = 0; i < CUT_TRIES && !thread->was_stopped && has_pending_cut(thread); i++) {
        if (!continue_to_signal(thread, SIGNAL_NS << i, &status))
            return 0;
        if (EVENT(status) == 0) {
            bool known = !ptrace(PTRACE_GETREGS, thread->tid, 0, &registers);
            return known && trace_stop_drops_signal(thread->tid, &registers) ? 0 : WSTOPSIG(status);
        }
        if (EVENT(status) != PTRACE_EVENT_STOP)
            return 0;
        thread->was_stopped = WSTOPSIG(status) != SIGTRAP;
        if (thread_trapped(thread) < 0)
            return 0;
    }
    return 0;
}

void trace_stop_detach(struct trace_stop_thread *thread)
{
    int signal = take_first_signal(thread);
    if (thread->state != TRACE_STOP_STOPPED)
        return; /* it has ended, or is detached when it stops */
    for (int i = 0; i < REQUEST_TRIES; i++)
        if (!ptrace(PTRACE_DETACH, thread->tid, 0, signal)) {
            thread->state = TRACE_STOP_GONE;
            return;
        }
    /* Killed while it was stopped: its end must be waited for, which trace_stop_wait_once does. */
    thread->state = TRACE_STOP_KERNEL;
}

void trace_stop_resume(struct trace_stop_thread *thread)
{
    enum __ptrace_request request = thread->was_stopped ? PTRACE_LISTEN : PTRACE_CONT;
    thread->state = TRACE_STOP_RUNNING;
    thread->interrupted = false;
    for (int i = 0; i < REQUEST_TRIES && ptrace(request, thread->tid, 0, 0); i++)
        ; /* the end of one that was killed while it was stopped will be reported */
}

void trace_stop_locate(struct trace_stop_thread *thread)
{
    struct proc_target_call call;
    if (thread->state != TRACE_STOP_KERNEL || proc_target_call(thread->process, thread->tid, &call) < 0 ||
        call.number < 0)
        return;
    thread->pc = call.pc;
    thread->sp = call.sp;
}

static int find_stopped(const struct trace_stop *stop, pid_t tid, struct base_error *error)
{
    const struct trace_stop_thread *thread = trace_stop_find(stop, tid);
    if (!thread || thread->state == TRACE_STOP_GONE || !stop->holding)
        return base_fail(error, BASE_ENOTFOUND, "no thread %d is stopped in process %d", tid, stop->pid);
    if (thread->state != TRACE_STOP_STOPPED)
        return base_fail(error, BASE_EBUSY, "thread %d sleeps inside the kernel: its registers cannot be had",
                         tid);
    return BASE_OK;
}

int trace_stop_read(const struct trace_stop *stop, pid_t tid, struct user_regs_struct *registers,
                    struct base_error *error)
{
    int result = find_stopped(stop, tid, error);
    if (result < 0 || !ptrace(PTRACE_GETREGS, tid, 0, registers))
        return result;
    return base_fail_errno(error, errno, "registers of thread %d cannot be read", tid);
}

int trace_stop_write(struct trace_stop *stop, pid_t tid, const struct user_regs_struct *registers,
                     struct base_error *error)
{
    int result = find_stopped(stop, tid, error);
    if (result < 0)
        return result;
    if (ptrace(PTRACE_SETREGS, tid, 0, registers))
        return base_fail_errno(error, errno, "registers of thread %d cannot be written", tid);
    struct trace_stop_thread *thread = trace_stop_find(stop, tid);
    thread->pc = registers->rip;
    thread->sp = registers->rsp;
    return result;
}

int trace_stop_step(struct trace_stop_thread *thread, int request, int signal, int *status,
                    struct base_error *error)
{
    if (ptrace((enum __ptrace_request)request, thread->tid, 0, signal))
        return base_fail_errno(error, errno, "thread %d cannot be continued", thread->tid);
    for (;;) {
        if (base_wait(thread->tid, status, __WALL) >= 0)
            break;
        if (errno == EINTR)
            continue;
        thread->state = TRACE_STOP_GONE;
        return base_fail(error, BASE_ENOTFOUND, "thread %d is gone", thread->tid);
    }
    if (WIFSTOPPED(*status))
        return BASE_OK;
    thread->state = TRACE_STOP_GONE;
    return base_fail(error, BASE_ENOTFOUND, "thread %d ended", thread->tid);
}

int trace_stop_settle(struct trace_stop *stop, struct trace_stop_thread *thread, int status,
                      struct base_error *error)
{
    thread->state = TRACE_STOP_RUNNING;
    int result = trace_stop_take_status(stop, thread->tid, status);
    while (result >= 0 && thread->state == TRACE_STOP_RUNNING) {
        result = trace_stop_wait_once(stop, thread->tid);
        if (result == 0)
            trace_stop_rest();
    }
    if (result < 0)
        return base_fail(error, result, "thread %d cannot be brought back to its stop", thread->tid);
    return thread->state == TRACE_STOP_STOPPED
               ? BASE_OK
               : base_fail(error, BASE_ENOTFOUND, "thread %d ended", thread->tid);
}
