/* patch_loose.h - may a process that is held be let go without being missed (patch_follow.h), and is it still
 * the same?
 *
 * A thread on its way to a birth must not be let go, since nobody would hear of it. It is on its way when its
 * pc is in one of the ranges that the caller names, or comes back there: then its stack has a word that leads
 * there - a return address, or the pc in a signal's frame. Stacks are read from sp up, as far as threads are
 * few; a word that only looks like one keeps the process held, which harms nobody. A range's first byte is a
 * function's address, and no word that leads back. Private to patch_follow_loose.c and patch_helper_work.c.
 * Context: helper. */
#ifndef PATCH_LOOSE_H
#define PATCH_LOOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "patch_follow.h"

/* The space is held and its memory open. BASE_OK, or BASE_EBUSY with the reason. */
int patch_loose_check(const struct patch_follow_space *space, const struct patch_step_range *ranges,
                      size_t count, struct base_error *error);

/* May a process that nobody traces be taken by the caller, as far as can be told before: with CAP_SYS_PTRACE,
 * or where there is no Yama in the way and the process is dumpable. */
bool patch_loose_may_come_back(pid_t pid);

#endif
