/* agent_timer.h - samples of time: one timer a thread, on its own CPU clock. */
#ifndef AGENT_TIMER_H
#define AGENT_TIMER_H

#include <stdbool.h>
#include <stdint.h>

#include "agent.h"
#include "wire_agent_process.h"
#include "wire_agent_timer.h"

/* Is time sampled in this process, and is this it, not a vfork's child in its memory? */
bool agent_timer_is_on(void);
/* This thread gets a timer, unless it has one. */
AGENT_BY_NAME void agent_timer_begin(void);
/* This thread blocks the signal from now on, or does no more. */
void agent_timer_rest(bool blocked);
/* This thread has no samples any more. */
void agent_timer_stop(void);
/* Where agent_timer_is_on: no timers any more, in no thread; the signal is as if there had been none.
 * CLAIMED: tally may make new ones with the other signal. OVER: it may not. `handled`: the caller sets a
 * handler of the program's next. True: a signal of the program's is pending, so our handler stays until the
 * caller replaces it. */
bool agent_timer_end_all(enum wire_agent_timing end, bool handled);
/* OVER, whether there are timers now or not; may be called anywhere. */
void agent_timer_end_for_good(void);
/* A new child's region: whether it is timed, and by which signal, as it has inherited it. */
void agent_timer_inherit(struct wire_agent_process *child, const struct wire_agent_process *parent);
/* The program has a use for the other signal, or a thread that is to have no timer: they are not to move. */
void agent_timer_stay(void);

struct agent_signal_stack { /* the kernel's stack_t */
    uint64_t start;
    uint32_t flags, zero;
    uint64_t size;
};
/* Is there a stack for signals, and no room on it for the timers' handler? */
bool agent_timer_is_small(const struct agent_signal_stack *stack);

#endif
