/* wire_agent_return.h - return addresses that are replaced, and what they stand for.
 *
 * Block i is WIRE_AGENT_BLOCK bytes of code; what stands on a stack in the place of a return address is its
 * WIRE_AGENT_BLOCK_BACK, and the real one is word i of the part `returns`, once and for all.
 *
 * Context: anywhere. */
#ifndef WIRE_AGENT_RETURN_H
#define WIRE_AGENT_RETURN_H

#include <stdint.h>

#define WIRE_AGENT_RETURNS    8192 /* return addresses that can be replaced: places that call functions */
#define WIRE_AGENT_BLOCK      16
#define WIRE_AGENT_BLOCK_BACK 4

/* The real return address behind what a program counter or a word on a stack says; `word` itself when it is
 * none of ours. `returns`: the part, or a copy. */
static inline uint64_t wire_agent_return(uint64_t start, const uint64_t *returns, uint64_t word)
{
    uint64_t offset = word - start;
    if (start == 0 || offset >= (uint64_t)WIRE_AGENT_RETURNS * WIRE_AGENT_BLOCK ||
        offset % WIRE_AGENT_BLOCK > WIRE_AGENT_BLOCK_BACK)
        return word;
    uint64_t real = returns[offset / WIRE_AGENT_BLOCK];
    return real != 0 ? real : word;
}

#endif
