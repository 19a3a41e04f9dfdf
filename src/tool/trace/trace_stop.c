#include "trace_stop.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base_array.h"
#include "base_clock.h"
#include "base_wait.h"
#include "proc_target.h"
#include "trace_x86_64_call.h"
#include "wire_agent_timer.h"

#define MILLISECOND   1000000u
#define KERNEL_AFTER  (20 * MILLISECOND)
#define MISSING_AFTER (50 * MILLISECOND)
#define ATTEMPTS      30 /* where fifteen wait for each processor, one in a hundred attaches fails ten times */
#define SLEEP_NS      20000 /* between two looks; a thread stops in 30 to 150 us */
#define OPTIONS       PTRACE_O_TRACESYSGOOD
#define FOLLOWING                                                                                            \
    (OPTIONS | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC)
#define EVENT(status) ((int)((unsigned)(status) >> 16))
#define END_LOOKS     20
#define LISTS         20 /* of one process, when they break off */
#define REQUEST_TRIES 3  /* of what must not fail: letting go */

static void rest(long ns)
{
    struct timespec time = {0, ns};
    nanosleep(&time, NULL);
}

/* --- the table of threads, sorted by tid --- */

static size_t position(const struct trace_stop *stop, pid_t tid)
{
    size_t low = 0, high = stop->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (stop->threads[middle].tid < tid)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct trace_stop_thread *trace_stop_find(const struct trace_stop *stop, pid_t tid)
{
    size_t at = position(stop, tid);
    return at < stop->count && stop->threads[at].tid == tid ? &stop->threads[at] : NULL;
}

static int insert(struct trace_stop *stop, pid_t process, pid_t tid)
{
    if (!base_array_room(stop->threads, stop->count, stop->capacity))
        return BASE_ENOMEM;
    size_t at = position(stop, tid);
    memmove(&stop->threads[at + 1], &stop->threads[at], (stop->count - at) * sizeof *stop->threads);
    stop->threads[at] =
        (struct trace_stop_thread){.process = process, .tid = tid, .state = TRACE_STOP_RUNNING};
    stop->count++;
    return BASE_OK;
}

int trace_stop_add(struct trace_stop *stop, pid_t process, pid_t tid, uint32_t life)
{
    int result = insert(stop, process, tid);
    if (result < 0)
        return result;
    struct trace_stop_thread *thread = trace_stop_find(stop, tid);
    thread->interrupted = true;
    thread->life = life;
    return BASE_OK;
}

void trace_stop_forget(struct trace_stop *stop, pid_t tid)
{
    size_t at = position(stop, tid);
    if (at >= stop->count || stop->threads[at].tid != tid)
        return;
    stop->count--;
    memmove(&stop->threads[at], &stop->threads[at + 1], (stop->count - at) * sizeof *stop->threads);
}

/* A tid may be given out again: what has ended must not stand in the way of a new thread. */
static void forget_gone(struct trace_stop *stop)
{
    size_t kept = 0;
    for (size_t i = 0; i < stop->count; i++)
        if (stop->threads[i].state != TRACE_STOP_GONE)
            stop->threads[kept++] = stop->threads[i];
    stop->count = kept;
}

void trace_stop_free(struct trace_stop *stop)
{
    free(stop->threads);
    *stop = (struct trace_stop){0};
}

/* --- taking threads --- */

static int options_of(const struct trace_stop *stop, pid_t process, pid_t tid)
{
    if (!stop->follower)
        return OPTIONS;
    return FOLLOWING | (process == tid ? stop->follower->first_options : 0);
}

void trace_stop_set_options(const struct trace_stop *stop, const struct trace_stop_thread *thread)
{
    if (stop->follower && stop->follower->first_options)
        ptrace(PTRACE_SETOPTIONS, thread->tid, 0, options_of(stop, thread->process, thread->tid));
}

/* A refused thread that is ending, or has ended while the others live, needs no stopping. */
static bool is_ending(pid_t process, pid_t tid, struct proc_target_facts *facts)
{
    return proc_target_facts(process, tid, facts) < 0 || facts->state == 'Z' || facts->state == 'X';
}

/* 1: taken, 0: it is ending. */
static int seize(struct trace_stop *stop, pid_t process, pid_t tid, struct base_error *error)
{
    if (insert(stop, process, tid) < 0)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    if (!ptrace(PTRACE_SEIZE, tid, 0, options_of(stop, process, tid)))
        return 1;
    int number = errno;
    struct proc_target_facts facts;
    trace_stop_forget(stop, tid);
    if (is_ending(process, tid, &facts))
        return 0;
    if (!stop->follower || facts.tracer != getpid())
        return proc_target_explain(process, number, error);
    int result = stop->follower->found(stop->follower->context, stop, process, tid);
    return result < 0 ? base_fail(error, result, "out of memory") : result;
}

int trace_stop_retake(struct trace_stop *stop, struct trace_stop_thread *thread, struct base_error *error)
{
    struct proc_target_facts facts;
    thread->state = TRACE_STOP_GONE;
    if (proc_target_facts(thread->process, thread->tid, &facts) < 0)
        return 0;
    int options = options_of(stop, thread->process, thread->tid);
    int result = ptrace(PTRACE_SEIZE, thread->tid, 0, options) ? errno : 0;
    if (result && is_ending(thread->process, thread->tid, &facts))
        return 0;
    thread->state = result ? TRACE_STOP_DETACHED : TRACE_STOP_RUNNING;
    thread->interrupted = false;
    return result ? proc_target_explain(stop->pid, result, error) : 1;
}

/* One pass over the threads of `process`; `listed`: how many there were. */
static int seize_listed(struct trace_stop *stop, pid_t process, long *listed, struct base_error *error)
{
    char path[64];
    int taken = 0;
    snprintf(path, sizeof path, "/proc/%d/task", process);
    DIR *directory = opendir(path);
    *listed = 0;
    if (!directory)
        return process == stop->pid ? base_fail(error, BASE_ENOTFOUND, "process %d is gone", process) : 0;
    errno = 0;
    for (struct dirent *entry; (entry = readdir(directory)); errno = 0) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        *listed += tid > 0;
        if (tid <= 0 || trace_stop_find(stop, tid))
            continue;
        int result = seize(stop, process, tid, error);
        if (result < 0) {
            closedir(directory);
            return result;
        }
        taken += result;
    }
    if (base_error_is_refusal(errno))
        taken = base_fail_errno(error, errno, "%s cannot be read", path);
    closedir(directory);
    return taken;
}

