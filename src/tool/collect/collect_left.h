/* collect_left.h - processes in which something of ours stayed when they were left: a debugger held them, or a thread was in memory of
 * ours. Once nobody traces them any more, it is tried once more, as after a killed tally (collect_remains.h). Context: tool, one thread. */
#ifndef COLLECT_LEFT_H
#define COLLECT_LEFT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "profile.h"

struct collect_left_process {
    pid_t pid;
    uint64_t bytes; /* of memory; 0 where nothing could be removed at all */
};

struct collect_left {
    struct collect_left_process *items;
    size_t count, capacity;
};

/* Something stayed; of a process that was added before, the more. Where there is no memory to remember it, it is not tried again. */
void collect_left_add(struct collect_left *left, pid_t pid, uint64_t bytes);
/* Tries each again, for up to a second. Who is clean, or has ended, is forgotten. */
void collect_left_retry(struct collect_left *left);
/* A process in which something stays; 0: none. */
pid_t collect_left_first(const struct collect_left *left);
/* The bytes that stay, as an entry of the profile's meta; none where there are none. */
void collect_left_describe(const struct collect_left *left, struct profile *profile, const char *key);
void collect_left_free(struct collect_left *left);

#endif
