/* agent_memory.h - how much of each part of the shared memory is mapped. */
#ifndef AGENT_MEMORY_H
#define AGENT_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "agent_process.h"
#include "wire_agent_layout.h"

/* Grows a part until `bytes` of it can be used. False: the kernel refuses, so the part is full for now. Waits
 * two milliseconds at most. */
bool agent_memory_grow(enum wire_agent_part part, uint64_t bytes);
/* Can so many bytes of the part be used? Whoever makes an index asks; who finds one need not. */
static inline bool agent_memory_has(enum wire_agent_part part, uint64_t bytes)
{
    return __builtin_expect(__atomic_load_n(&agent_parameters.mapped[part], __ATOMIC_ACQUIRE) >= bytes, 1) ||
           agent_memory_grow(part, bytes);
}
/* Lets other threads run that grow a part: a tenth of a millisecond, or not at all where the program may not
 * make the call. */
void agent_memory_wait(void);
/* In a fork's child, before anything is counted: shows region `number` in the place of the parent's, as
 * little of it as there is at first. False: that may not be, and the parent's head is still there. */
bool agent_memory_show(uint32_t number);
/* A second view of the first `bytes` of a shared part, which stays when another region is shown; NULL:
 * none. */
const void *agent_memory_view(enum wire_agent_part part, uint64_t bytes);
void agent_memory_end_view(const void *view, uint64_t bytes);

/* The next of the numbers 1 .. limit - 1, of items of `size` bytes in a part; 0: none is left. */
static inline uint32_t agent_memory_number(uint32_t *count, uint64_t limit, enum wire_agent_part part,
                                           uint64_t size)
{
    uint64_t next = __atomic_load_n(count, __ATOMIC_RELAXED) + UINT64_C(1);
    if (next >= limit || !agent_memory_has(part, (next + 1) * size))
        return 0;
    uint32_t number = __atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
    if (number < limit)
        return agent_memory_has(part, (number + UINT64_C(1)) * size) ? number : 0; /* then it is nobody's */
    __atomic_fetch_sub(count, 1, __ATOMIC_RELAXED);
    return 0;
}

#endif
