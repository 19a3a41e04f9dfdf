/* calls_uprobe.h - breakpoints that somebody else sets on our hooks and doorbells while we record.
 *
 * The kernel writes a uprobe's breakpoint over the first byte, executes the file's instruction instead, and
 * goes on behind it; at the end it writes the file's byte. Both are right only where all that we changed lies
 * in that instruction, and what it writes at the end only where the rest is the file's again. So first bytes
 * are read some times a second, in at most a hundredth of the time, and where a breakpoint is found the hook
 * is removed (space_apply_lift), or the doorbell (calls_doorbell_lift, calls_detach_lift). What happens
 * between two reads cannot be prevented; doc/losses.md, 68. Context: tool, one thread; the process runs.
 * Source: kernel/events/uprobes.c, arch/x86/kernel/uprobes.c. */
#ifndef CALLS_UPROBE_H
#define CALLS_UPROBE_H

#include "space.h"

/* When it is time. Holds the process for a moment if something is found. */
void calls_uprobe_tend(struct space *space, struct space_session *session);

#endif
