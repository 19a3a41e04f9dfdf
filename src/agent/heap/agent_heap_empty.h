/* agent_heap_empty.h - pages of blocks that nobody made use of (--empty). */
#ifndef AGENT_HEAP_EMPTY_H
#define AGENT_HEAP_EMPTY_H

#include <stdbool.h>
#include <stdint.h>

#include "agent_process.h"

/* Did anybody ask for them? Most do not, at each release. */
static inline bool agent_heap_empty_asked(void)
{
    return (agent_control()->flags & WIRE_AGENT_EMPTY) != 0;
}
/* Bytes of the whole pages in the block that are empty, where somebody asked. The block is the caller's. */
uint64_t agent_heap_empty_bytes(uint64_t block, uint64_t size);
/* Are fresh blocks to be filled? */
bool agent_heap_empty_fills(void);
/* [from, to) with the pattern. */
void agent_heap_empty_fill(uint64_t from, uint64_t to);

#endif
