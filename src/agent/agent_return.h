/* agent_return.h - return addresses that are replaced: each by a block of code that knows it. */
#ifndef AGENT_RETURN_H
#define AGENT_RETURN_H

#include <stdint.h>

#include "wire_agent_return.h"

extern const uint8_t agent_return_blocks[];        /* code: agent_call_x86_64_return.S */
extern uint64_t agent_returns[WIRE_AGENT_RETURNS]; /* the real ones, by block; 0: free */

/* The real return address, when the word is one of ours; else the word. */
static inline uint64_t agent_return_real(uint64_t word)
{
    return wire_agent_return((uint64_t)agent_return_blocks, agent_returns, word);
}
/* The copy in the region, for tally. */
uint64_t *agent_return_copy(void);
/* In a fork's child: its region has what its parent's had. */
void agent_return_publish(void);

#endif
