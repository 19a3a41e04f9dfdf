/* agent_pending.h - calls of a thread whose return is to be seen. agent_call_function.c explains it. */
#ifndef AGENT_PENDING_H
#define AGENT_PENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "agent_may.h"
#include "agent_thread.h"
#include "wire_agent_pending.h"

/* The record's list of pending calls, where there was no room for it: if there is now, it has one. */
void agent_pending_open(struct agent_thread *thread);
/* Can one more be pending, at this slot? */
bool agent_pending_has_room(struct wire_agent_calls *calls, uint64_t slot);

/* A call with its return address at `slot` begins or ends: pending calls that a jump has left are dropped.
 * `same`: the slot holds a block, so the call pending there has left by a tail call and is not over. */
void agent_pending_drop_left(struct agent_thread *thread, struct wire_agent_calls *calls, uint64_t slot,
                             bool same);
/* Adds what a call took to its stack's cell, and to the call that it is in. */
void agent_pending_finish(struct agent_thread *thread, struct wire_agent_pending *pendings, uint32_t index,
                          uint64_t now);
/* Whatever is below the slot is pending no more, and not timed. */
void agent_pending_sweep(struct wire_agent_calls *calls, uint64_t slot);
/* The record's thread has ended: what was pending is forgotten, and counted. */
void agent_pending_forget(struct agent_thread *thread);
/* In a fork's child: what is pending are its parent's calls, whose returns are nobody's; where they stand is
 * remembered. */
void agent_pending_inherit(void);

/* Where no list says it: the highest slot above `low` where a replaced address may stand; 0: there is
 * none. */
uint64_t agent_pending_highest_stale(uint64_t low);
#define AGENT_PENDING_STACK_MOST (UINT64_C(64) << 20) /* the largest stack that is looked through for them */

/* The real addresses were put back in [low, high) of a stack, `now`: calls there will not be seen to
 * return. */
void agent_pending_forget_put_back(struct agent_thread *thread, uint64_t low, uint64_t high, uint64_t now);
/* The same while the thread is inside and may be about to change the list: whoever does settles it first. */
void agent_pending_remember_put_back(struct agent_thread *thread, uint64_t low, uint64_t high);
void agent_pending_settle_put_back(struct agent_thread *thread);

/* The wrapper's own work begins, or ends, in a thread that is inside: the time of calls that are pending
 * stands still between the two. */
static inline void agent_pending_pause(struct agent_thread *thread)
{
    if (__builtin_expect(thread->calls != NULL, 0))
        thread->working = thread->calls->count != 0 ? agent_ticks() : 0;
}
static inline void agent_pending_resume(struct agent_thread *thread)
{
    if (__builtin_expect(thread->working != 0, 0)) {
        thread->spent += agent_ticks() - thread->working;
        thread->working = 0;
    }
}

#endif