/* Seizes threads of `process` that are not known yet, until there are none. Returns how many, or a refusal.
 * A list breaks off (proc_task_readdir) where a thread ends that is just being listed: one that has nothing
 * new and is shorter than the count of threads is read again. */
static int seize_found(struct trace_stop *stop, pid_t process, struct base_error *error)
{
    struct proc_target_facts facts;
    long listed;
    for (int i = 0; i < LISTS; i++) {
        int taken = seize_listed(stop, process, &listed, error);
        if (taken != 0 || proc_target_facts(process, process, &facts) < 0 || listed >= facts.threads)
            return taken;
    }
    return 0;
}

void trace_stop_interrupt(struct trace_stop_thread *thread)
{
    for (int i = 0; i < REQUEST_TRIES; i++) {
        if (!ptrace(PTRACE_INTERRUPT, thread->tid, 0, 0)) {
            thread->interrupted = true;
            return;
        }
    }
    /* It is ending; else it will be missed. */
}

static void interrupt_all(struct trace_stop *stop)
{
    for (size_t i = 0; i < stop->count; i++)
        if (!stop->threads[i].interrupted && stop->threads[i].state == TRACE_STOP_RUNNING)
            trace_stop_interrupt(&stop->threads[i]);
}

/* --- stops --- */

/* A call that answers EINTR to any stop is made again, unless a handler runs first. */
static int repair_call(const struct trace_stop_thread *thread, struct user_regs_struct *registers)
{
    if (!trace_x86_64_call_restart(registers))
        return BASE_OK;
    for (int i = 0; i < REQUEST_TRIES; i++)
        if (!ptrace(PTRACE_SETREGS, thread->tid, 0, registers))
            return BASE_OK;
    return BASE_EIO;
}

