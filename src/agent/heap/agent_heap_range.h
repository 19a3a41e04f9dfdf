/* agent_heap_range.h - mapped memory: ranges of addresses, each with the cell of who mapped it. */
#ifndef AGENT_HEAP_RANGE_H
#define AGENT_HEAP_RANGE_H

#include <stdint.h>

/* Numbers order what happens. Those that are drawn later are larger. */
uint64_t agent_heap_range_number(void);
/* [start, end) was mapped, and is counted in the cell. */
void agent_heap_range_add(uint64_t start, uint64_t end, uint32_t cell);
/* It was unmapped, by a call before which `number` was drawn. */
void agent_heap_range_remove(uint64_t start, uint64_t end, uint64_t number);

#endif
