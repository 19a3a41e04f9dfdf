/* shared_proc.h - what /proc says of a process. Context: tool. */
#ifndef SHARED_PROC_H
#define SHARED_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "shared_file.h"

/* What a thread of process `pid` knows itself as, in its own PID namespace; 0: it is gone. Source: NSpid,
 * proc_pid_status(5). */
pid_t shared_proc_inside(pid_t pid, pid_t tid);
/* Is its PID namespace another one than that of our /proc? */
bool shared_proc_is_nested(pid_t pid);

/* The process of a thread that the agent reported as *number; `first` (0: none) is asked before all
 * others. In a container, or below an unshare, such a number is another process's here: then only those
 * count that have the group's file mapped. 0: there is none, any more. Else, with `first` 0, *number is
 * what the process is here from now on. */
pid_t shared_proc_outside(struct shared_file *file, pid_t first, uint32_t *number);

#endif
