/* agent_timer_restart.h - what becomes of a system call where a sample was taken; `context` is the handler's
 * third argument. */
#ifndef AGENT_TIMER_RESTART_H
#define AGENT_TIMER_RESTART_H

#include <stdbool.h>

#include "agent.h"

/* Has one just ended with EINTR there, and no other signal is to be seen that did it? */
AGENT_BY_NAME bool agent_timer_restart_was_ended(const void *context);
/* One that would begin anew ends, if the handler that runs next wants that. */
AGENT_BY_NAME void agent_timer_restart_settle(void *context);
/* Delivers pending signals that the interrupted call (sigsuspend, ppoll, ...) waited for by its own mask.
 * The program's handlers run inside, and may leave by longjmp. */
AGENT_BY_NAME void agent_timer_restart_let_in(const void *context);

/* Is one about to be continued that was interrupted, and would end with EINTR if the handler returned as handlers
 * do? */
AGENT_BY_NAME bool agent_timer_restart_is_continued(const void *context);
/* Goes back to it, if that can be done here (agent_timer_x86_64_continue.S). */
void agent_timer_continue(const void *context);

#endif
