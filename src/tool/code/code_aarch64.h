/* code_aarch64.h - instructions of AArch64, as far as the flow of control goes.
 *
 * Every instruction has four bytes, and those that branch have fixed patterns: a few masks say all there is
 * to know. Only `address`, `length`, `flow`, `target`, and of `marks` CODE_PADDING are set. Context: anywhere
 * in the tool. Source: Arm Architecture Reference Manual for A-profile, C4.1 (encoding index). */
#ifndef CODE_AARCH64_H
#define CODE_AARCH64_H

#include <stddef.h>
#include <stdint.h>

#include "code_instruction.h"

void code_aarch64_decode(uint32_t word, uint64_t address, struct code_instruction *instruction);

/* As code_instructions_decode. Words that are no instruction count as straight: data between functions looks
 * like it, and nobody jumps there. */
int code_aarch64_decode_all(const struct code_text *text, uint64_t start, uint64_t end,
                            struct code_instructions *instructions, uint64_t *where);

#endif
