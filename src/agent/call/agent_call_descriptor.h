/* agent_call_descriptor.h - what is open. */
#ifndef AGENT_CALL_DESCRIPTOR_H
#define AGENT_CALL_DESCRIPTOR_H

#include <stdint.h>

#include "agent_thread.h"
#include "wire_agent_pending.h"
#include "wire_agent_process.h"

/* A pending call that may open descriptors has returned. */
void agent_call_descriptor_returned(struct agent_thread *thread, const struct wire_agent_pending *call,
                                    uint64_t result);
/* Bytes of the part of descriptors that are mapped, all that are known among them. 0: it is not used. */
uint64_t agent_call_descriptor_mapped(void);
/* In a fork's child, whose region is new: what its parent had; `descriptors`: the parent's part, NULL:
 * none. */
void agent_call_descriptor_inherit(struct wire_agent_process *child, const struct wire_agent_process *parent,
                                   const void *descriptors);

#endif
