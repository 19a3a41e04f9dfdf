/* proc_uprobe.h - finding breakpoints (uprobes) that somebody else has set over our changes: a look now and
 * then, which stops nobody. Context: tool. */
#ifndef PROC_UPROBE_H
#define PROC_UPROBE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    PROC_UPROBE_AT_ONCE = 512,
    PROC_UPROBE_MOST = 64 /* found in one look; the next look finds others */
};

/* Reads one byte at each of `count` addresses (at most PROC_UPROBE_AT_ONCE) in one system call. Returns how
 * many were read: it ends at the first that is not mapped any more. */
size_t proc_uprobe_read(pid_t pid, const uint64_t *addresses, size_t count, uint8_t *bytes);

/* When to look again, after a look that began at `began` (monotonic ns) and ends now: looks take at most a
 * hundredth of the time. */
uint64_t proc_uprobe_next(uint64_t began);

#endif
