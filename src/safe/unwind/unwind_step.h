/* unwind_step.h - one frame outwards by any rule (private to the module).
 *
 * The short loops take the commonest rules by themselves (unwind_fast.h); everything else comes here. */
#ifndef UNWIND_STEP_H
#define UNWIND_STEP_H

#include "unwind.h"

/* Where a walk stands: at one frame, not yet stepped out of. */
struct unwind_state {
    const struct unwind_space *space;
    const struct unwind_memory *memory;
    uint64_t pc, sp, fp;
    uint64_t key;   /* what to look up: pc, or pc - 1 where pc is a return address */
    uint32_t flags; /* of the frame: enum unwind_frame_flag */
    uint64_t base;  /* where the base register's value is saved, or the value itself: see base_saved */
    bool base_known, base_saved;
    bool fp_known; /* fp is this frame's */
    bool sp_known; /* false after a frame-pointer step where that says nothing about sp (AArch64) */
    bool moved;    /* a signal frame was crossed: memory.high says nothing about this stack */
    const struct arch_registers *full; /* all of the registers: frame 0 and interrupted frames; else NULL */
    struct arch_registers interrupted; /* what `full` points at after a signal frame */
};

#define UNWIND_STEP_ON (-1)

/* A walk stands at the frame of these registers: frame 0, looked up at its pc as it is. */
void unwind_step_start(struct unwind_state *state, const struct unwind_space *space,
                       const struct unwind_memory *memory, const struct arch_registers *registers);

/* Steps `state` out of its frame by `rule`. UNWIND_STEP_ON, or why the walk ends (enum unwind_end); the state
 * is then of no further use. */
int unwind_step(struct unwind_state *state, const struct wire_rule *rule);

#endif
