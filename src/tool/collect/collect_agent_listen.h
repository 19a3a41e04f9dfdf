/* collect_agent_listen.h - the thread that hears the bells of agents, and tells them the time.
 *
 * A bell is a futex in shared memory, which poll knows nothing of: this thread waits for all of them and makes a descriptor readable.
 * Every 10 ms it writes the time into each control page: agents read no clock.
 * Context: tool; every function but the thread itself from one thread. */
#ifndef COLLECT_AGENT_LISTEN_H
#define COLLECT_AGENT_LISTEN_H

#include <stdint.h>

#include "base_error.h"
#include "wire_agent.h"

struct collect_agent_listener;

/* `start_ns`: CLOCK_MONOTONIC at the start of the recording. */
int collect_agent_listener_new(uint64_t start_ns, struct collect_agent_listener **made,
                               struct base_error *error);
void collect_agent_listener_free(struct collect_agent_listener *listener);
/* Readable (8 bytes) when some bell has rung. */
int collect_agent_listener_file(const struct collect_agent_listener *listener);

/* From now on; until ..._forget the page must stay mapped. */
int collect_agent_listener_add(struct collect_agent_listener *listener, struct wire_agent_control *control,
                               struct base_error *error);
void collect_agent_listener_forget(struct collect_agent_listener *listener,
                                   const struct wire_agent_control *control);

#endif
