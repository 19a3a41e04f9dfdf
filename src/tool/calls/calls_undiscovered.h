/* calls_undiscovered.h - children of fork that have the stubs and counters of a process that was counted, and
 * were never discovered.
 *
 * They are created while another tracer has their parent, while tally is silent for too long, or in the
 * moment in which their parent is left. They are not followed; they are found by the memory that was shared
 * with tally. Context: tool, one thread. */
#ifndef CALLS_UNDISCOVERED_H
#define CALLS_UNDISCOVERED_H

#include "profile.h"
#include "remains_left.h"

/* When all others were left, and tally still has its own mappings of what it shared: removes it from
 * processes that `left` does not know yet, and adds those where something stays. They are a loss
 * (WIRE_LOSS_CALLS_UNSEEN), but for those that began at or after `ended`, the end of the recording in the
 * unit of PROC_TARGET_STARTED. Files that there is no memory to list are not searched for. */
void calls_undiscovered_leave(struct remains_left *left, uint64_t ended, struct profile *profile);

#endif
