/* loader_unmap.h - unmaps memory of ours that code of the program could reach.
 *
 * Invariant: no thread can come to memory of ours that is not mapped. A thread can come there by
 *   1. its pc
 *   2. a word on a stack: a return address, a pc that a signal's frame saves
 *   3. text of the program that this or a killed tally has changed
 *   4. other code of ours that stays: a hook holds the instructions that it replaced, which may be a jump to
 *      another hook or stub
 *   5. what the kernel keeps: a signal's handler, a timer
 *   6. data that code of ours reads: gs bases, words of blocks
 *   7. code of another tool that has changed a place which jumped to our code, and may have kept our bytes:
 *      nothing shows that
 * So only loader_unmap unmaps memory (and the code that has mapped it a moment before, in the same stop,
 * before any of 1 to 6 was made; the agent itself unmaps data, never code: views that only it knows, and
 * in a fork's child what its only thread does not need), and only in this order:
 *   - no thread can enter any more: 3, 5 and 6 are undone by the code that made them
 *   - no thread is inside: the collectors know what a word on a stack (2) means (remains_drain.h,
 *     loader_leave.c)
 *   - here, 1, 3 and 4 are proved by what the process is at that moment, whatever was undone before and by
 *     which tally
 * Where a proof fails all of it stays, and that is reported. Of 7 there is no proof: a tally that finds
 * such a place as it leaves writes down what it could jump to (loader_kept.h), and that stays for all
 * later callers.
 *
 * Context: tool; the process is held, and no thread runs. */
#ifndef LOADER_UNMAP_H
#define LOADER_UNMAP_H

#include "loader_kept.h"
#include "loader_leads.h"

/* Adds to *left the bytes that stay, which is no failure. On an error nothing was unmapped. */
int loader_unmap(const struct loader_target *target, const struct loader_range *ranges, size_t count,
                 uint64_t *left, struct base_error *error);

#endif
