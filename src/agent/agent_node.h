/* agent_node.h - the tree of nodes. */
#ifndef AGENT_NODE_H
#define AGENT_NODE_H

#include <stdint.h>

#include "agent_process.h"
#include "wire_agent_layout.h"
#include "wire_agent_node.h"

/* The child of `parent` for this frame, made if need be; 0: none is left. */
uint32_t agent_node_child(uint32_t parent, uint64_t pc, uint32_t cookie, uint32_t flags);
static inline struct wire_agent_node *agent_node_at(uint32_t node)
{
    struct wire_agent_layout layout = wire_agent_layout(agent_control()->memory);
    return (struct wire_agent_node *)agent_part(layout.nodes) + node;
}

#endif
