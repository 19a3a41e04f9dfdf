/* agent_call_await.h - a call whose return is to be seen begins. */
#ifndef AGENT_CALL_AWAIT_H
#define AGENT_CALL_AWAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "agent.h"
#include "agent_thread.h"
#include "wire_agent_pending.h"

/* A call that the frame begins is pending. What to put in the place of its return address; 0: nothing, and
 * *seen false: its return will not be seen. */
uint64_t agent_call_await(struct agent_thread *thread, const struct agent_frame *frame,
                          const struct wire_agent_pending *call, bool *seen);

#endif
