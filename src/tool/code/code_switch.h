/* code_switch.h - where one indirect jump of x86-64 code goes: the table of a switch.
 *
 * Two forms are read: tables of 32-bit differences (as code_table.c draws them) and, in code that is not
 * position-independent, tables of 64-bit addresses. The register that holds the table's address is followed
 * back to its `lea` in the order of addresses; the comparison before the jump says how long the table is,
 * else it ends with the first entry that leads to no instruction of the function. (code_survey.h marks the
 * entries of all tables of an image without saying which jump reads which: enough to move code, too little to
 * find loops.) Context: tool, any thread on its own data. */
#ifndef CODE_SWITCH_H
#define CODE_SWITCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "code_instruction.h"
#include "code_text.h"

enum code_switch_kind {
    CODE_SWITCH_LEAVES,  /* not a switch by its form: a tail call */
    CODE_SWITCH_UNKNOWN, /* stays in the function, or may; the table is not found */
    CODE_SWITCH_TABLE,   /* `targets` has its entries */
};

struct code_switch {
    uint32_t *targets; /* instructions by index; entries outside of the function are left out; may repeat */
    size_t count, capacity;
    bool failed; /* out of memory */
};

/* Reads the table of the indirect jump `number` into `found` (emptied first, memory is reused). */
enum code_switch_kind code_switch_read(const struct code_instructions *instructions, size_t number,
                                       const struct code_text *memory, struct code_switch *found);
void code_switch_free(struct code_switch *found);

#endif
