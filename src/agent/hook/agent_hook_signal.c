/* What the program does about signals, as far as it concerns the one that the timers use (agent_timer.c).
 *
 * All of it is done before the body, which is then jumped to: nothing of ours is on the stack when a signal
 * that is let through comes, and its handler may jump anywhere. Only where the program asks for, or sets, the
 * default action of the signal, or sets a handler that one waits for, it is answered: it gets what it would
 * without us.
 *
 *   blocks the signal, or no more   the thread's timer rests, or goes on. Set before the mask changes: a
 *                                   signal that comes in between waits until then
 *   takes the signal                all timers end, and the signal is the program's; tally may make them anew
 *                                   with another one
 *   resets the signal               it is given the action that it knows of, and the handler is set again
 *   takes a seccomp filter          all timers end for good, if that forbids what the handler calls
 *                                   (agent_hook_filter.c)
 *   makes an io_uring               the same: its waiting would be interrupted
 *   takes, or blocks, that other    it is noted, and the timers do not move
 *   sets a small stack for signals  the thread's timer ends: the handler would run over its end */
#include <sys/syscall.h>

#include "agent.h"
#include "agent_hook_filter.h"
#include "agent_process.h"
#include "agent_readable.h"
#include "agent_timer.h"
#include "arch.h"
#include "wire_agent_timer.h"

#define IGNORED     1 /* SIG_IGN */
#define SIG_UNBLOCK 1
#define SIG_SETMASK 2
#define CALL_RING   425 /* SYS_io_uring_setup, which old headers lack */

/* struct sigaction of C libraries, who fill in the first 8 bytes of the mask. */
struct action {
    uint64_t handler, mask[16];
    uint32_t flags, zero;
    uint64_t restorer;
};

static const struct agent_answer go_on = {0, 0};

struct agent_answer agent_wrap_mask(const struct agent_frame *frame, uint64_t how, uint64_t set);
struct agent_answer agent_wrap_action(const struct agent_frame *frame, uint64_t signal, uint64_t action,
                                      uint64_t old);
struct agent_answer agent_wrap_stack(const struct agent_frame *frame, uint64_t stack);
struct agent_answer agent_wrap_ring(const struct agent_frame *frame);
struct agent_answer agent_wrap_syscall(const struct agent_frame *frame, uint64_t number, uint64_t first,
                                       uint64_t second, uint64_t third);

static bool is_timer_signal(uint64_t signal)
{
    const struct wire_agent_control *control = agent_control();
    bool may_be = (uint32_t)signal != 0 &&
                  ((uint32_t)signal == control->timer_signal || (uint32_t)signal == control->timer_other);
    return may_be && agent_timer_is_on() && (uint32_t)signal == agent_process()->timer_signal;
}

static bool is_other_signal(uint64_t signal)
{
    return (uint32_t)signal != 0 && (uint32_t)signal == agent_control()->timer_other;
}

static bool set_has(uint64_t set, uint32_t signal)
{
    return signal != 0 && *(const uint64_t *)set >> ((signal - 1) & 63) & 1;
}

struct agent_answer agent_wrap_mask(const struct agent_frame *frame, uint64_t how, uint64_t set)
{
    (void)frame;
    const struct wire_agent_process *process = agent_process();
    if (set == 0 || (uint32_t)how > SIG_SETMASK || process->timing == WIRE_AGENT_UNTIMED ||
        process->timing == WIRE_AGENT_OVER || !agent_readable(set))
        return go_on;
    if ((uint32_t)how != SIG_UNBLOCK && set_has(set, agent_control()->timer_other))
        agent_timer_stay();
    bool named = set_has(set, process->timer_signal), blocked = named && (uint32_t)how != SIG_UNBLOCK;
    bool concerns = named || (uint32_t)how == SIG_SETMASK;
    if (concerns && (blocked || process->idle != 0) && agent_timer_is_on())
        agent_timer_rest(blocked);
    return go_on;
}

static void fill_in_old(struct action *old, const struct wire_agent_action *before)
{
    if (old == NULL)
        return;
    old->handler = before->handler;
    old->mask[0] = before->mask;
    old->flags = (uint32_t)before->flags;
    old->restorer = before->restorer;
}

static uint64_t call_action_body(const struct agent_frame *frame, uint64_t signal, uint64_t action,
                                 struct action *old)
{
    return ((uint64_t(*)(uint64_t, uint64_t, struct action *))frame->hook->body)(signal, action, old);
}

