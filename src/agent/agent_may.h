/* agent_may.h - what the agent may do: system calls, and reading the processor's clock. A program may forbid
 * itself any of them (agent_hook_filter.c finds out). */
#ifndef AGENT_MAY_H
#define AGENT_MAY_H

#include <stdbool.h>
#include <stdint.h>

#include "agent_process.h"
#include "arch.h"
#include "wire_agent_call.h"

/* Arguments of such calls that several files make. */
#define AGENT_FUTEX_WAIT     0
#define AGENT_FUTEX_WAKE     1
#define AGENT_FUTEX_WAIT_OWN 128 /* of memory that no other process has */
#define AGENT_FUTEX_COMPARE  132 /* FUTEX_CMP_REQUEUE_PRIVATE of nobody: is the word what is said? */
#define AGENT_NO_SIGNAL      65
#define AGENT_MAKE_PAGES     23 /* MADV_POPULATE_WRITE, which old headers lack */

/* Is none of these (enum wire_agent_call) forbidden? Asked before each. */
static inline bool agent_may(uint32_t calls)
{
    return __builtin_expect((__atomic_load_n(&agent_parameters.forbidden, __ATOMIC_RELAXED) & calls) == 0, 1);
}
/* The processor's clock; 0: it may not be read. */
static inline uint64_t agent_ticks(void)
{
    return agent_may(WIRE_AGENT_CALL_TICKS) ? arch_host_ticks() : 0;
}
/* None of these is made any more in this process. The region says so too, if there is one. */
void agent_may_forbid(uint32_t calls);
/* May this thread read the clock? One that was there before the agent, or whose creator was not seen. */
void agent_may_look(void);
/* The signals that wait for this thread, one bit each, since they are blocked. */
uint64_t agent_may_pending(void);

/* Signals, one bit each: all of them; and those that no instruction of the thread itself raises. The kernel
 * ends a process whose instruction raises one that is blocked, even where the program handles it. */
#define AGENT_SIGNALS_ALL   UINT64_MAX
#define AGENT_SIGNALS_ASYNC (~UINT64_C(0x400004d8)) /* without SIGILL, TRAP, BUS, FPE, SEGV and SYS */
/* Blocks signals for this thread; *before is what was blocked, for agent_may_unblock. Between the two no code
 * but the agent's runs. False: it is forbidden (WIRE_AGENT_CALL_MASK), or was refused, and nothing is blocked. */
bool agent_may_block(uint64_t signals, uint64_t *before);
void agent_may_unblock(uint64_t before);

#endif
