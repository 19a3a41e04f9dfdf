/* code_flags.h - which of the six arithmetic flags an instruction reads and writes, and whether they are dead
 * at an address: then a stub before it may change them.
 *
 * Context: tool. Source: Intel SDM volume 1 appendix A; System V ABI AMD64 3.2.1 (flags are neither passed to
 * a function nor returned by one). */
#ifndef CODE_FLAGS_H
#define CODE_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "code_instruction.h"

enum code_flag { CODE_CF = 1, CODE_PF = 2, CODE_AF = 4, CODE_ZF = 8, CODE_SF = 16, CODE_OF = 32 };

/* what `add` changes: all */
#define CODE_FLAGS_ADD (CODE_CF | CODE_PF | CODE_AF | CODE_ZF | CODE_SF | CODE_OF)
#define CODE_FLAGS_INC (CODE_PF | CODE_AF | CODE_ZF | CODE_SF | CODE_OF) /* what `inc` changes */

struct code_flags {
    uint8_t read; /* may be read */
    /* are overwritten (or left undefined) whatever the operands are: not by `shl %cl,..`, `repe scas` */
    uint8_t written;
};

/* A full decoding, about twice the cost of the minimal one. False: no instruction there. */
bool code_flags_of(const uint8_t *bytes, size_t available, struct code_flags *flags);

/* True when none of `flags` is read on any path from `address` before it is overwritten. Direct jumps and
 * both ways of conditional ones are followed, at most 64 instructions in all; what cannot be followed
 * (indirect jumps, bytes that are not there, far branches, system calls, int3) means "not dead". Calls and
 * near returns end a path: by the ABI no flag lives across them; so do ud2 and hlt, behind which nothing
 * runs. */
bool code_flags_dead(const struct code_text *text, uint64_t address, uint8_t flags);

#endif
