/* slab_frame.h - what a thread that is seen inside a slab is doing in terms of the program.
 *
 * No call-frame information describes stubs, hooks and moved instructions. A walk of a sampled stack begins
 * with this function and then goes on as if nothing had been patched:
 *
 *   kind      the thread is                                       walk on with
 *   ENTRY     about to execute the callee's first instruction     pc; the return address is at
 *                                                                 rsp + 8 * pushed
 *   CALL      about to be in a callee that is not known yet       the caller: return address at
 *                                                                 rsp + 8 * pushed
 *   MOVED     at the instruction that was at pc                   pc, by its own rules; its rsp is
 *                                                                 rsp + 8 * pushed
 *   RECORDER  in the code that hooks of this slab call            call it again, with the pc at
 *                                                                 rsp + 8 * pushed, and rsp + 8 * pushed + 8
 *                                                                 as the stack pointer
 *
 * `own`: the instruction is one that counting added, none of the program's; so is every one of RECORDER.
 * `pushed` is the number of words that the slab's own code has on the stack at this pc; all other registers
 * have the values that the program gave them, except those that a hook saved (rax, rcx, and in the recorder
 * rdx, rsi, rdi, r8, r9, r10), which no frame rule needs at a function's entry. In ENTRY the pc is the
 * program's: a function's entry, or a linkage stub. Only where another slab has hooked the function
 * (slab_resolve) it lies in that slab, whose frame is MOVED.
 *
 * Context: tool; nothing is changed, so any thread while the slab and the regions' bytes stay. Cost: a few
 * hundred nanoseconds, decoding one stub. */
#ifndef SLAB_FRAME_H
#define SLAB_FRAME_H

#include "slab.h"

enum slab_frame_kind {
    SLAB_FRAME_ENTRY = 1,
    SLAB_FRAME_CALL,
    SLAB_FRAME_MOVED,
    SLAB_FRAME_RECORDER /* at most once: what lies there is a hook's pc */
};

struct slab_frame {
    uint64_t pc; /* run-time; CALL, RECORDER: 0 */
    uint32_t pushed;
    enum slab_frame_kind kind;
    bool own;
};

/* False: `pc` (run-time) is neither in the slab's code nor on one of its islands, or no instruction begins
 * there. */
bool slab_frame(const struct slab *slab, uint64_t pc, struct slab_frame *frame);

#endif
