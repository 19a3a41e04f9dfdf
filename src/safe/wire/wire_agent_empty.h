/* wire_agent_empty.h - how pages of blocks that nobody made use of are known (--empty).
 *
 * Context: anywhere. */
#ifndef WIRE_AGENT_EMPTY_H
#define WIRE_AGENT_EMPTY_H

#include <stdint.h>

#include "wire_agent_control.h"

/* What fills a fresh block: no address, no small number, no text; every byte of it is another one, and none
 * is 0. */
#define WIRE_AGENT_PATTERN UINT64_C(0xd36b9ec578f1a42d)
/* What an empty page holds, and nothing else. */
static inline uint64_t wire_agent_empty_word(uint32_t flags)
{
    return flags & WIRE_AGENT_UNUSED ? WIRE_AGENT_PATTERN : 0;
}

#endif
