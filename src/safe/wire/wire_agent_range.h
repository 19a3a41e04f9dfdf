/* wire_agent_range.h - changes of mapped memory that wait (process.range_waiting).
 *
 * Context: anywhere. */
#ifndef WIRE_AGENT_RANGE_H
#define WIRE_AGENT_RANGE_H

#include <stdint.h>

#define WIRE_AGENT_RANGE_BYTES 64

/* A change of mapped memory that waits for whoever changes the ranges now (agent_heap_range.c). The agent's
 * own. */
struct wire_agent_change {
    uint64_t start, end, number;
    uint32_t cell;  /* 0: it was unmapped */
    uint32_t state; /* 0: free; 1: being written; 2: it waits */
};
#define WIRE_AGENT_CHANGES 512
_Static_assert(WIRE_AGENT_CHANGES * sizeof(struct wire_agent_change) % 4096 == 0, "pages");

#endif
