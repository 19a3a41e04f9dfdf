/* trace_step.h - a standing thread goes on by single instructions, out of code that is about to change.
 *
 * A thread may stand between two instructions that are to be replaced as one. Single steps
 * (PTRACE_SINGLESTEP) bring it out; signals are blocked meanwhile, so that no handler's frame remembers the
 * place. Only those that an instruction raises itself come through. Context: helper, between trace_stop_begin
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

/* At once when it stands outside. BASE_EBUSY: it sleeps in the kernel, would sleep again (a restarted call),
 * was given a signal, or stands inside still after TRACE_STEP_MOST steps; what it executed is executed. */
int trace_step_out(struct trace_stop *stop, pid_t tid, const struct trace_step_range *ranges, size_t count,
                   struct base_error *error);

/* Signals of a standing thread are blocked until they are put back, but for those that an instruction raises
 * and that the thread does not block itself. 0, or -1 with errno, and then its mask is as it was. A thread
 * inside sigsuspend or ppoll has its own mask from then on, and the call's again when that is restarted. */
int trace_step_block_signals(pid_t tid, uint64_t *before);
void trace_step_put_back_signals(pid_t tid, uint64_t before);

#endif
