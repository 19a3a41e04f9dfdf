/* collect_privileges.h - tells that a program ran without its privileges because it was traced.
 *
 * Every collector that follows a process by ptrace, for a moment or for as long as it records, passes its
 * EXEC events on to here, so that no mode of recording forgets it. Context: tool. */
#ifndef COLLECT_PRIVILEGES_H
#define COLLECT_PRIVILEGES_H

#include "patch_trace.h"
#include "profile.h"

/* Where the event says so (PATCH_TRACE_FLAG_PRIVILEGES_LOST or UNKNOWN): a loss (WIRE_LOSS_PRIVILEGES), and the first
 * time meta privileges_notice, which names the program. */
void collect_privileges_tell(struct profile *profile, const struct patch_trace_event *event);

#endif
