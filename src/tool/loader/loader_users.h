/* loader_users.h - which threads of a process are inside an agent that is taken out, or may return into
 * it.
 *
 * A thread is inside if its pc is in code of ours; if it was there when a signal came, which the pc in the
 * signal's frame shows; or if it has a frame of ours on its stack. The last the agent counts itself, in
 * the region (wire_agent_thread.inside). Without such a count any word on a stack that points into our
 * code is taken for a frame: stacks are full of old ones, so memory sometimes stays without need, which
 * does no harm.
 *
 * Each thread is waited for by itself. Of many busy threads, on a machine with few processors, at any
 * moment some are inside; so the condition is not that none is, but that each has been outside once, since
 * no thread enters any more by the hooks that have been put back. What a thread does later, by hooks that
 * are still set, does not count. Those of functions that unwind are put back last, and a program that
 * throws all the time is in them most of the time: as long as they are set, a thread in one of them, as
 * its record says, is outside.
 *
 * For loader_leave.c alone. Context: tool. */
#ifndef LOADER_USERS_H
#define LOADER_USERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "loader_inside.h"
#include "loader_returns.h"

struct loader_users {
    struct loader_access *access; /* borrowed, as all up to `returns` */
    const struct loader_own_range *ranges;
    size_t range_count;
    const uint64_t *functions; /* that are or were hooked */
    size_t function_count;
    struct loader_returns *returns;
    uint64_t process; /* run-time address of the process's region; 0: none, so that nothing is counted */
    uint64_t records; /* and of its thread records */
    bool unwinders;   /* hooks of functions that unwind are still set */
    /* Which threads have been outside. */
    pid_t *outside; /* threads that live, by number */
    size_t outside_count;
    uint32_t *record_owners; /* whose record it was when that was outside; 0: none */
    bool unrecorded_outside; /* threads without a record */
    bool awake;              /* at the last look some thread did not sleep */
    uint64_t *unwinding;     /* thread pointers of threads that are in such a hook now */
    size_t unwinding_count;
};

/* Puts replaced return addresses back, and looks at the threads. The process is held. 0: each thread has
 * been outside since _begin, and no return address is replaced. 1: not yet. Negative: an error, and
 * nothing is known. */
int loader_users_look(struct loader_users *users, struct base_error *error);

/* Hooks have been put back just now, so that no thread is known to have been outside; `unwinders`: all
 * hooks but those of functions that unwind. BASE_ENOMEM. */
int loader_users_begin(struct loader_users *users, bool unwinders, struct base_error *error);

void loader_users_free(struct loader_users *users);

#endif
