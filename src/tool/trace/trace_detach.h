/* trace_detach.h - may a held process be detached (trace_follow.h) without a thread or process being created
 * unobserved, and could it be reattached?
 *
 * A thread on its way to creating one must not be detached, since nobody would be notified. It is on its way
 * when its pc is in one of the ranges that the caller names, or returns there: then its stack has a word that
 * points there - a return address, or the pc in a signal's frame. Stacks are read from sp up, up to a size
 * that depends on how many threads there are (trace_frames_size); a word that only looks like a return
 * address keeps the process attached, which does no harm. A range's first byte is a function's address, and
 * no return address. Private to trace_follow_detach.c and helper_work.c. Context: helper. */
#ifndef TRACE_DETACH_H
#define TRACE_DETACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "trace_follow.h"

/* The space is held and its memory open. BASE_OK, or BASE_EBUSY with the reason. */
int trace_detach_check(const struct trace_follow_space *space, const struct trace_step_range *ranges,
                       size_t count, struct base_error *error);

/* May the caller seize a process that nobody traces, as far as can be known beforehand? With CAP_SYS_PTRACE,
 * or where Yama does not restrict it and the process is dumpable. */
bool trace_detach_may_reattach(pid_t pid);

#endif
