/* Exceptions that are thrown, by the stack that throws them.
 *
 * Counted before it happens, and then left: the entry jumps to the body with every argument where it was and
 * nothing of the agent on the stack, so that the unwinding that follows meets the program's frames alone. */
#include "agent_cell.h"
#include "agent_pending.h"
#include "agent_stack.h"
#include "agent_thread.h"

uint64_t agent_wrap_throw(const struct agent_frame *frame);

/* Always 0: the body is jumped to. */
uint64_t agent_wrap_throw(const struct agent_frame *frame)
{
    struct agent_thread *thread = agent_thread_enter(frame);
    if (thread == NULL)
        return 0;
    agent_pending_pause(thread);
    uint32_t cell = agent_stack_cell(thread, frame, WIRE_AGENT_THROWS);
    if (cell != 0)
        agent_cell_count(thread, cell);
    else
        agent_lose(WIRE_AGENT_LOSS_NO_CELL);
    agent_pending_resume(thread);
    agent_thread_leave(thread);
    return 0;
}
