/* agent_layer.h - the allocators of the process (wire_agent_layer.h). */
#ifndef AGENT_LAYER_H
#define AGENT_LAYER_H

#include <stdbool.h>
#include <stdint.h>

#include "agent.h"
#include "wire_agent_layer.h"

/* The one that the hooked function is of; NULL: none. */
const struct wire_agent_layer *agent_layer_of(const struct agent_frame *frame);
/* Does the address lie in a hooked allocator? Calls from there are its own, and not counted. */
bool agent_layer_is_inner(uint64_t address);

#endif
