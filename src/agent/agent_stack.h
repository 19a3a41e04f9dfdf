/* agent_stack.h - from a stack to a node of the tree. */
#ifndef AGENT_STACK_H
#define AGENT_STACK_H

#include <stdint.h>

#include "agent.h"
#include "agent_thread.h"
#include "wire_agent_node.h"

/* The node of the caller's stack under the collector's root; 0: no room for any. */
uint32_t agent_stack_node(struct agent_thread *thread, const struct agent_frame *frame,
                          enum wire_agent_collector collector);
/* Its cell; 0: no room for it. A collector asks for nodes or for cells, and not for both. */
uint32_t agent_stack_cell(struct agent_thread *thread, const struct agent_frame *frame,
                          enum wire_agent_collector collector);
/* The node of what a signal interrupted; `context` is the handler's third argument. */
uint32_t agent_stack_interrupted(struct agent_thread *thread, const void *context,
                                 enum wire_agent_collector collector);
/* The stack pointer there. */
uint64_t agent_stack_pointer(const void *context);

#endif
