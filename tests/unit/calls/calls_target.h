/* calls_target.h - what a program that is attached to says about itself, in a memory file that its starter
 * shares with it. */
#ifndef CALLS_TARGET_H
#define CALLS_TARGET_H

#include <stdatomic.h>
#include <stdint.h>

struct calls_target {
    atomic_uint stop, wrong;
    atomic_ullong rounds;
    uint64_t run; /* address of fixture_run in it */
};

#endif
