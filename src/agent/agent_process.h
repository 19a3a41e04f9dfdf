/* agent_process.h - the process: its region, its losses, and whether it is counted. */
#ifndef AGENT_PROCESS_H
#define AGENT_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "wire_agent_control.h"
#include "wire_agent_loss.h"
#include "wire_agent_parameters.h"
#include "wire_agent_pending.h"
#include "wire_agent_process.h"

extern struct wire_agent_parameters agent_parameters;

static inline struct wire_agent_process *agent_process(void)
{
    return (struct wire_agent_process *)agent_parameters.process;
}
static inline struct wire_agent_control *agent_control(void)
{
    return (struct wire_agent_control *)agent_parameters.control;
}
/* A part of the region, by its offset (wire_agent_layout). */
static inline void *agent_part(uint64_t offset)
{
    return (void *)(agent_parameters.process + offset);
}
static inline struct wire_agent_own *agent_own(void)
{
    return (struct wire_agent_own *)agent_parameters.own;
}
static inline void agent_lose(enum wire_agent_loss loss)
{
    __atomic_fetch_add(&agent_process()->losses[loss], 1, __ATOMIC_RELAXED);
}

/* The word of the page at agent_parameters.alive. */
enum agent_alive { AGENT_FORKED = 0, AGENT_ALIVE = 1, AGENT_SETTING_UP = 2 };
/* The region of a process that counts nothing. */
extern const uint64_t agent_process_inert[8];

/* Sets up a fork's child, once; false: it is not counted. Defined in agent_hook_fork.c, above all that it
 * sets up: whoever first comes to a hook in a child calls it, wherever that is, so this is the one call that
 * goes upwards. */
bool agent_process_set_up_child(uint32_t *alive);
/* Is this process one with a region of its own? A fork's child finds out here, once. */
static inline bool agent_process_is_counted(void)
{
    uint32_t *alive = (uint32_t *)agent_parameters.alive;
    if (__builtin_expect(__atomic_load_n(alive, __ATOMIC_ACQUIRE) == AGENT_ALIVE, 1))
        return __builtin_expect(agent_parameters.process != (uint64_t)agent_process_inert, 1);
    return agent_process_set_up_child(alive);
}

#endif
