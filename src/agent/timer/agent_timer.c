/* Samples of time where perf_event is refused: each thread has a timer on its own CPU clock, whose signal it
 * handles itself.
 *
 * Nothing of this may change what the program does. What makes that so:
 *
 *   1. The timers run on CPU clocks of single threads. Linux looks at those at a tick, which finds the thread
 *      running, and since 5.11 does the rest on the thread's way back to user mode
 *      (POSIX_CPU_TIMERS_TASK_WORK; tally refuses older kernels). So the signal is made when a system call
 *      has its result already, and taken in the same moment: no call is ever cut short with EINTR, none is
 *      restarted, nobody is woken, and where the signal is not blocked it is never seen pending: neither
 *      sigwait nor a signalfd can find it. That is why there is no time.real: its timer would have to
 *      interrupt those who wait. What ends a call at last may be another signal: agent_timer_restart.c keeps
 *      these two apart. Known exceptions: io_uring_enter does such work inside of the call and would end with
 *      EINTR, so a program that makes an io_uring is not sampled (agent_hook_signal.c). What ends a call
 *      without a handler, SIGSTOP and SIGCONT, may meet a tick in the very same call; then that ends with
 *      EINTR, as some calls do in any case, signal(7). A tick that comes behind it, before the call is
 *      continued, is none. A thread on which EINTR is seen beside a sample, and no signal that explains it,
 *      loses its timer: where there is a way that is not known here, it is taken once.
 *   2. The signal is SIGURG, which by default is ignored. Whatever takes the handler away (a program that
 *      resets all signals, an exec, somebody's own system call) turns the timers into nothing, not into a
 *      death. A pending signal of a timer does not pass an exec, and setting the default action drops those
 *      that wait (POSIX; kernel/signal.c, do_sigaction).
 *   3. A thread that blocks the signal has its timer at rest (agent_hook_signal.c), so that none waits there
 *      either.
 *   4. While the handler runs all signals are blocked, so nobody comes in between or jumps out. It calls
 *      nothing of the program, and only system calls that tally had made in the program's name before
 *      (seccomp).
 *   5. Children of fork have no timers, by POSIX, and get their own when they are counted. A vfork's child
 *      runs in this memory with its own signals and without timers: it is known by its number, and nothing is
 *      done in it.
 *   6. Who takes the signal unseen, by a system call of its own, is found when a thread is created; a signal
 *      of somebody else's is taken as a sign that the program waits for it. Then all timers end, and an
 *      action that is not ours is not touched. Where the signal was taken before our eyes, or may be waited
 *      for, tally makes the timers anew with the only other signal that is ignored by default and that nobody
 *      needs: SIGWINCH. It comes to those whose session has a terminal when a window changes, and a handler
 *      would then end what they wait in; so those do not move (one that takes a terminal later may see that).
 *      Nor does a process that ever blocked SIGWINCH, or set an action for it: each is noted before it is
 *      done, so that none of them is still on its way, unknown, when tally stops the process. Who takes that
 *      signal, too, ends all.
 *   7. The handler runs on the thread's stack for signals, if there is one; a thread with one that is too
 *      small for it is not sampled. Of threads that tally finds running this is not known.
 *   8. When tally is gone, or does not write its clock for long, a timer is not armed again.
 *
 * A sample stands for the CPU time since the thread's sample before, the first one for a mean interval: ticks
 * are coarser than the intervals that are asked for. Intervals are drawn anew each time, so that they do not
 * beat with the program. What is missed (the agent's own time, threads that were created unseen or block the
 * signal) tally knows by the process's clock.
 *
 * Source: kernel/time/posix-cpu-timers.c, posix-timers.c, kernel/signal.c; timer_create(2), signal(7). */
#include "agent_timer.h"

#include <sys/syscall.h>

#include "agent_cell.h"
#include "agent_may.h"
#include "agent_readable.h"
#include "agent_stack.h"
#include "agent_thread.h"
#include "agent_timer_restart.h"
#include "wire_agent_layout.h"

