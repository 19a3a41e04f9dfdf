/* remains_drain.h - unmapping our memory from a process, when nothing can lead there any more.
 *
 * The text has been put back before, so no thread enters any more. Threads that stand in our code are stepped
 * out of it; gs bases that lead to blocks of ours become 0; then no thread's pc may lie in our code, and no
 * word on a stack lead to code of ours (a signal frame holds a pc). Most of what is reserved for code stays
 * zeros, and a number that leads there is no pc; nor are return addresses that our own hooks left behind.
 * loader_unmap.h has the rule, and checks the rest. Where a thread is still there after some attempts, the
 * memory stays, and its size is returned. Context: tool, one thread. */
#ifndef REMAINS_DRAIN_H
#define REMAINS_DRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"
#include "helper.h"
#include "loader_leads.h"

struct remains_ranges {
    struct loader_range *items;
    size_t count, capacity;
};

bool remains_ranges_add(struct remains_ranges *ranges, const struct loader_range *range);

/* Memory of ours in a process. */
struct remains_memory {
    struct helper *helper;
    pid_t pid;
    const struct remains_ranges *ranges;
    uint64_t gs_offset; /* as below; 0: no thread has a block */
    bool stay;          /* the process stays held; false: it runs for moments between attempts */
};

/* The process is held when this begins, and when it ends. Adds to *left the bytes that stay mapped. */
int remains_drain_memory(const struct remains_memory *memory, uint64_t *left, struct base_error *error);

/* Sets gs to 0 in threads that have a block in the ranges: those whose gs base plus `gs_offset` (space.h)
 * lies in one that consists of blocks. A gs base that the program has set stays. The process is held. */
int remains_drain_gs(struct helper *helper, pid_t pid, const struct remains_ranges *ranges,
                     uint64_t gs_offset, struct base_error *error);

#endif
