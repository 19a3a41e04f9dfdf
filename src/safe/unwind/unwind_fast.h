/* unwind_fast.h - what the short loops of the walkers have in common (private to the module).
 *
 * There are four ways to a stack's frames: unwind_walk.c's loop, for stacks of all kinds; that of
 * unwind_trail.c, which stops where the last walk has been; retrace there, for frames that lie where they
 * lay; and unwind_known.c, which reads no rules at all. What one step does is here, once. The loops around it
 * stay apart, since sharing them costs more than they do: with the whole step of unwind_walk.c in an inlined
 * function that works on a structure, gcc 12 keeps sp and the entry in memory, and a frame takes 7.7 ns
 * instead of 3.4 (tally_walk of bench_unwind).
 *
 * Each of the four is needed: a malloc and free with the agent, by stacks of 17 frames (bench_agent; tight:
 * from one place, ways: down another of 64 ways each time), takes so many ns more than without:
 *
 *                                                       tight    ways
 *   trail's loop alone, from the first frame each time    250     250
 *   it stops where the last walk has been                  90     176
 *   and retraces                                           82     133
 *   and stacks that were met before are known              75      77 */
#ifndef UNWIND_FAST_H
#define UNWIND_FAST_H

#include <stdbool.h>
#include <stdint.h>

#include "unwind_cache.h"

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

/* The frame's CFA, by a rule of one of the forms of UNWIND_FORM_FAST. */
static inline uint64_t unwind_fast_cfa(const struct wire_rule *rule, unsigned form, uint64_t sp, uint64_t fp)
{
    return unwind_fast_choose(sp, fp, form & UNWIND_FORM_BY_FP) + (uint64_t)(int64_t)rule->cfa_offset;
}

/* Where the base register was saved last, the frame with that CFA included; `before`: without it. */
static inline uint64_t unwind_fast_base(const struct wire_rule *rule, unsigned form, uint64_t sp,
                                        uint64_t cfa, uint64_t before)
{
    if (!(form & UNWIND_FORM_BASE_SAVED))
        return before;
    uint64_t saved_at = cfa + (uint64_t)rule->base_slot * 8;
    return saved_at >= sp ? saved_at : before;
}

/* A word of the stack. Where a frame was that is no more there may be anything, such as what AddressSanitizer
 * keeps between variables: it is not to judge this read. */
static inline __attribute__((no_sanitize_address)) uint64_t unwind_fast_word(uint64_t address)
{
    typedef uint64_t __attribute__((may_alias, aligned(1))) word;
    return *(const word *)address;
}

#endif
