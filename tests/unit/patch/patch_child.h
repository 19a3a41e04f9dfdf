/* patch_child.h - processes that live tests stop, patch and inject into: forked from the test, they check
 * themselves.
 *
 * A child runs one function, which says child_ready() when it may be meddled with and returns 0 if nothing
 * was wrong. */
#ifndef PATCH_CHILD_H
#define PATCH_CHILD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    PATCH_CHILD_THREADS = 1000,
    PATCH_CHILD_BUSY = 50 /* threads past these sleep most of the time */
};

/* Memory that test and child share. */
struct patch_child_shared {
    atomic_bool stop;      /* the child is to come to an end */
    atomic_uint ready;     /* the child said so */
    atomic_uint wrong;     /* checks that failed in it; 0 at the end */
    atomic_ullong signals; /* received as they should be */
    atomic_ullong rounds[PATCH_CHILD_THREADS];
    uint64_t address; /* of something in the child */
    int pipe[2];      /* from the test to the child */
    unsigned count;   /* of threads; set before the start */
};

struct patch_child {
    pid_t pid;
    struct patch_child_shared *shared;
};

typedef int patch_child_function(struct patch_child_shared *shared);

/* Starts and waits until the child is ready. `count` becomes shared->count. */
struct patch_child patch_child_start(patch_child_function *function, unsigned count);

/* Asks it to end, waits, and returns its exit status plus 1000 for each failed check; -1: killed by a
 * signal. */
int patch_child_finish(struct patch_child *child);

void patch_child_ready(struct patch_child_shared *shared);
void patch_child_wrong(struct patch_child_shared *shared, const char *what, long value);

/* "State", "TracerPid" of /proc/PID/status: the first character, or the number. */
char patch_child_state(pid_t pid);
/* The sum over all threads: 0 when none is traced. */
long patch_child_tracers(pid_t pid);
/* Waits up to 10 s until no thread is traced. */
bool patch_child_is_free(pid_t pid);
/* Within 2 GiB of the program's text: what else a process maps (arenas, a sanitizer's) is its own affair. */
unsigned patch_child_mappings(pid_t pid);
unsigned patch_child_descriptors(pid_t pid);

/* --- functions --- */

patch_child_function patch_child_busy;   /* `count` threads compute with all registers and know the result */
patch_child_function patch_child_births; /* threads that start threads that end */
patch_child_function
    patch_child_signals; /* checks SIGRTMIN's siginfo: value counts up from 0; in its main loop it computes */
patch_child_function
    patch_child_blocked; /* a thread in each of several blocking calls; the pipe sets them free */

#endif
