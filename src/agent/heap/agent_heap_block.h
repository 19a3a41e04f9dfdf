/* agent_heap_block.h - live blocks: address to size and cell. */
#ifndef AGENT_HEAP_BLOCK_H
#define AGENT_HEAP_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct agent_heap_block {
    uint64_t size;
    uint32_t cell;
    uint32_t level; /* that it was sampled at (wire_agent_block.h) */
};
/* Fetches what one of the following will need: the tables are far larger than caches, and work can be done
 * meanwhile. */
void agent_heap_block_expect(uint64_t address);
/* False: no room. The process's level rises before there is none. */
bool agent_heap_block_insert(uint64_t address, struct agent_heap_block block);
/* False: not known. */
bool agent_heap_block_remove(uint64_t address, struct agent_heap_block *block);

#endif
