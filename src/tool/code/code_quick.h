/* code_quick.h - the instructions that make up most of every program, decoded without Zydis. Private to the
 * module.
 *
 * Nine of ten instructions of compiled code are of a few dozen forms: at most a REX prefix, an opcode of one
 * or two bytes whose form a table has, ModRM, an immediate or displacement. The survey of libLLVM 14 with
 * its 12 million instructions takes 0.74 s by both decoders and 1.82 s by Zydis alone (62 and 151 ns an
 * instruction; libc's takes 58 and 133: bench_code), and that is what a recording of exact calls waits for.
 * Anything else - other prefixes, opcodes not in the table, encodings that are not valid for every operand -
 * is left to Zydis. tests/unit/code/test_quick.c compares the two on every form. Context: as
 * code_instruction.h. */
#ifndef CODE_QUICK_H
#define CODE_QUICK_H

#include "code_instruction.h"

enum { CODE_QUICK_BYTES = 16 }; /* that must be there to be looked at */

/* As code_instruction_decode; false: ask Zydis. */
bool code_quick_decode(const uint8_t *bytes, size_t available, uint64_t address,
                       struct code_instruction *instruction);

/* Decodes by Zydis what code_quick_decode does not know (code_instruction.c). */
bool code_instruction_decode_zydis(const uint8_t *bytes, size_t available, uint64_t address,
                                   struct code_instruction *instruction);

#endif
