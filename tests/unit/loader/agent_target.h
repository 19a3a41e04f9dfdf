/* agent_target.h - a program that an agent is loaded into, and what it publishes of itself. */
#ifndef AGENT_TARGET_H
#define AGENT_TARGET_H

#include <stdatomic.h>
#include <stdint.h>

/* agent_target FD MODE [ARGUMENT ...]: FD is a file with this structure, shared with the test. Exit status 0:
 * every result was right.
 *
 *     run N           calls everything N times
 *     loop THREADS    until `stop`, in so many threads
 *     fork N          run N, in a child too
 *     exec N          becomes "run N", after an exec that fails
 *     spawn N         starts "run N" by vfork and waits for it
 *     load LIBRARY N  loads the library, calls what is in it, unloads it, N times
 *     sleep MS        sleeps so long inside target_sleep, again and again until `stop`
 *     twice THREADS   loop, in a child too */
enum target_function {
    TARGET_ADD,
    TARGET_MIXED,
    TARGET_SUM,
    TARGET_LABEL,
    TARGET_SLEEP,
    TARGET_LOADED,
    TARGET_LIBC,
    TARGET_COUNT
};

struct target_truth {
    atomic_uint ready, stop, wrong;
    atomic_ullong calls[TARGET_COUNT];
};

#endif
