/* sample_privileges.h - counts that a program ran without its privileges because it was traced.
 *
 * Every collector that follows a process by ptrace, for a moment or for as long as it records, calls this
 * after an exec, so that no mode of recording forgets it. Context: tool. */
#ifndef SAMPLE_PRIVILEGES_H
#define SAMPLE_PRIVILEGES_H

#include <stdbool.h>
#include <sys/types.h>

#include "profile.h"

/* A loss (WIRE_LOSS_PRIVILEGES), and the first time meta privileges_notice, which names the program. `known`:
 * it ran without them; else it may have (its file cannot be read). */
void sample_privileges_lost(struct profile *profile, pid_t pid, bool known);

#endif
