/* trace_frames.h - where threads go on when their signals' handlers return: the pcs that the kernel has saved
 * on their stacks.
 *
 * Whoever changes or removes code checks these like the threads' own pcs. Frames are recognised by what the
 * kernel writes around a pc (proc_target_is_frame_pc); what is left of a handler that has returned may look
 * the same. A handler may run on another stack than the code that it has interrupted; its frame has that
 * stack's sp, and that stack is searched as well.
 *
 * Limits: the part of a stack that is read (trace_frames_size); stacks that no thread has now (coroutines
 * left inside a handler). Context: tool and helper; the threads are stopped. */
#ifndef TRACE_FRAMES_H
#define TRACE_FRAMES_H

#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "trace_stop.h"

struct trace_frame {
    uint64_t pc, sp; /* as they were interrupted */
    uint64_t at;     /* the address of the saved pc */
    uint64_t fpu;    /* of what is saved of the FPU; 0: not known */
};

/* Bytes of each stack that are read for so many threads. All searches of stacks use the same size, so that
 * none relies on a part that another has not read. */
size_t trace_frames_size(size_t thread_count);

/* BASE_OK to go on; any other result ends the search, and is its result. */
typedef int trace_frames_take(void *context, const struct trace_frame *frame, struct base_error *error);

/* Calls `take` for each frame on the stacks of these threads, which are of one address space. BASE_ENOMEM. */
int trace_frames_each(const struct trace_stop_thread *threads, size_t count, trace_frames_take *take,
                      void *context, struct base_error *error);

#endif
