/* proc_status.h - what /proc/PID/task/TID/status says of a thread, field by field. Context: tool and helper.
 * Source: proc_pid_status(5). */
#ifndef PROC_STATUS_H
#define PROC_STATUS_H

#include <stdint.h>
#include <sys/types.h>

/* The file without its groups, of which a user of large directories is in hundreds. Nothing is allocated: what
 * stops threads asks for their status, and must not take want of memory for their end. */
struct proc_status {
    char text[8192];
};

/* `tid` 0: that of the process, by the number of any of its threads. BASE_OK; BASE_ENOTFOUND: there is no such
 * thread (without a message), and the text is empty. */
int proc_status_read(pid_t pid, pid_t tid, struct proc_status *status);

/* What stands behind "NAME:", to the end of the text; NULL: the kernel does not report it. */
const char *proc_status_field(const char *status, const char *name);

/* The number at `index` (from 0) of a field; 0 where the kernel does not report it. */
long proc_status_number(const char *status, const char *name, unsigned index);
/* A field's set of signals or capabilities, one bit each; 0 where the kernel does not report it. */
uint64_t proc_status_set(const char *status, const char *name);
/* How many numbers a field has; *last is the last of them, 0 where there is none. Of NSpid it is the number
 * that the thread has in its own namespace. */
unsigned proc_status_numbers(const char *status, const char *name, long *last);

#endif
