/* unwind_fast.h - what the short loops of unwind_walk.c and unwind_trail.c have in common (inside the room
 * only).
 *
 * The loops themselves are two, word for word where they can be: with their common part in a function,
 * inlined as it was, gcc 12 kept sp and the entry in memory, and a frame cost twice the time (tally_walk of
 * bench_unwind). */
#ifndef UNWIND_FAST_H
#define UNWIND_FAST_H

#include <stdbool.h>
#include <stdint.h>

/* Up by at least one word and at most 2^40 bytes, and aligned like sp: the low bits turn into high ones. */
static inline bool unwind_fast_rises(uint64_t sp, uint64_t cfa)
{
    uint64_t distance = cfa - sp - 8;
    return (distance >> 3 | distance << 61) <= UINT64_C(1) << 37;
}

/* A choice that must be a jump: as a conditional move it would put the other register on the chain. */
static inline uint64_t unwind_fast_choose(uint64_t usual, uint64_t other, bool is_other)
{
    if (__builtin_expect(is_other, 0)) {
        usual = other;
        __asm__ volatile("" : "+r"(usual));
    }
    return usual;
}

#endif
