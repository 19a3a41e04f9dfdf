/* proc_owner.h - one tally at a time changes a process.
 *
 * An owner holds an flock on the process's directory in /proc for as long as it lives. The kernel releases it
 * when tally ends in whatever way, it outlasts execs, and it is the same for all modes, also while the
 * process is not traced and while tally is stopped. Nothing of it is in the process. Another mount of /proc
 * (a container's) has locks of its own. Context: tool. Source: flock(2). */
#ifndef PROC_OWNER_H
#define PROC_OWNER_H

#include <sys/types.h>

#include "base_error.h"

/* From now on `pid` is this tally's, until *file is closed (-1: /proc does not have it; later calls report
 * that). BASE_EBUSY: another one records it. */
int proc_owner_take(pid_t pid, int *file, struct base_error *error);

#endif
