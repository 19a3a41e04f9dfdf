/* calls_undiscovered.h - children of fork that have the stubs and counters of a process that was counted, and were never heard of.
 *
 * They are born while another tracer has their parent, while tally is silent for too long, or in the moment in which their parent is
 * left. Nobody follows them; they show the memory that was shared with tally, which it knows its own by. Context: tool, one thread. */
#ifndef CALLS_UNDISCOVERED_H
#define CALLS_UNDISCOVERED_H

#include "profile.h"
#include "remains_left.h"

/* When all others were left, and tally still has its own views of what it shared: takes out what processes have that `left` does not
 * know yet, which is told what stays. They are a loss (WIRE_LOSS_CALLS_UNSEEN). What there is no memory to note is not looked for. */
void calls_undiscovered_leave(struct remains_left *left, struct profile *profile);

#endif