/* The default action in another form: the C library sets it, and in exchange for the handler the kernel says
 * what it was. Between these two the signal is ignored. While it is counted here, the timers do not move. */
static struct agent_answer reset_action(const struct agent_frame *frame, uint64_t signal, uint64_t action,
                                        struct action *old)
{
    struct wire_agent_process *process = agent_process();
    __atomic_fetch_add(&process->unrecorded, 1, __ATOMIC_ACQ_REL);
    if (!is_timer_signal(signal)) { /* they ended since that was asked */
        __atomic_fetch_sub(&process->unrecorded, 1, __ATOMIC_RELEASE);
        return go_on;
    }
    const struct wire_agent_action before = process->before;
    struct wire_agent_action found = before;
    uint64_t result = call_action_body(frame, signal, action, old);
    if ((uint32_t)result == 0) {
        arch_host_syscall(SYS_rt_sigaction, signal, (uint64_t)&agent_control()->action, (uint64_t)&found, 8,
                          0, 0);
        if (found.handler != agent_control()->action.handler) /* else another thread was first */
            process->before = found;
        if (!is_timer_signal(signal)) /* somebody else took it meanwhile */
            arch_host_syscall(SYS_rt_sigaction, signal, (uint64_t)&process->before, 0, 8, 0, 0);
        fill_in_old(old, &before);
    }
    __atomic_fetch_sub(&process->unrecorded, 1, __ATOMIC_RELEASE);
    return (struct agent_answer){1, result};
}

/* Where one waits, our handler is there until then: the program is given what it knows. It is blocked here,
 * and so comes later. */
static struct agent_answer take_signal(const struct agent_frame *frame, uint64_t signal, uint64_t action,
                                       struct action *old)
{
    struct wire_agent_process *process = agent_process();
    const struct wire_agent_action before = process->before;
    __atomic_fetch_add(&process->unrecorded, 1, __ATOMIC_ACQ_REL);
    bool waits = agent_timer_end_all(WIRE_AGENT_CLAIMED, *(const uint64_t *)action != IGNORED);
    uint64_t result = waits ? call_action_body(frame, signal, action, old) : 0;
    if (waits && (uint32_t)result == 0)
        fill_in_old(old, &before);
    __atomic_fetch_sub(&process->unrecorded, 1, __ATOMIC_RELEASE);
    return (struct agent_answer){waits, result};
}

struct agent_answer agent_wrap_action(const struct agent_frame *frame, uint64_t signal, uint64_t action,
                                      uint64_t old)
{
    if (is_other_signal(signal) && action != 0 && *(const uint64_t *)action != 0)
        agent_timer_stay();
    if (!is_timer_signal(signal))
        return go_on;
    if (action != 0 && *(const uint64_t *)action == 0)
        return reset_action(frame, signal, action, (struct action *)old);
    if (action != 0)
        return take_signal(frame, signal, action, (struct action *)old);
    fill_in_old((struct action *)old, &agent_process()->before);
    return (struct agent_answer){1, 0};
}

struct agent_answer agent_wrap_stack(const struct agent_frame *frame, uint64_t stack)
{
    (void)frame;
    if (stack == 0 || !agent_readable(stack) ||
        !agent_readable(stack + sizeof(struct agent_signal_stack) - 1) ||
        !agent_timer_is_small((const struct agent_signal_stack *)stack))
        return go_on;
    agent_timer_stay();
    if (agent_timer_is_on())
        agent_timer_stop();
    return go_on;
}

struct agent_answer agent_wrap_ring(const struct agent_frame *frame)
{
    (void)frame;
    agent_timer_end_for_good();
    return go_on;
}

/* By its number: what bypasses the functions above. */
struct agent_answer agent_wrap_syscall(const struct agent_frame *frame, uint64_t number, uint64_t first,
                                       uint64_t second, uint64_t third)
{
    agent_hook_filter_call(number, first, second, third);
    if (number == CALL_RING)
        agent_timer_end_for_good();
    if (number == SYS_sigaltstack)
        return agent_wrap_stack(frame, first);
    if (number != SYS_rt_sigaction || second == 0)
        return go_on;
    if (is_other_signal(first))
        agent_timer_stay();
    if (is_timer_signal(first))
        agent_timer_end_all(WIRE_AGENT_CLAIMED, false);
    return go_on;
}
