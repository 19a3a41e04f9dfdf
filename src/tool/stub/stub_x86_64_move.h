/* stub_x86_64_move.h - one x86-64 instruction, moved to another address, with the same effect.
 *
 * What changes when an instruction moves from its own address to `code`'s next byte:
 *   1. operands relative to rip get a new displacement, with the old meaning;
 *   2. branches become their long forms (jcc rel8 -> jcc rel32, loop -> loop over a jump);
 *   3. a call leaves the return address that it left before: call, write the old address over the new one,
 *      then jump - the stack looks as if the call had been made where it stood;
 *   4. with `pushed` = 8 the return address of the site is on the stack already, so what is addressed by rsp
 *      lies 8 bytes higher.
 * Refused (code->refused) is whatever would not behave the same: in case 4 instructions that push, pop, or
 * use rsp in any other way than to address memory at or above it (or to copy it), addresses relative to eip,
 * xbegin, far branches, and what is out of reach.
 *
 * A push before a short call is refused although it could be done: the return address, which the rewritten
 * call has put where the pushed word belongs, would be pushed once more and the word written over the first
 * one. Two instructions for one, neither of which takes the word from memory or rsp, and frames in between
 * that no other case has - for 17 of 2,851 short indirect calls in seven programs and libraries of Debian 12,
 * whose callees' hooks count them anyway. Pure. Context: tool. Source: Intel SDM volume 2. */
#ifndef STUB_X86_64_MOVE_H
#define STUB_X86_64_MOVE_H

#include "stub_x86_64_code.h"

/* The instruction that moves. A branch or call to an address inside [hole, hole_end) is refused. */
struct stub_x86_64_move {
    const uint8_t *bytes; /* one whole instruction, decoded no further than `available` */
    size_t available;
    uint64_t from;   /* its address */
    unsigned pushed; /* 0 or 8, as above; 16 with one more word pushed */
    uint64_t hole, hole_end;
};

/* Emits what the instruction did. Returns its length; 0 when it is no instruction. */
unsigned stub_x86_64_move(struct stub_x86_64_code *code, const struct stub_x86_64_move *move);

/* The same for an indirect call (or jump), made into a jump with the same operand: what is pushed is
 * `pushed`. */
unsigned stub_x86_64_move_as_jump(struct stub_x86_64_code *code, const uint8_t *bytes, size_t available,
                                  uint64_t from, unsigned pushed);

#endif
