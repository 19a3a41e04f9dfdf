/* probe_filter.h - what a program forbids itself, and the agent does without: system calls by
 * seccomp, and the clock.
 *
 * What it forbids later the agent sees by itself (agent_hook_filter.c). Context: tool, one thread. */
#ifndef PROBE_FILTER_H
#define PROBE_FILTER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"
#include "loader.h"
#include "shared_file.h"
#include "wire_agent_process.h"

/* In `prepare` of loader_load: makes each of the agent's calls in the process's name, such that it changes
 * nothing, where a filter may forbid it. What is forbidden (enum wire_agent_call) is published in region
 * 0, counted, and returned. Where the threads have different filters, all calls are. `ticks`: the clock
 * will be read too. */
uint32_t probe_filter_try(struct shared_file *file, struct loader_agent *agent, bool ticks);

/* False: nothing is forbidden. Else *why has what, in words. */
bool probe_filter_publish(const struct wire_agent_process *process, pid_t pid, struct base_error *why);

#endif
