/* loader_unmap.h - how memory of ours that code of the program could reach leaves a process.
 *
 * Invariant: no thread can come to memory of ours that is not mapped. Ways to come there are
 *   1. its pc
 *   2. a word on a stack: a return address, a pc that a signal's frame keeps
 *   3. text of the program that we changed, ours or a killed tally's
 *   4. other code of ours that stays: a hook holds the instructions it took the place of, and they may be a jump to another hook or stub
 *   5. what the kernel keeps: a signal's handler, a timer
 *   6. data that code of ours goes through: gs bases, words of blocks
 *   7. code of somebody else who changed a place that led to us, and may have kept our bytes: nothing shows it
 * So memory is unmapped by loader_unmap alone (and by who mapped it a moment ago, in the same stop, before any of 1 to 6 was made; the
 * agent itself unmaps data, never code: views that only it knows, and in a fork's child what its only thread has no use for), and
 * only in this order: nobody new comes in (3, 5 and 6 are undone by who leads there), then nobody is inside (2: what a word on a stack
 * means is known to the collectors; remains_drain.h, loader_leave.c), then, here, 1, 3 and 4 are proved by what the process
 * is at that moment, whatever was undone before and whoever left it. Where a proof fails all of it stays, and is said. Of 7 there is no
 * proof: who finds such a place as it leaves notes what it could lead to (loader_kept.h), and that stays, whoever asks.
 *
 * Context: tool; the process is held, and no thread runs. */
#ifndef LOADER_UNMAP_H
#define LOADER_UNMAP_H

#include "helper.h"
#include "loader_leads.h"

/* `trace` as the helper_trace functions take it, `pid` for /proc. Adds to *left the bytes that stay, which is no failure. Other errors:
 * nothing was unmapped. */
int loader_unmap(struct helper *helper, pid_t trace, pid_t pid, const struct loader_range *ranges,
                 size_t count, uint64_t *left, struct base_error *error);

#endif
