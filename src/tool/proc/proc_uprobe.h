/* proc_uprobe.h - looking for breakpoints (uprobes) that somebody else has set over our changes, now and then, without stopping anybody.
 * Context: tool. */
#ifndef PROC_UPROBE_H
#define PROC_UPROBE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    PROC_UPROBE_AT_ONCE = 512,
    PROC_UPROBE_MOST = 64 /* found in one look; others are the next one's */
};

/* One byte of each of `count` places (at most PROC_UPROBE_AT_ONCE), in one system call. How many were read: it ends where something is not
 * mapped any more. */
size_t proc_uprobe_read(pid_t pid, const uint64_t *addresses, size_t count, uint8_t *bytes);

/* After a look that began then, monotonic ns: when to look again. It takes at most a hundredth of the time. */
uint64_t proc_uprobe_next(uint64_t began);

#endif
