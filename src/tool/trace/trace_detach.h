/* trace_detach.h - may a process that is held be let go without being missed (trace_follow.h), and is it still
 * the same?
 *
 * A thread on its way to a birth must not be let go, since nobody would hear of it. It is on its way when its
 * pc is in one of the ranges that the caller names, or comes back there: then its stack has a word that leads
 * there - a return address, or the pc in a signal's frame. Stacks are read from sp up, as far as threads are
 * few; a word that only looks like one keeps the process held, which harms nobody. A range's first byte is a
 * function's address, and no word that leads back. Private to trace_follow_detach.c and helper_work.c.
 * Context: helper. */
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

/* May a process that nobody traces be taken by the caller, as far as can be told before: with CAP_SYS_PTRACE,
 * or where there is no Yama in the way and the process is dumpable. */
bool trace_detach_may_come_back(pid_t pid);

#endif
