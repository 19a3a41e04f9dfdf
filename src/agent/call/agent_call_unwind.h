/* agent_call_unwind.h - real return addresses are put back, for whoever reads the stack. */
#ifndef AGENT_CALL_UNWIND_H
#define AGENT_CALL_UNWIND_H

#include "agent.h"
#include "agent_thread.h"

/* Unwinders are not hooked any more: puts back all replaced return addresses on the stack of the frame's
 * caller, and drops its pending calls. */
void agent_call_unwind_abandon(const struct agent_frame *frame);
/* The same for a thread that is inside; NULL: it has no record. */
void agent_call_unwind_abandon_thread(struct agent_thread *thread, const struct agent_frame *frame);

#endif
