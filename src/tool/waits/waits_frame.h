/* waits_frame.h - the frame pointer of a thread of which only pc and sp are known.
 *
 * /proc shows two registers of a thread that waits. With rows that is enough until a function is met that
 * finds its frame by the frame pointer, which no function it called has saved: it is still in the register.
 * But such a function began with `push %rbp; mov %rsp,%rbp`, so the register points to a word above sp with
 * a return address behind it, and that is behind a call of this very function. Candidates are, in this
 * order:
 *
 *   1. where the pushes and the subtraction of its prologue say, if a call is before the return address
 *   2. the lowest whose return address is behind a direct call of the function, also by a linkage table
 *   3. the lowest whose return address is behind an indirect call
 *
 * What earlier calls have left on the stack names other functions, and so is no candidate. None: the walk
 * ends there, as an odd rule. Code is read from the file, where calls are as they were built. x86-64 only.
 * Context: tool. */
#ifndef WAITS_FRAME_H
#define WAITS_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sample_stack.h"

struct waits_stack {
    uint64_t pc, sp;
    const uint8_t *bytes; /* from sp on */
    size_t size;
};

/* False: it is not needed, or not found. */
bool waits_frame_pointer(struct sample_stacks *sampler, struct sample_process *process,
                         const struct waits_stack *stack, uint64_t *pointer);

/* From the end of `push %rbp` on: bytes between the frame pointer and sp, by the instructions that follow;
 * UINT64_MAX: these do not say. */
uint64_t waits_frame_size(const uint8_t *code, size_t size);

#endif
