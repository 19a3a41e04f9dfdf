/* proc_users.h - which processes have a mapping that the caller looks for, of all processes of the machine
 * that can be read. Context: tool. */
#ifndef PROC_USERS_H
#define PROC_USERS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "proc_maps.h"

typedef bool proc_users_wanted(const void *context, const struct proc_mapping *mapping);

bool proc_users_is(pid_t pid, proc_users_wanted *wanted, const void *context);

/* Without this process. `created`: only processes created after it, which their start times show, so that the
 * mappings of others are not read. *pids is the caller's. */
size_t proc_users_list(proc_users_wanted *wanted, const void *context, bool created, pid_t **pids);

#endif
