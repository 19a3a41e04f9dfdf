/* remains_left.h - processes in which something of ours stayed when they were left.
 *
 * Where a debugger held the process, or a thread was in memory of ours, the reason may pass: once the process
 * is not traced any more, it is tried once more, as after a killed tally (remains.h). Where somebody else has
 * changed a place that led to us, it does not: they may have copied our bytes elsewhere, and jump to them at
 * any time. Nothing in the process shows that, and memory that is removed might still be used: such a process
 * is never tried again. Context: tool, one thread. */
#ifndef REMAINS_LEFT_H
#define REMAINS_LEFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "profile.h"

struct remains_left_process {
    pid_t pid;
    uint64_t bytes; /* of memory; 0 where nothing could be removed at all */
    bool retry;     /* why it stayed may pass; false: it stays for good */
};

struct remains_left {
    struct remains_left_process *items;
    size_t count, capacity;
};

/* Something stayed; of a process that was added before, the more, and for good where either does. Where there
 * is no memory to record it, it is not tried again. */
void remains_left_add(struct remains_left *left, pid_t pid, uint64_t bytes, bool retry);
bool remains_left_knows(const struct remains_left *left, pid_t pid);
/* Tries the processes of both lists again, each for up to a second, and all for up to five. A try removes
 * what is in either list: what stays for good by one of them is not tried for the other. A process that is
 * clean, or has ended, is dropped. */
void remains_left_retry(struct remains_left *left, struct remains_left *other);
/* A process in which something stays; NULL: none. */
const struct remains_left_process *remains_left_first(const struct remains_left *left);
/* The bytes that stay, as an entry of the profile's meta; none where there are none. */
void remains_left_describe(const struct remains_left *left, struct profile *profile, const char *key);
void remains_left_free(struct remains_left *left);

#endif
