/* trace_jumps.h - no thread stands on, or comes back to, a jump of ours that is taken away.
 *
 * A jump may lie in padding (an island, plan.h). A thread that is there when the padding is put back would run
 * through it into what lies behind. It is where the jump leads as soon as its pc says so, and that is what is
 * written: into its registers, and into the frames of signals that have interrupted it, which its stack holds.
 * The jump's destination is mapped as long as a pc leads there (loader_unmap.h).
 *
 * Limits: frames on a stack that no thread has now (a handler that has switched to another coroutine) are not found; nor are those beyond
 * the part of a stack that is read. Private to helper_work.c. Context: helper, the process stands. */
#ifndef TRACE_JUMPS_H
#define TRACE_JUMPS_H

#include <stdbool.h>
#include <stddef.h>

#include "base_error.h"
#include "trace_memory.h"
#include "trace_stop.h"

/* To be called before the changes are made (`on`) or undone. BASE_EBUSY: a thread there cannot be moved; nothing
 * is to be changed then, and those that were moved are well where they are. BASE_ENOMEM. */
int trace_jumps_leave(struct trace_stop *stop, struct trace_memory *memory,
                      const struct trace_memory_change *changes, size_t count, bool on,
                      struct base_error *error);

#endif