/* Notes what the thread was doing; repairs an interrupted call. */
static int look_at(struct trace_stop_thread *thread)
{
    struct user_regs_struct registers;
    thread->state = TRACE_STOP_STOPPED;
    thread->interrupted = true;
    thread->in_call = false;
    if (ptrace(PTRACE_GETREGS, thread->tid, 0, &registers) &&
        ptrace(PTRACE_GETREGS, thread->tid, 0, &registers)) {
        thread->state =
            errno == ESRCH ? TRACE_STOP_RUNNING : TRACE_STOP_STOPPED; /* killed: its end is to come */
        return errno == ESRCH ? BASE_OK : BASE_EIO;
    }
    thread->pc = registers.rip;
    thread->sp = registers.rsp;
    if (trace_x86_64_call_is_32_bit(&registers))
        return BASE_EUNSUPPORTED;
    thread->in_call = (long)registers.orig_rax >= 0;
    return repair_call(thread, &registers);
}

/* A timer of the agent's (agent_timer.c) ends no call by itself, since it goes off behind the call. A stop of ours may come before that,
 * and has cut the call; the handler would make EINTR of it. So the signal is dropped, and the kernel goes on with the call. The timer is
 * not armed again, as when the handler sees an EINTR that it cannot explain. */
static bool cuts_call(const siginfo_t *info, const struct user_regs_struct *registers)
{
    return info->si_code == SI_TIMER &&
           (uint64_t)(uintptr_t)info->si_value.sival_ptr >> 32 == WIRE_AGENT_TIMER_VALUE(0) >> 32 &&
           trace_x86_64_call_is_cut(registers);
}

bool trace_stop_drops_signal(pid_t tid, const struct user_regs_struct *registers)
{
    siginfo_t info;
    return !ptrace(PTRACE_GETSIGINFO, tid, 0, &info) && cuts_call(&info, registers);
}

/* A thread stopped to receive `signal` (0: for another reason): it receives it and goes on; or it traps
 * first, before anything else, if the trap is wanted: it must be asked for again, since any stop takes it
 * back. */
static int deliver(struct trace_stop *stop, struct trace_stop_thread *thread, int signal)
{
    struct user_regs_struct registers;
    stop->delivered++;
    bool known = signal && !ptrace(PTRACE_GETREGS, thread->tid, 0, &registers);
    if (thread->interrupted)
        trace_stop_interrupt(thread);
    else if (known)
        repair_call(thread, &registers); /* untraced, a signal that is ignored would not even have woken it */
    if (known && trace_stop_drops_signal(thread->tid, &registers))
        signal = 0;
    for (int i = 0; i < REQUEST_TRIES; i++)
        if (!ptrace(PTRACE_CONT, thread->tid, 0, signal))
            return BASE_OK;
    return errno == ESRCH ? BASE_OK : BASE_EIO; /* killed meanwhile */
}

/* Takes what waitpid said of a thread. */
static int take_status(struct trace_stop *stop, pid_t tid, int status)
{
    struct trace_stop_thread *thread = trace_stop_find(stop, tid);
    bool is_trap = WIFSTOPPED(status) && EVENT(status) == PTRACE_EVENT_STOP;
    int result = BASE_OK;
    if (!WIFSTOPPED(status))
        thread->state = TRACE_STOP_GONE;
    if (is_trap) {
        thread->was_stopped = WSTOPSIG(status) != SIGTRAP;
        result = look_at(thread);
    }
    if (stop->follower)
        stop = stop->follower->published(stop->follower->context, stop, tid, status);
    thread = trace_stop_find(stop, tid);
    if (!WIFSTOPPED(status) || is_trap || !thread || EVENT(status) == PTRACE_EVENT_EXIT)
        return result;
    bool is_signal = EVENT(status) == 0 && WSTOPSIG(status) != (SIGTRAP | 0x80);
    return deliver(stop, thread, is_signal ? WSTOPSIG(status) : 0);
}