#define NS_OF_SECOND 1000000000
#define SI_TIMER     (-2)
#define NO_THREAD    (-3) /* ESRCH */
#define THREAD_ID    4    /* SIGEV_THREAD_ID */
#define ALONE_NS     UINT64_C(30000000000)
#define STACK_NONE   2    /* SS_DISABLE */
#define STACK_LEAST  6144 /* the kernel's frame with AVX-512, 3.5 KiB, and what the handler needs */

/* The first words of siginfo_t of a timer's signal, and of struct sigevent (asm-generic/siginfo.h). */
struct timer_info {
    int32_t signal, error, code, pad, timer, overrun;
    uint64_t value;
};
struct timer_event {
    uint64_t value;
    int32_t signal, notify, tid, zero[11];
};
_Static_assert(sizeof(struct timer_event) == sizeof((struct wire_agent_timer){0}.call), "struct sigevent");

struct timer_time {
    uint64_t every[2], first[2]; /* seconds, nanoseconds */
};

AGENT_BY_NAME void agent_timer_handler(int signal, const struct timer_info *info, void *context);

static int64_t timer_call(uint64_t number, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    return arch_host_syscall(number, a, b, c, d, 0, 0);
}

static uint32_t own_tid(void)
{
    return (uint32_t)timer_call(SYS_gettid, 0, 0, 0, 0);
}

/* This thread's own clock: the number of no thread stands for who asks. */
static uint64_t thread_clock(void)
{
    return ~UINT32_C(7) | 4 | agent_control()->timer_clock;
}

static uint64_t thread_clock_now(void)
{
    uint64_t time[2] = {0, 0};
    timer_call(SYS_clock_gettime, thread_clock(), (uint64_t)time, 0, 0);
    return time[0] * NS_OF_SECOND + time[1];
}

static bool is_timed(const struct wire_agent_process *process)
{
    return __atomic_load_n(&process->state, __ATOMIC_ACQUIRE) == WIRE_AGENT_RUNNING &&
           __atomic_load_n(&process->timing, __ATOMIC_ACQUIRE) == WIRE_AGENT_TIMED;
}

/* Not a vfork's child in its memory? */
static bool is_itself(const struct wire_agent_process *process)
{
    return (uint32_t)timer_call(SYS_getpid, 0, 0, 0, 0) == process->own_pid;
}

bool agent_timer_is_on(void)
{
    return agent_process_is_counted() && is_timed(agent_process()) && is_itself(agent_process());
}

/* --- the table --- */

static struct wire_agent_timer *timer_table(void)
{
    return agent_part(wire_agent_layout(agent_control()->memory).timers);
}

static struct wire_agent_timer *find_timer(uint32_t tid)
{
    for (uint32_t i = 0; i < WIRE_AGENT_TIMER_PROBES; i++) {
        struct wire_agent_timer *timer = &timer_table()[(wire_agent_timer_home(tid) + i) % WIRE_AGENT_TIMERS];
        if (__atomic_load_n(&timer->tid, __ATOMIC_ACQUIRE) == tid)
            return timer;
    }
    return NULL;
}

/* Number and state at once: a number that is read alone may be none yet, and 0 is a timer of the
 * program's. */
static uint64_t *id_and_state(struct wire_agent_timer *timer)
{
    return (uint64_t *)(void *)&timer->id;
}

static uint64_t word_of(uint32_t id, enum wire_agent_timer_state state)
{
    return (uint64_t)state << 32 | id;
}

