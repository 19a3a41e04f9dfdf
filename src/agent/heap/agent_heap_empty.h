/* agent_heap_empty.h - pages of blocks that nobody made use of (--empty). */
#ifndef AGENT_HEAP_EMPTY_H
#define AGENT_HEAP_EMPTY_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes of the whole pages in the block that are empty; 0 when nobody asked. The block is the caller's. */
uint64_t agent_heap_empty_bytes(uint64_t block, uint64_t size);
/* Are fresh blocks to be filled? */
bool agent_heap_empty_fills(void);
/* [from, to) with the pattern. */
void agent_heap_empty_fill(uint64_t from, uint64_t to);

#endif