/* 1: something happened to the thread; the table may have grown. */
static int look_once(struct trace_stop *stop, pid_t tid)
{
    int status;
    pid_t got = base_wait(tid, &status, __WALL | WNOHANG);
    if (got == 0 || (got < 0 && errno != ECHILD))
        return 0;
    if (got < 0)
        status = 0; /* nobody's: it has ended */
    int result = take_status(stop, tid, status);
    return result < 0 ? result : 1;
}

static int refuse_32_bit(const struct trace_stop *stop, struct base_error *error)
{
    return base_fail(error, BASE_EUNSUPPORTED,
                     "process %d is not a 64-bit x86 program: counting calls needs one", stop->pid);
}

/* One look at all that have not stopped. Returns how many are missing still. */
static int look_at_all(struct trace_stop *stop, struct base_error *error)
{
    int missing = 0;
    for (size_t i = 0; i < stop->count; i++) {
        pid_t tid = stop->threads[i].tid;
        if (stop->threads[i].state != TRACE_STOP_RUNNING && stop->threads[i].state != TRACE_STOP_KERNEL)
            continue;
        int result = look_once(stop, tid);
        if (result == BASE_EUNSUPPORTED)
            return refuse_32_bit(stop, error);
        if (result < 0)
            return base_fail(error, result, "thread %d cannot be handled: %s", tid, strerror(errno));
        i = position(stop, tid); /* where it stands now */
        missing += stop->threads[i].state == TRACE_STOP_RUNNING;
    }
    return missing;
}

/* It sleeps on its way to a new thread, which would run while all others stand. That takes no time; vfork,
 * which may, makes none. */
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

/* One that is ending and whose end the follower is to be told of needs no stopping either: it is in the
 * kernel for good. */
