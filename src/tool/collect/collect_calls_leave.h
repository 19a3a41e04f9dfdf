/* collect_calls_leave.h - taking our memory out of a process, when nothing can lead there any more.
 *
 * The text has been put back before, so nobody new comes in. Threads that stand in our code are stepped out
 * of it; gs bases that lead to blocks of ours become 0; then no thread's pc may lie in our code, and no word on a stack lead to code of
 * ours (a signal frame holds a pc). Most of what is reserved for code stays zeros, and a number that leads
 * there is no pc; nor are return addresses that our own hooks left behind. patch_unmap.h has the rule, and
 * proves the rest. Where somebody is left after some attempts, the memory stays, and its size is told. Context: tool, one thread. */
#ifndef COLLECT_CALLS_LEAVE_H
#define COLLECT_CALLS_LEAVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"
#include "patch_helper.h"
#include "patch_leads.h"

struct collect_calls_ranges {
    struct patch_range *items;
    size_t count, capacity;
};

bool collect_calls_ranges_add(struct collect_calls_ranges *ranges, const struct patch_range *range);

/* The process is held when this begins, and when it ends; unless it is to `stay` held it runs for moments
 * between. `gs_offset` as below; 0: no thread has a block. Adds to *left the bytes that stay mapped. */
int collect_calls_leave_memory(struct patch_helper *helper, pid_t pid,
                               const struct collect_calls_ranges *ranges, uint64_t gs_offset, bool stay,
                               uint64_t *left, struct base_error *error);

/* Sets gs to 0 in threads that have a block in the ranges: whose gs base plus `gs_offset` (collect_calls_space.h) lies in one that consists
 * of blocks. A gs base that the program has set stays. The process is held. */
int collect_calls_leave_gs(struct patch_helper *helper, pid_t pid, const struct collect_calls_ranges *ranges,
                           uint64_t gs_offset, struct base_error *error);

#endif
