/* trace_jumps.h - no thread is on, or returns to, a jump of ours that is removed.
 *
 * A jump may lie in padding (an island, plan.h). A thread whose pc is there when the padding is restored
 * would run through it into the code behind. Executing the jump changes nothing but the pc: therefore the
 * jump's destination is written as the pc, into the thread's registers, and into the frames of signals that
 * have interrupted it, which its stack holds. The destination stays mapped as long as a pc points there
 * (loader_unmap.h).
 *
 * Limits: frames on a stack that no thread has now (a handler that has switched to another coroutine) are not
 * found; nor are those beyond the part of a stack that is read. Private to helper_work.c. Context: helper,
 * the process is stopped. */
#ifndef TRACE_JUMPS_H
#define TRACE_JUMPS_H

#include <stdbool.h>
#include <stddef.h>

#include "base_error.h"
#include "trace_memory.h"
#include "trace_stop.h"

/* To be called before the changes are made (`on`) or undone. BASE_EBUSY: a thread there cannot be moved;
 * nothing may be changed then, and threads that were moved may stay where they are. BASE_ENOMEM. */
int trace_jumps_leave(struct trace_stop *stop, struct trace_memory *memory,
                      const struct trace_memory_change *changes, size_t count, bool on,
                      struct base_error *error);

#endif