static void accept_sleepers(struct trace_stop *stop)
{
    struct proc_target_facts facts;
    for (size_t i = 0; i < stop->count; i++) {
        struct trace_stop_thread *thread = &stop->threads[i];
        if (thread->state != TRACE_STOP_RUNNING || !thread->interrupted)
            continue;
        thread->pc = thread->sp = 0;
        if (is_ending(thread->process, thread->tid, &facts))
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

/* Waits until every known thread stands. BASE_EBUSY without a message: some do not. */
static int wait_for_all(struct trace_stop *stop, struct base_error *error)
{
    uint64_t began = base_clock_now(), looked = began;
    for (;;) {
        int missing = look_at_all(stop, error);
        if (missing <= 0)
            return missing;
        uint64_t now = base_clock_now();
        if (now - began > KERNEL_AFTER && now - looked > 5 * MILLISECOND) {
            accept_sleepers(stop);
            looked = now;
        }
        if (now - began > MISSING_AFTER + 10 * MILLISECOND)
            return BASE_EBUSY;
        rest(SLEEP_NS);
    }
}

/* --- children that run in the same memory --- */

/* Children of one sleeping thread. Kernels without CONFIG_PROC_CHILDREN do not tell: then a vfork child runs
 * on. */
static int seize_children(struct trace_stop *stop, const struct trace_stop_thread *parent,
                          struct base_error *error)
{
    char path[96];
    int child, taken = 0;
    pid_t process = parent->process; /* the table may move */
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", process, parent->tid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    while (taken >= 0 && fscanf(file, "%d", &child) == 1) {
        if (!proc_target_shares_memory(process, child))
            continue;
        int result = seize_found(stop, child, error);
        taken = result < 0 ? result : taken + result;
    }
    fclose(file);
    return taken;
}

static bool waits_for_child(const struct trace_stop_thread *thread)
{
    struct proc_target_call call;
    return thread->state == TRACE_STOP_KERNEL && (proc_target_call(thread->process, thread->tid, &call) < 0 ||
                                                  trace_x86_64_call_is_vfork(call.number));
}

static int seize_vforked(struct trace_stop *stop, struct base_error *error)
{
    int taken = 0;
    for (size_t i = 0; i < stop->count && taken >= 0; i++) {
        struct trace_stop_thread parent = stop->threads[i];
        if (!waits_for_child(&parent))
            continue;
        int result = seize_children(stop, &parent, error);
        taken = result < 0 ? result : taken + result;
        i = position(stop, parent.tid); /* where it stands now */
    }
    return taken;
}

/* --- beginning --- */

static bool is_first_of_process(const struct trace_stop *stop, size_t at)
{
    for (size_t i = at; i-- > 0;)
        if (stop->threads[i].process == stop->threads[at].process)
            return false;
    return true;
}

/* With a follower the threads may be of several processes; their vfork children are known. */
static int seize_of_all(struct trace_stop *stop, struct base_error *error)
{
    int taken = 0;
    for (size_t i = 0; i < stop->count; i++) {
        struct trace_stop_thread thread = stop->threads[i];
        if (!is_first_of_process(stop, i))
            continue;
        int result = seize_found(stop, thread.process, error);
        if (result < 0)
            return result;
        taken += result;
        i = position(stop, thread.tid);
    }
    return taken;
}

static int seize_new(struct trace_stop *stop, struct base_error *error)
{
    if (stop->follower)
        return seize_of_all(stop, error);
    int others = seize_found(stop, stop->pid, error);
    int children = others < 0 ? 0 : seize_vforked(stop, error);
    return others < 0 ? others : children < 0 ? children : others + children;
}

static int gather(struct trace_stop *stop, struct base_error *error)
{
    for (bool first = true;; first = false) {
        forget_gone(stop);
        int taken = seize_new(stop, error);
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

/* What lingers from before is interrupted already; it may stand by now. */
static int try_once(struct trace_stop *stop, struct base_error *error)
{
    int result = stop->follower ? BASE_OK : wait_for_all(stop, error);
    stop->began = 0;
    if (result == BASE_OK)
        result = gather(stop, error);
    for (size_t i = 0; i < stop->count && result == BASE_OK; i++)
        if ((stop->follower || stop->threads[i].process == stop->pid) &&
            stop->threads[i].state != TRACE_STOP_GONE)
            return BASE_OK;
    return result < 0 ? result : base_fail(error, BASE_ENOTFOUND, "process %d has ended", stop->pid);
}

static void give_up(struct trace_stop *stop)
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
        result = try_once(stop, error);
        if (result == BASE_OK) {
            stop->holding = true;
            return BASE_OK;
        }
        if (result == BASE_EBUSY && !(error && error->text[0]) && stop->attempts == ATTEMPTS)
            result = refuse_missing(stop, error);
        give_up(stop);
        if (result != BASE_EBUSY || stop->attempts >= ATTEMPTS || (error && error->text[0]))
            return result;
        rest(10 * MILLISECOND);
        if (!stop->follower)
            trace_stop_poll(stop);
        result = BASE_OK;
    }
    return result;
}

int trace_stop_follow(struct trace_stop *stop, pid_t pid, struct base_error *error)
{
    int taken, all = 0;
    while ((taken = seize_found(stop, pid, error)) > 0)
        all += taken;
    return taken < 0 ? taken : all;
}

/* --- letting go --- */

/* Does such a signal wait behind the trap in which the thread stands, and nothing keeps it out? */
static bool waits_to_cut_call(const struct trace_stop_thread *thread)
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
        if (cuts_call(&info[i], &registers) && !(blocked >> (info[i].si_signo - 1) & 1))
            return true;
    return false;
}

