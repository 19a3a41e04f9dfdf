/* unwind_trail.h - walk a live stack again and again: what did not change since the last walk is not walked.
 *
 * For stacks of one thread that are taken often and mostly differ in a few inner frames (every allocation). A trail keeps of the last walk,
 * for each frame, where it read the caller's pc and fp. When a new walk reaches a frame with the pc, sp and fp of one of the last
 * walk, everything outwards is the same as long as these words still hold the same values: a walk is a function of its state and of the words it
 * reads, and those are compared, all of them. So the result is the one that unwind_walk would give, at one comparison of two words a frame,
 * which do not wait for each other. Nothing is written to the stack.
 *
 * One trail serves one thread. It is good under one generation (unwind_space) and one window of memory that only grows: zero `count` when
 * either changes. Context: anywhere, signal handlers included.
 * Source: techniques.md A.4 (comparing from the old end), with fp compared as well. */
#ifndef UNWIND_TRAIL_H
#define UNWIND_TRAIL_H

#include "unwind.h"

#define UNWIND_TRAIL_FRAMES 128

/* One array for each thing, since comparing goes through four of them. */
struct unwind_trail_frames {
    uint64_t pc[UNWIND_TRAIL_FRAMES], sp[UNWIND_TRAIL_FRAMES], fp[UNWIND_TRAIL_FRAMES];
    uint64_t return_at
        [UNWIND_TRAIL_FRAMES]; /* where the caller's pc was read; 0: by a rarer rule, never compared */
    uint64_t fp_at[UNWIND_TRAIL_FRAMES];   /* where the caller's fp was read; 0: it is this frame's */
    uint64_t base_at[UNWIND_TRAIL_FRAMES]; /* where the base register was saved last; 0: unknown */
    uint32_t cookie[UNWIND_TRAIL_FRAMES], flags[UNWIND_TRAIL_FRAMES]; /* as struct unwind_frame */
};

struct unwind_trail {
    uint32_t count; /* frames of the last walk, *outermost first* in `last`; zero: none */
    uint32_t end;   /* how it ended (enum unwind_end) */
    bool certain;   /* the outermost frame says by itself that it is that */
    struct unwind_trail_frames last, fresh; /* fresh: of the walk under way, innermost first */
};

struct unwind_trail_result {
    uint32_t count; /* frames: trail->last, outermost first, all pcs as on the stack */
    uint32_t same;  /* so many of the outermost are those of the walk before */
    enum unwind_end end;
    uint32_t frame_pointer_frames; /* new ones */
};

/* As unwind_walk, but registers.pc is a return address (it is looked up at pc - 1), and the cache is needed. At most
 * UNWIND_TRAIL_FRAMES frames, the innermost ones. */
struct unwind_trail_result unwind_trail_walk(struct unwind_trail *trail, const struct unwind_space *space,
                                             const struct unwind_memory *memory,
                                             const struct arch_registers *registers,
                                             struct unwind_cache *cache);

/* Would a walk from there, `pc` being a return address, give the last one's frames, all of them, up to the outermost? False too where only walking
 * can tell. It costs the comparison alone. `mask`: arch.code_mask. */
bool unwind_trail_is_same(const struct unwind_trail *trail, uint64_t pc, uint64_t sp, uint64_t fp,
                          uint64_t mask);

#endif
