/* remains.h - removing all that killed tallies left in a process, whatever they recorded.
 *
 * It comes before anything is planned or written there, in every mode: a hook moves the instructions that it
 * finds, and if they are a killed tally's jump, removing that tally's memory later makes the hook lead
 * nowhere. The agent is removed first: where both are at one function, it came last, or the calls' hooks left
 * that function alone. What cannot be removed yet is tried again for a second; then it stays, whole
 * (loader_unmap.h). Context: tool, one thread. */
#ifndef REMAINS_H
#define REMAINS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"
#include "remains_clean.h"

/* BASE_EBUSY: a living tally, or another tracer, has it, or it is a vfork's child in its parent's memory.
 * bytes_left: something stays. */
int remains_remove(pid_t pid, struct remains_cleaned *cleaned, struct base_error *error);

/* Leaving or attaching failed: is it to be tried again? After a moment, and only where something is in the
 * way that may go (BASE_EBUSY: a debugger), for some seconds from the first time on; *began is 0 before. All
 * processes that a recording leaves share it. */
bool remains_again(int result, uint64_t *began);

#endif