/* It comes to a signal that waits: the one that it is let go with. Where that is another one, whose handler ends the call or whose being
 * ignored does not, the tick stays behind it. Without PTRACE_INTERRUPT: the trap would come before the signal, each time. */
static int take_first(struct trace_stop_thread *thread)
{
    struct user_regs_struct registers;
    int status;
    if (thread->was_stopped || !waits_to_cut_call(thread) ||
        trace_stop_step(thread, PTRACE_CONT, 0, &status, NULL) < 0 || EVENT(status))
        return 0;
    bool known = !ptrace(PTRACE_GETREGS, thread->tid, 0, &registers);
    return known && trace_stop_drops_signal(thread->tid, &registers) ? 0 : WSTOPSIG(status);
}

void trace_stop_detach(struct trace_stop_thread *thread)
{
    int signal = take_first(thread);
    for (int i = 0; i < REQUEST_TRIES; i++)
        if (!ptrace(PTRACE_DETACH, thread->tid, 0, signal)) {
            thread->state = TRACE_STOP_GONE;
            return;
        }
    /* Killed while it stood: its end is to be waited for, which look_once does. */
    thread->state = TRACE_STOP_KERNEL;
}

void trace_stop_go(struct trace_stop_thread *thread)
{
    enum __ptrace_request request = thread->was_stopped ? PTRACE_LISTEN : PTRACE_CONT;
    thread->state = TRACE_STOP_RUNNING;
    thread->interrupted = false;
    for (int i = 0; i < REQUEST_TRIES && ptrace(request, thread->tid, 0, 0); i++)
        ; /* one that was killed while it stood will be told of */
}

static void detach_if_stopped(struct trace_stop *stop, struct trace_stop_thread *thread)
{
    while (thread->state == TRACE_STOP_RUNNING || thread->state == TRACE_STOP_KERNEL)
        if (look_once(stop, thread->tid) <= 0 && thread->state != TRACE_STOP_STOPPED)
            break;
    if (thread->state == TRACE_STOP_STOPPED)
        trace_stop_detach(thread);
}

int trace_stop_take(struct trace_stop *stop, pid_t tid, int status)
{
    struct trace_stop_thread *thread = trace_stop_find(stop, tid);
    if (!thread)
        return BASE_ENOTFOUND;
    int result = take_status(stop, tid, status);
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
    forget_gone(stop);
    return stop->count;
}

bool trace_stop_awaits(const struct trace_stop *stop)
{
    struct proc_target_facts facts;
    for (size_t i = 0; i < stop->count; i++) {
        const struct trace_stop_thread *thread = &stop->threads[i];
        if (thread->state == TRACE_STOP_RUNNING && thread->interrupted &&
            !is_ending(thread->process, thread->tid, &facts) && facts.state != 'D')
            return true;
    }
    return false;
}

size_t trace_stop_end(struct trace_stop *stop)
{
    stop->holding = false;
    interrupt_all(stop); /* a thread that was only seized must stop before it can be let go */
    for (size_t i = 0; i < stop->count; i++)
        if (stop->threads[i].state == TRACE_STOP_STOPPED)
            trace_stop_detach(&stop->threads[i]);
    size_t left = trace_stop_poll(stop);
    for (int i = 0; i < END_LOOKS && left; i++) { /* one that received a signal just now stands in a moment */
        rest(SLEEP_NS);
        left = trace_stop_poll(stop);
    }
    return left;
}

/* --- one thread --- */

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
    int result = take_status(stop, thread->tid, status);
    while (result >= 0 && thread->state == TRACE_STOP_RUNNING) {
        result = look_once(stop, thread->tid);
        if (result == 0)
            rest(SLEEP_NS);
    }
    if (result < 0)
        return base_fail(error, result, "thread %d cannot be brought back to its stop", thread->tid);
    return thread->state == TRACE_STOP_STOPPED
               ? BASE_OK
               : base_fail(error, BASE_ENOTFOUND, "thread %d ended", thread->tid);
}
