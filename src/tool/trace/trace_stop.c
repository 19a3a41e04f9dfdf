/* A stop as a whole: all threads are seized and interrupted, and waited for; on failure they are resumed, and
 * it is tried again. trace_stop_seize.c finds the threads, trace_stop_thread.c handles what happens to one of
 * them, trace_stop_table.c holds them by tid. */
#include "trace_stop_inside.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>

#include "base_clock.h"
#include "proc_target.h"

#define MILLISECOND   1000000u
#define KERNEL_AFTER  (20 * MILLISECOND)
#define MISSING_AFTER (50 * MILLISECOND)
/* Where fifteen threads wait for each processor, one in a hundred attaches fails ten times. */
#define ATTEMPTS  30
#define END_LOOKS 20

static void interrupt_all(struct trace_stop *stop)
{
    for (size_t i = 0; i < stop->count; i++)
        if (!stop->threads[i].interrupted && stop->threads[i].state == TRACE_STOP_RUNNING)
            trace_stop_interrupt(&stop->threads[i]);
}

/* --- waiting for all threads to stop --- */

static int refuse_32_bit(const struct trace_stop *stop, struct base_error *error)
{
    return base_fail(error, BASE_EUNSUPPORTED,
                     "process %d is not a 64-bit x86 program: counting calls needs one", stop->pid);
}

/* Handles what happened to each thread that has not stopped. Returns how many have still not. */
static int wait_once_for_all(struct trace_stop *stop, struct base_error *error)
{
    int missing = 0;
    for (size_t i = 0; i < stop->count; i++) {
        pid_t tid = stop->threads[i].tid;
        if (stop->threads[i].state != TRACE_STOP_RUNNING && stop->threads[i].state != TRACE_STOP_KERNEL)
            continue;
        int result = trace_stop_wait_once(stop, tid);
        if (result == BASE_EUNSUPPORTED)
            return refuse_32_bit(stop, error);
        if (result < 0)
            return base_fail(error, result, "thread %d cannot be handled: %s", tid, strerror(errno));
        i = trace_stop_index(stop, tid); /* the table may have grown: its index now */
        missing += stop->threads[i].state == TRACE_STOP_RUNNING;
    }
    return missing;
}

/* The thread sleeps in a call that creates a thread, which would run while all others are stopped. The call
 * takes no time, so that it can be waited for; vfork, which may take long, creates no thread. */
static bool makes_thread(const struct trace_stop_thread *thread)
{
    struct proc_target_call call;
    uint64_t flags;
    if (proc_target_call(thread->process, thread->tid, &call) < 0)
        return false;
    flags = call.first;
    if (call.number == SYS_clone3 &&
        proc_target_read(thread->process, call.first, &flags, sizeof flags) != sizeof flags)
        return false;
    return (call.number == SYS_clone || call.number == SYS_clone3) && flags & CLONE_THREAD;
}

/* A thread that sleeps in the kernel needs no stopping. Nor does one that is ending, since it runs no
 * instruction of the program any more; with a follower it stays in the table until its end is reported. */
static void accept_sleepers(struct trace_stop *stop)
{
    struct proc_target_facts facts;
    for (size_t i = 0; i < stop->count; i++) {
        struct trace_stop_thread *thread = &stop->threads[i];
        if (thread->state != TRACE_STOP_RUNNING || !thread->interrupted)
            continue;
        thread->pc = thread->sp = 0;
        if (trace_stop_is_ending(thread->process, thread->tid, &facts))
            thread->state = stop->follower ? TRACE_STOP_KERNEL : TRACE_STOP_GONE;
        else if (proc_target_is_in_kernel(thread->process, thread->tid, &thread->pc, &thread->sp) &&
                 !makes_thread(thread))
            thread->state = TRACE_STOP_KERNEL;
    }
}

static int refuse_missing(const struct trace_stop *stop, struct base_error *error)
{
    for (size_t i = 0; i < stop->count; i++) {
        const struct trace_stop_thread *thread = &stop->threads[i];
        struct proc_target_facts facts = {0};
        if (thread->state != TRACE_STOP_RUNNING)
            continue;
        proc_target_facts(thread->process, thread->tid, &facts);
        return base_fail(error, BASE_EBUSY,
                         "thread %d (%s) of process %d did not stop within 50 ms, tried %u times: it gets no "
                         "processor, or the kernel is busy for it; try again when the machine is less loaded",
                         thread->tid, facts.name, stop->pid, ATTEMPTS);
    }
    return BASE_EBUSY;
}

/* Waits until every known thread is stopped. BASE_EBUSY without a message: some are not. */
static int wait_for_all(struct trace_stop *stop, struct base_error *error)
{
    uint64_t began = base_clock_now(), looked = began;
    for (;;) {
        int missing = wait_once_for_all(stop, error);
        if (missing <= 0)
            return missing;
        uint64_t now = base_clock_now();
        if (now - began > KERNEL_AFTER && now - looked > 5 * MILLISECOND) {
            accept_sleepers(stop);
            looked = now;
        }
        if (now - began > MISSING_AFTER + 10 * MILLISECOND)
            return BASE_EBUSY;
        trace_stop_rest();
    }
}

