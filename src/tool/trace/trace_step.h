/* trace_step.h - a stopped thread is moved by single steps out of code that is about to change.
 *
 * A thread may be stopped between two instructions that are to be replaced as one. Single steps
 * (PTRACE_SINGLESTEP) move it on; signals are blocked meanwhile, so that no handler's frame has a pc in that
 * code. Only those that an instruction raises itself are delivered. Context: helper, between trace_stop_begin
 * and _end. Source: ptrace(2); arch/x86/kernel/step.c. */
#ifndef TRACE_STEP_H
#define TRACE_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"
#include "trace_stop.h"

#define TRACE_STEP_MOST 64

struct trace_step_range {
    uint64_t start, end; /* addresses start..end-1 */
};

/* Is the address in one of the ranges? */
bool trace_step_is_within(const struct trace_step_range *ranges, size_t count, uint64_t address);

/* Returns at once when its pc is outside. BASE_EBUSY: it sleeps in the kernel, would sleep again (a restarted
 * call), was given a signal, or is still inside after TRACE_STEP_MOST steps; instructions that were executed
 * stay so. */
int trace_step_out(struct trace_stop *stop, pid_t tid, const struct trace_step_range *ranges, size_t count,
                   struct base_error *error);

/* Blocks the signals of a stopped thread until trace_step_restore_signals, but for those that an instruction
 * raises and that the thread does not block itself. 0, or -1 with errno, and then its mask is as it was. A
 * thread inside sigsuspend or ppoll has its own mask from then on, and the call's again when that is
 * restarted. */
int trace_step_block_signals(pid_t tid, uint64_t *before);
void trace_step_restore_signals(pid_t tid, uint64_t before);

#endif
