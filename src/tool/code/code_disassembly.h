/* code_disassembly.h - an instruction as text: x86-64 by Zydis in the syntax of AT&T or Intel, AArch64 by
 * Capstone.
 *
 * Targets of direct calls and jumps are shown by name: the caller gives the names. Memory relative to the
 * instruction is shown as it is written ("0x2ee2(%rip)"); what it means is code_instruction.memory. Context:
 * tool, one thread. */
#ifndef CODE_DISASSEMBLY_H
#define CODE_DISASSEMBLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"

enum code_syntax { CODE_ATT, CODE_INTEL }; /* of x86-64; AArch64 has but one */

enum { CODE_DISASSEMBLY_MAX = 256 }; /* a text's size that is always enough without names */

struct code_disassembly;

/* `machine` is ELF's: EM_X86_64, EM_AARCH64. BASE_EUNSUPPORTED: another one. */
int code_disassembly_new(uint16_t machine, enum code_syntax syntax, struct code_disassembly **disassembly,
                         struct base_error *error);
void code_disassembly_free(struct code_disassembly *disassembly);

/* Names the target of a direct call or jump; writes at most `size` bytes, terminated. NULL: targets are shown
 * as hexadecimal numbers. */
typedef void code_disassembly_name(void *context, uint64_t target, char *text, size_t size);

/* What is to be shown. */
struct code_disassembly_source {
    const uint8_t *bytes;
    size_t available;
    uint64_t address;
    code_disassembly_name *name; /* may be NULL */
    void *context;
};

/* The instruction as text, terminated, cut to `size`. Returns its length in bytes; 0: there is none, *text is
 * then "(bad)". */
size_t code_disassembly_text(struct code_disassembly *disassembly,
                             const struct code_disassembly_source *source, char *text, size_t size);

#endif