/* --- beginning --- */

static int stop_all_threads(struct trace_stop *stop, struct base_error *error)
{
    for (bool first = true;; first = false) {
        trace_stop_forget_gone(stop);
        int taken = trace_stop_seize_new(stop, error);
        if (taken < 0)
            return taken;
        if (taken == 0 && !(first && stop->follower))
            return stop->count ? BASE_OK
                               : base_fail(error, BASE_ENOTFOUND, "process %d has ended", stop->pid);
        if (!stop->began)
            stop->began = base_clock_now();
        interrupt_all(stop);
        int result = wait_for_all(stop, error);
        if (result < 0)
            return result;
    }
}

/* Threads that linger from before are interrupted already, and may have stopped by now. */
static int stop_once(struct trace_stop *stop, struct base_error *error)
{
    int result = stop->follower ? BASE_OK : wait_for_all(stop, error);
    stop->began = 0;
    if (result == BASE_OK)
        result = stop_all_threads(stop, error);
    for (size_t i = 0; i < stop->count && result == BASE_OK; i++)
        if ((stop->follower || stop->threads[i].process == stop->pid) &&
            stop->threads[i].state != TRACE_STOP_GONE)
            return BASE_OK;
    return result < 0 ? result : base_fail(error, BASE_ENOTFOUND, "process %d has ended", stop->pid);
}

static void resume_after_failure(struct trace_stop *stop)
{
    if (stop->follower)
        stop->follower->resume(stop->follower->context, stop);
    else
        trace_stop_end(stop);
}

int trace_stop_begin(struct trace_stop *stop, pid_t pid, struct base_error *error)
{
    stop->pid = pid;
    if (!stop->follower)
        trace_stop_poll(stop);
    int result = stop->count ? BASE_OK : proc_target_check(pid, error);
    for (stop->attempts = 1; result == BASE_OK; stop->attempts++) {
        result = stop_once(stop, error);
        if (result == BASE_OK) {
            stop->holding = true;
            return BASE_OK;
        }
        if (result == BASE_EBUSY && !(error && error->text[0]) && stop->attempts == ATTEMPTS)
            result = refuse_missing(stop, error);
        resume_after_failure(stop);
        if (result != BASE_EBUSY || stop->attempts >= ATTEMPTS || (error && error->text[0]))
            return result;
        base_clock_sleep(10 * MILLISECOND);
        if (!stop->follower)
            trace_stop_poll(stop);
        result = BASE_OK;
    }
    return result;
}

/* --- ending --- */

static void detach_if_stopped(struct trace_stop *stop, struct trace_stop_thread *thread)
{
    while (thread->state == TRACE_STOP_RUNNING || thread->state == TRACE_STOP_KERNEL)
        if (trace_stop_wait_once(stop, thread->tid) <= 0 && thread->state != TRACE_STOP_STOPPED)
            break;
    if (thread->state == TRACE_STOP_STOPPED)
        trace_stop_detach(thread);
}

int trace_stop_handle_status(struct trace_stop *stop, pid_t tid, int status)
{
    struct trace_stop_thread *thread = trace_stop_find(stop, tid);
    if (!thread)
        return BASE_ENOTFOUND;
    int result = trace_stop_take_status(stop, tid, status);
    thread = trace_stop_find(stop, tid);
    if (thread && !stop->follower && !stop->holding && thread->state == TRACE_STOP_STOPPED)
        trace_stop_detach(thread);
    if (thread && thread->state == TRACE_STOP_GONE && !stop->holding)
        trace_stop_forget(stop, tid);
    return result;
}

size_t trace_stop_poll(struct trace_stop *stop)
{
    if (stop->holding)
        return 0;
    for (size_t i = 0; i < stop->count; i++)
        detach_if_stopped(stop, &stop->threads[i]);
    trace_stop_forget_gone(stop);
    return stop->count;
}

bool trace_stop_awaits(const struct trace_stop *stop)
{
    struct proc_target_facts facts;
    for (size_t i = 0; i < stop->count; i++) {
        const struct trace_stop_thread *thread = &stop->threads[i];
        if (thread->state == TRACE_STOP_RUNNING && thread->interrupted &&
            !trace_stop_is_ending(thread->process, thread->tid, &facts) && facts.state != 'D')
            return true;
    }
    return false;
}

size_t trace_stop_end(struct trace_stop *stop)
{
    stop->holding = false;
    interrupt_all(stop); /* a thread that was only seized must stop before it can be detached */
    for (size_t i = 0; i < stop->count; i++)
        if (stop->threads[i].state == TRACE_STOP_STOPPED)
            trace_stop_detach(&stop->threads[i]);
    size_t left = trace_stop_poll(stop);
    for (int i = 0; i < END_LOOKS && left; i++) { /* one that has just received a signal stops in a moment */
        trace_stop_rest();
        left = trace_stop_poll(stop);
    }
    return left;
}
