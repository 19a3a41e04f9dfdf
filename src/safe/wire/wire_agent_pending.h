/* wire_agent_pending.h - calls that have not returned yet, and where replaced return addresses stand.
 *
 * Context: anywhere. */
#ifndef WIRE_AGENT_PENDING_H
#define WIRE_AGENT_PENDING_H

#include <stddef.h>
#include <stdint.h>

#include "wire_agent_thread.h"

#define WIRE_AGENT_PENDING     1023 /* calls of hooked functions that a thread can be in at once */
#define WIRE_AGENT_STALE_COUNT 2048 /* pages of stacks with stale slots (agent_call_function.c) */

/* A call that has not returned yet. Of one that opens descriptors, start is process.descriptor_events when it
 * began, and inner the argument that says where they are written. */
struct wire_agent_pending {
    uint64_t slot;  /* where its return address stands */
    uint64_t start; /* ticks */
    uint64_t inner; /* ticks in calls from it that are timed themselves */
    uint32_t cell;
    uint32_t how; /* enum wire_agent_how: it may open descriptors; 0: it is timed */
};
_Static_assert(sizeof(struct wire_agent_pending) == 32, "shared layout");

/* Those of a thread's record, the latest last. */
struct wire_agent_calls {
    uint32_t count, zero[7];
    struct wire_agent_pending items[WIRE_AGENT_PENDING];
};

/* Slots of one page where words of ours may still stand, though no call is pending there. */
#define WIRE_AGENT_STALE_PAGE UINT64_C(4096)
struct wire_agent_stale {
    uint64_t page;                                  /* its address; 0: free */
    uint64_t slots[WIRE_AGENT_STALE_PAGE / 8 / 64]; /* a bit for each word */
};

struct wire_agent_known {
    uint64_t used[WIRE_AGENT_THREADS / 64]; /* a bit for each record: its calls were used */
    uint32_t stale_lost;                    /* not 0: there may be some that are not listed */
    uint32_t zero[15];
    struct wire_agent_stale stale[WIRE_AGENT_STALE_COUNT];
};

/* Where replaced return addresses stand: in memory of the process's own, mapped privately, not in its region.
 * So a fork's child has at once, and exactly, what its parent's memory had when it was copied, and whoever
 * takes the agent out of it finds it there, counted or not. Hardly any of it is ever written. */
struct wire_agent_own {
    struct wire_agent_known known;
    struct wire_agent_calls calls[WIRE_AGENT_THREADS]; /* by number of the record */
};
_Static_assert(offsetof(struct wire_agent_own, calls) % 64 == 0, "whole cache lines");

#endif
