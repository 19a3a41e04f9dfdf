/* agent_call_rest.h - threads that signals keep from making progress. */
#ifndef AGENT_CALL_REST_H
#define AGENT_CALL_REST_H

#include <stdbool.h>
#include <stdint.h>

#include "agent_process.h"
#include "agent_thread.h"
#include "wire_agent_loss.h"

#define AGENT_CALL_REST_LOOK 256 /* calls, from one look to the next */

/* One more call was counted, for which the stack was walked. */
void agent_call_rest_look(struct agent_thread *thread);
static inline void agent_call_rest_count(struct agent_thread *thread)
{
    if (__builtin_expect(++thread->rest.calls >= AGENT_CALL_REST_LOOK, 0))
        agent_call_rest_look(thread);
}
/* Are this thread's calls skipped at present? Then this one is, and counted as a loss. */
static inline bool agent_call_rest_takes(struct agent_thread *thread)
{
    if (__builtin_expect(thread->rest.left == 0, 1))
        return false;
    thread->rest.left--;
    agent_lose(WIRE_AGENT_LOSS_RESTED);
    return true;
}

#endif
