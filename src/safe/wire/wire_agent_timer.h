/* wire_agent_timer.h - samples of time inside the target: one timer a thread.
 *
 * Context: anywhere. */
#ifndef WIRE_AGENT_TIMER_H
#define WIRE_AGENT_TIMER_H

#include <stddef.h>
#include <stdint.h>

/* The kernel's struct sigaction. */
struct wire_agent_action {
    uint64_t handler, flags, restorer, mask;
};

/* Of a thread's two CPU clocks, as their numbers have it (include/linux/posix-timers.h). */
enum wire_agent_clock { WIRE_AGENT_CLOCK_USER = 1, WIRE_AGENT_CLOCK_CPU = 2 };

/* process.timing */
enum wire_agent_timing {
    WIRE_AGENT_UNTIMED = 0,
    WIRE_AGENT_TIMED,  /* the handler is set; threads have timers, and new ones make theirs */
    WIRE_AGENT_ENDING, /* the timers are being taken away */
    /* the program took the signal: no timers, unless tally makes new ones with the other one */
    WIRE_AGENT_CLAIMED,
    /* no timers any more: a filter of system calls, io_uring, or the signal was taken unseen */
    WIRE_AGENT_OVER,
};

/* A thread's timer. Tally makes those of threads that run already; `call` is what its system calls read. */
struct wire_agent_timer {
    uint32_t tid; /* 0: free. A thread that ended leaves it to be taken over */
    uint32_t zero;
    uint32_t id;      /* the kernel's number; in the states but NONE, together with which it is written */
    uint32_t state;   /* enum wire_agent_timer_state */
    uint64_t last_ns; /* of the thread's clock, when the last sample was taken; 0: not known */
    uint64_t random;  /* 0: not drawn yet */
    uint64_t seen_ns, alone_ns; /* control.now_ns as it was last seen, and how long it has not changed */
    uint64_t call[8];           /* struct sigevent, or struct itimerspec */
    uint64_t unused[2];
};
_Static_assert(sizeof(struct wire_agent_timer) == 128, "shared layout");
_Static_assert(offsetof(struct wire_agent_timer, id) % 8 == 0 &&
                   offsetof(struct wire_agent_timer, state) == offsetof(struct wire_agent_timer, id) + 4,
               "id and state are one word");
enum wire_agent_timer_state {
    WIRE_AGENT_TIMER_NONE = 0,
    WIRE_AGENT_TIMER_IDLE, /* its thread blocks the signal */
    WIRE_AGENT_TIMER_ARMED,
    WIRE_AGENT_TIMER_ENDED /* not armed any more */
};
#define WIRE_AGENT_TIMERS 1024
/* A thread's timer is at one of the PROBES places from its home on, and round. */
#define WIRE_AGENT_TIMER_PROBES 32
static inline uint32_t wire_agent_timer_home(uint32_t tid)
{
    return tid * UINT32_C(0x9e3779b1) >> 22; /* 10 bits */
}
#define WIRE_AGENT_TIMER_VALUE(index) (UINT64_C(0x59414c54) << 32 | (index)) /* sigev_value */

/* What a new thread is to run when it has its timer; the agent's own. */
struct wire_agent_start {
    uint64_t used, routine, argument, zero;
};
#define WIRE_AGENT_STARTS 1024

#endif
