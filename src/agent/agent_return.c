/* The table of replaced return addresses. agent_call_function.c explains it.
 *
 * It is hashed by address and only ever filled. A word of it is written once, before anybody can come to its
 * block, so neither a lock nor a moment matters. It lies in the image, because a block reads it before it has
 * a register to spare, and a copy in the region, for tally. */
#include "agent_return.h"

#include "agent_process.h"
#include "wire_agent_layout.h"

__attribute__((visibility("hidden"))) uint64_t agent_returns[WIRE_AGENT_RETURNS];

uint64_t *agent_return_copy(void)
{
    return agent_part(wire_agent_layout(agent_control()->memory).returns);
}

void agent_return_publish(void)
{
    uint64_t *copy = agent_return_copy();
    for (uint32_t i = 0; i < WIRE_AGENT_RETURNS; i++)
        if (agent_returns[i] != 0)
            copy[i] = agent_returns[i];
}
