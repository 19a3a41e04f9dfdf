/* unwind_trail.h - walk a live stack again and again: what did not change since the last walk is not walked.
 *
 * For stacks of one thread that are taken often and mostly differ in a few inner frames (every allocation). A
 * trail keeps of the last walk, for each frame, where it read the caller's pc and fp. A new walk first
 * compares these words, once, from the outermost frame inwards: so it knows up to which frame they still hold
 * what they held. When it then reaches one of these frames with the same pc, sp and fp, everything outwards
 * is the same: a walk is a function of its state and of the words it reads, and those were compared, all of
 * them. So the result is the one that unwind_walk would give, at one comparison of two words a frame, which
 * do not wait for each other. Nothing is written to the stack.
 *
 * One trail serves one thread. It is good under one generation (unwind_space) and one window of memory that
 * only grows: zero `count` when either changes. It is so zeroed itself while it changes: a walk that a
 * signal's handler leaves by a jump leaves an empty trail. Context: anywhere, signal handlers included. */
#ifndef UNWIND_TRAIL_H
#define UNWIND_TRAIL_H

#include "unwind.h"

#define UNWIND_TRAIL_FRAMES 128

/* A frame: one cache line, since a comparison goes through all of them. */
struct unwind_trail_frame {
    uint64_t pc, sp, fp;
    uint64_t return_at;     /* where the caller's pc was read; 0: by a rarer rule, never compared */
    uint64_t fp_at;         /* where the caller's fp was read; 0: it is this frame's */
    uint64_t base_at;       /* where the base register was saved last; 0: unknown */
    uint32_t cookie, flags; /* as struct unwind_frame */
    int32_t rarer;  /* of `last`: the next frame, from here outwards, by a rarer rule; negative: none */
    uint32_t by_fp; /* not 0: left by fp, and not by sp */
};
_Static_assert(sizeof(struct unwind_trail_frame) == 64, "one cache line");

struct unwind_trail {
    uint32_t count; /* frames of the last walk, *outermost first* in `last`; zero: none */
    uint32_t end;   /* how it ended (enum unwind_end) */
    _Alignas(64) struct unwind_trail_frame last[UNWIND_TRAIL_FRAMES];
    struct unwind_trail_frame fresh[UNWIND_TRAIL_FRAMES]; /* of the walk under way, innermost first */
};

struct unwind_trail_result {
    uint32_t count; /* frames: trail->last, outermost first, all pcs as on the stack */
    uint32_t same;  /* so many of the outermost are those of the walk before */
    enum unwind_end end;
    uint32_t frame_pointer_frames; /* new ones */
};

/* How many of the outermost frames of the last walk can be met by a walk from `sp`: nothing changed in the
 * words that they and those outwards were left by. [sp, the end of the trail's window) must be readable.
 * `mask`: arch.code_mask. */
uint32_t unwind_trail_unchanged(const struct unwind_trail *trail, uint64_t sp, uint64_t mask);

/* As unwind_walk, but registers.pc is a return address (it is looked up at pc - 1), and the cache is needed.
 * At most UNWIND_TRAIL_FRAMES frames, the innermost ones. `unchanged`: of unwind_trail_unchanged, or
 * fewer. */
struct unwind_trail_result unwind_trail_walk(struct unwind_trail *trail, uint32_t unchanged,
                                             const struct unwind_space *space,
                                             const struct unwind_memory *memory,
                                             const struct arch_registers *registers,
                                             struct unwind_cache *cache);

#endif