static void delete_timer(struct wire_agent_process *process, struct wire_agent_timer *timer)
{
    uint64_t word = __atomic_load_n(id_and_state(timer), __ATOMIC_ACQUIRE);
    do {
        if (word >> 32 == WIRE_AGENT_TIMER_NONE)
            return;
    } while (!__atomic_compare_exchange_n(id_and_state(timer), &word,
                                          word_of((uint32_t)word, WIRE_AGENT_TIMER_NONE), false,
                                          __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    /* After the word, and by whoever changed it: the kernel may give the number to a timer of the program's
     * at once, and that is not to be deleted a second time. */
    timer_call(SYS_timer_delete, (uint32_t)word, 0, 0, 0);
    if (word >> 32 == WIRE_AGENT_TIMER_IDLE)
        __atomic_fetch_sub(&process->idle, 1, __ATOMIC_RELAXED);
}

/* False: it is in another state now, since somebody ended all timers. */
static bool change_state(struct wire_agent_timer *timer, uint32_t from, uint32_t to)
{
    return __atomic_compare_exchange_n(&timer->state, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* A place of its own for this thread: a free one, or that of a thread that has ended, whose timer goes. */
static struct wire_agent_timer *claim_timer(struct wire_agent_process *process, uint32_t tid)
{
    for (uint32_t i = 0; i < WIRE_AGENT_TIMER_PROBES; i++) {
        struct wire_agent_timer *timer = &timer_table()[(wire_agent_timer_home(tid) + i) % WIRE_AGENT_TIMERS];
        uint32_t other = __atomic_load_n(&timer->tid, __ATOMIC_ACQUIRE);
        if (other != 0 && other != tid && timer_call(SYS_tgkill, process->own_pid, other, 0, 0) != NO_THREAD)
            continue;
        if (!__atomic_compare_exchange_n(&timer->tid, &other, tid, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            continue;
        delete_timer(process, timer);
        return timer;
    }
    return NULL;
}

/* --- one timer --- */

/* Below `limit`. xorshift: one step a draw is enough for intervals. */
static uint64_t draw_below(struct wire_agent_timer *timer, uint64_t limit)
{
    const struct wire_agent_control *control = agent_control();
    uint64_t random = timer->random;
    if (random == 0)
        random =
            (control->sample_seed ^ (uint64_t)timer->tid << 32 ^ timer->id) * UINT64_C(0x9e3779b97f4a7c15) |
            1;
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    timer->random = random;
    return (uint64_t)((unsigned __int128)(random * UINT64_C(0x2545f4914f6cdd1d)) * limit >> 64);
}

static uint64_t draw_interval(struct wire_agent_timer *timer)
{
    return agent_control()->timer_least_ns + draw_below(timer, agent_control()->timer_spread_ns);
}

/* A thread is as if it had been sampled for ever: the first sample is equally probable at each of the next
 * ticks, and stands for a whole interval. So threads that live shorter than one are seen as often as they
 * should be. */
static uint64_t draw_first_interval(struct wire_agent_timer *timer)
{
    uint64_t first = draw_below(timer, agent_control()->timer_mean_ns), tick = agent_control()->timer_tick_ns;
    timer->last_ns = 0;
    return first > tick ? first - tick : 1;
}

static void arm_timer(const struct wire_agent_timer *timer, uint64_t interval_ns)
{
    const struct timer_time time = {{0, 0}, {interval_ns / NS_OF_SECOND, interval_ns % NS_OF_SECOND}};
    timer_call(SYS_timer_settime, timer->id, 0, (uint64_t)&time, 0);
}

static uint32_t own_signal(void)
{
    return agent_process()->timer_signal;
}

/* Whose handler is it now? Who makes system calls of his own, as Go's run time does, takes it unseen. */
static uint64_t handler_of(uint32_t signal)
{
    struct wire_agent_action now = {0, 0, 0, 0};
    timer_call(SYS_rt_sigaction, signal, 0, (uint64_t)&now, sizeof(uint64_t));
    return now.handler;
}

static bool is_signal_taken(void)
{
    uint64_t handler = handler_of(own_signal());
    return handler != 0 && handler != agent_control()->action.handler;
}

/* Is one of the program's pending? This thread's timer makes none while it rests. */
static bool is_signal_awaited(void)
{
    uint64_t pending = 0;
    const struct wire_agent_timer *timer = find_timer(own_tid());
    timer_call(SYS_rt_sigpending, (uint64_t)&pending, sizeof pending, 0, 0);
    return pending >> (own_signal() - 1) & 1 && (timer == NULL || timer->state != WIRE_AGENT_TIMER_ARMED);
}

/* True: it is for the caller to take the timers away. What is OVER stays so, whoever else ends them
 * meanwhile. */
static bool leave_timing(uint32_t *timing, enum wire_agent_timing end)
{
    uint32_t now = __atomic_load_n(timing, __ATOMIC_ACQUIRE), next;
    do {
        if (now == WIRE_AGENT_UNTIMED || (now != WIRE_AGENT_TIMED && end == WIRE_AGENT_CLAIMED))
            return false;
        next = now == WIRE_AGENT_TIMED ? WIRE_AGENT_ENDING : end;
    } while (!__atomic_compare_exchange_n(timing, &now, next, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    return now == WIRE_AGENT_TIMED;
}

/* To set the default drops what is pending. */
bool agent_timer_end_all(enum wire_agent_timing end, bool handled)
{
    struct wire_agent_process *process = agent_process();
    uint32_t ending = WIRE_AGENT_ENDING;
    if (!leave_timing(&process->timing, end))
        return false;
    bool kept = handled && is_signal_awaited();
    for (uint32_t i = 0; i < WIRE_AGENT_TIMERS; i++)
        if (timer_table()[i].tid != 0)
            delete_timer(process, &timer_table()[i]);
    if (!kept && !is_signal_taken())
        timer_call(SYS_rt_sigaction, own_signal(), (uint64_t)&process->before, 0, sizeof(uint64_t));
    __atomic_compare_exchange_n(&process->timing, &ending, end, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    return kept;
}

void agent_timer_end_for_good(void)
{
    if (!agent_process_is_counted() ||
        __atomic_load_n(&agent_process()->state, __ATOMIC_ACQUIRE) != WIRE_AGENT_RUNNING)
        return;
    uint32_t timing = __atomic_load_n(&agent_process()->timing, __ATOMIC_ACQUIRE);
    if (timing != WIRE_AGENT_UNTIMED && timing != WIRE_AGENT_OVER && is_itself(agent_process()))
        agent_timer_end_all(WIRE_AGENT_OVER, false);
}

/* The parent's timers may have ended, moved or begun since the fork. The handlers are as they were then. */
void agent_timer_inherit(struct wire_agent_process *child, const struct wire_agent_process *parent)
{
    const struct wire_agent_control *control = agent_control();
    const struct wire_agent_action none = {0, 0, 0, 0};
    const uint32_t signals[] = {control->timer_signal, control->timer_other};
    child->timing = __atomic_load_n(&parent->timing, __ATOMIC_ACQUIRE);
    child->timer_signal = parent->timer_signal;
    child->before = parent->before;
    if (child->timing == WIRE_AGENT_UNTIMED || !agent_may(WIRE_AGENT_CALL_TIMERS))
        return;
    if (child->timing == WIRE_AGENT_TIMED)
        child->timing = WIRE_AGENT_UNTIMED;
    for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++) {
        if (signals[i] == 0 || handler_of(signals[i]) != control->action.handler)
            continue;
        child->timing = WIRE_AGENT_TIMED;
        if (child->timer_signal != signals[i])
            child->before = none;
        child->timer_signal = signals[i];
    }
}

void agent_timer_stay(void)
{
    const uint32_t *alive = (const uint32_t *)agent_parameters.alive;
    if (__atomic_load_n(alive, __ATOMIC_ACQUIRE) != AGENT_ALIVE ||
        agent_parameters.process == (uint64_t)agent_process_inert)
        return; /* timers of a fork's child never move */
    uint32_t *unmovable = &agent_process()->unmovable;
    if (__atomic_load_n(unmovable, __ATOMIC_RELAXED) == 0)
        __atomic_exchange_n(unmovable, 1, __ATOMIC_ACQ_REL); /* before what is looked at next */
}

static bool blocks_signal(void)
{
    uint64_t blocked = 0;
    timer_call(SYS_rt_sigprocmask, 0, 0, (uint64_t)&blocked, sizeof blocked);
    return blocked >> (own_signal() - 1) & 1;
}

bool agent_timer_is_small(const struct agent_signal_stack *stack)
{
    return !(stack->flags & STACK_NONE) && stack->size < STACK_LEAST;
}

static bool has_small_stack(void)
{
    struct agent_signal_stack stack = {0, 0, 0, 0};
    return timer_call(SYS_sigaltstack, 0, (uint64_t)&stack, 0, 0) == 0 && agent_timer_is_small(&stack);
}

void agent_timer_begin(void)
{
    struct wire_agent_process *process = agent_process();
    uint32_t tid = own_tid(), id = 0;
    if (find_timer(tid) != NULL && find_timer(tid)->state != WIRE_AGENT_TIMER_NONE)
        return;
    if (is_signal_taken()) {
        agent_timer_end_all(WIRE_AGENT_OVER, false);
        return;
    }
    bool small = has_small_stack();
    if (small)
        agent_timer_stay();
    struct wire_agent_timer *timer = small ? NULL : claim_timer(process, tid);
    if (timer == NULL) {
        __atomic_fetch_add(&process->untimed, 1, __ATOMIC_RELAXED);
        return;
    }
    struct timer_event event = {.value = WIRE_AGENT_TIMER_VALUE((uint64_t)(timer - timer_table())),
                                .signal = (int32_t)own_signal(),
                                .notify = THREAD_ID,
                                .tid = (int32_t)tid};
    if (timer_call(SYS_timer_create, thread_clock(), (uint64_t)&event, (uint64_t)&id, 0) < 0) {
        __atomic_store_n(&timer->tid, 0, __ATOMIC_RELEASE);
        __atomic_fetch_add(&process->untimed, 1, __ATOMIC_RELAXED);
        return;
    }
    timer->random = timer->alone_ns = 0;
    bool blocked = blocks_signal();
    __atomic_store_n(id_and_state(timer),
                     word_of(id, blocked ? WIRE_AGENT_TIMER_IDLE : WIRE_AGENT_TIMER_ARMED), __ATOMIC_RELEASE);
    if (blocked)
        __atomic_fetch_add(&process->idle, 1, __ATOMIC_RELAXED);
    else
        arm_timer(timer, draw_first_interval(timer));
    if (!is_timed(process)) /* meanwhile they ended */
        delete_timer(process, timer);
}

void agent_timer_stop(void)
{
    struct wire_agent_process *process = agent_process();
    struct wire_agent_timer *timer = find_timer(own_tid());
    bool idle = timer != NULL && change_state(timer, WIRE_AGENT_TIMER_IDLE, WIRE_AGENT_TIMER_ENDED);
    if (idle)
        __atomic_fetch_sub(&process->idle, 1, __ATOMIC_RELAXED);
    else if (timer == NULL || !change_state(timer, WIRE_AGENT_TIMER_ARMED, WIRE_AGENT_TIMER_ENDED))
        return;
    arm_timer(timer, 0);
    __atomic_fetch_add(&process->untimed, 1, __ATOMIC_RELAXED);
}

void agent_timer_rest(bool blocked)
{
    struct wire_agent_process *process = agent_process();
    if (!blocked && __atomic_load_n(&process->idle, __ATOMIC_RELAXED) == 0)
        return;
    struct wire_agent_timer *timer = find_timer(own_tid());
    if (timer == NULL)
        return;
    if (blocked && change_state(timer, WIRE_AGENT_TIMER_ARMED, WIRE_AGENT_TIMER_IDLE)) {
        __atomic_fetch_add(&process->idle, 1, __ATOMIC_RELAXED);
        arm_timer(timer, 0);
    } else if (!blocked && change_state(timer, WIRE_AGENT_TIMER_IDLE, WIRE_AGENT_TIMER_ARMED)) {
        __atomic_fetch_sub(&process->idle, 1, __ATOMIC_RELAXED);
        arm_timer(timer, draw_first_interval(timer));
    }
}

/* --- a sample --- */

/* Has tally not written its clock for long? */
static bool is_tally_silent(struct wire_agent_timer *timer, uint64_t passed_ns)
{
    const struct wire_agent_control *control = agent_control();
    uint64_t seen = __atomic_load_n(&control->now_ns, __ATOMIC_RELAXED);
    timer->alone_ns = seen == timer->seen_ns ? timer->alone_ns + passed_ns : 0;
    timer->seen_ns = seen;
    return timer->alone_ns > ALONE_NS || __atomic_load_n(&control->gone, __ATOMIC_RELAXED);
}

static void count_sample(const void *context, uint64_t amount)
{
    uint64_t sp = agent_stack_pointer(context);
    if (!agent_readable(sp))
        return;
    struct agent_thread *thread = agent_thread_interrupt(agent_thread_pointer(), sp);
    if (thread == NULL)
        return;
    uint32_t node = agent_stack_interrupted(thread, context, WIRE_AGENT_TIME);
    uint32_t cell = agent_cell_of(node, thread->group);
    if (cell != 0)
        agent_cell_sample(cell, amount);
    else
        agent_lose(WIRE_AGENT_LOSS_NO_CELL);
    agent_thread_leave(thread);
}

static void take_sample(struct wire_agent_timer *timer, const void *context)
{
    uint64_t time = thread_clock_now(), last = timer->last_ns;
    uint64_t passed = last != 0 && last < time ? time - last : agent_control()->timer_mean_ns;
    timer->last_ns = time;
    count_sample(context, passed);
    if (!is_tally_silent(timer, passed) && is_timed(agent_process()))
        arm_timer(timer, draw_interval(timer));
}

/* Somebody else's signal would have been dropped without us, and interrupted nobody: the program has a use
 * for it. True: it was a timer's, and a sample was taken. */
static bool handle_signal(const struct timer_info *info, void *context)
{
    uint64_t index = info->value - WIRE_AGENT_TIMER_VALUE(0);
    if (info->code != SI_TIMER || index >= WIRE_AGENT_TIMERS) {
        agent_timer_end_all(WIRE_AGENT_CLAIMED, false);
        return false;
    }
    struct wire_agent_timer *timer = &timer_table()[index];
    if (timer->tid != own_tid() || timer->state != WIRE_AGENT_TIMER_ARMED)
        return false;
    agent_timer_restart_settle(context);
    if (!agent_timer_restart_was_ended(context)) {
        take_sample(timer, context);
        return true;
    }
    if (change_state(timer, WIRE_AGENT_TIMER_ARMED, WIRE_AGENT_TIMER_ENDED))
        __atomic_fetch_add(&agent_process()->untimed, 1, __ATOMIC_RELAXED);
    agent_timer_stay();
    return false;
}

/* Counted while it makes system calls: who forbids them for all threads waits for it (agent_hook_filter.c).
 * The program's handlers that are let in at the end may jump out, and are not. */
static void take_signal(int signal, const struct timer_info *info, void *context)
{
    struct wire_agent_process *process = agent_process();
    if (!is_timed(process) || (uint32_t)signal != own_signal()) /* late, of timers that ended */
        return;
    __atomic_fetch_add(&process->unrecorded, 1, __ATOMIC_SEQ_CST);
    bool sampled = agent_may(WIRE_AGENT_CALL_TIMERS) && handle_signal(info, context);
    __atomic_fetch_sub(&process->unrecorded, 1, __ATOMIC_RELEASE);
    if (sampled && agent_may(WIRE_AGENT_CALL_TIMERS))
        agent_timer_restart_let_in(context);
}

void agent_timer_handler(int signal, const struct timer_info *info, void *context)
{
    take_signal(signal, info, context);
    if (agent_timer_restart_is_continued(context))
        agent_timer_continue(context);
}
