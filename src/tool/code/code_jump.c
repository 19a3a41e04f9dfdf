/* code_jump.c - does an indirect jump stay in its function (a switch) or leave it (a tail call)?
 *
 * The register that is jumped to is followed backwards, in the order of addresses, to where its value comes
 * from:
 *
 *     movslq (%rdx,%rax,4), %rax; add %rdx, %rax; ...; jmp *%rax     a sum: a table of differences
 *     mov    (%rdx,%rax,8), %rax; ...; jmp *%rax                     a word of a table (labels or functions)
 *     mov    0x18(%rdi), %rax; ...; jmp *%rax                        a word out of an object: a function
 *
 * The order of addresses is not always that of execution; an answer may be wrong, but nothing that must hold
 * depends on it: a switch taken for a tail call costs time, a tail call taken for a switch loses the name of
 * a caller. */
#include "code_scan.h"

enum { WINDOW = 24, ADD_TO_MEMORY = 0x01, ADD = 0x03, STORE = 0x89, LOAD = 0x8b };

struct operands { /* of a one-byte opcode */
    unsigned reg, rm;
    bool memory, indexed; /* rm is memory; (base,index,8) */
};

static struct operands operands_of(const struct code_instruction *at, const uint8_t *bytes)
{
    uint8_t modrm = bytes[at->modrm_at], before = at->opcode_at ? bytes[at->opcode_at - 1] : 0;
    unsigned rex = (before & 0xf0) == 0x40 ? before : 0;
    struct operands operands = {.reg = (modrm >> 3 & 7) | (rex & 4) << 1, .rm = (modrm & 7) | (rex & 1) << 3};
    operands.memory = modrm < 0xc0;
    operands.indexed = operands.memory && (modrm & 7) == 4 && bytes[at->modrm_at + 1] >> 6 == 3;
    return operands;
}

/* Where `*wanted` comes from, as far as `at` shows: a fact, or 0 with *found set; *wanted may become another
 * register. */
static unsigned find_origin(const struct code_instruction *at, const uint8_t *bytes, unsigned *wanted,
                            bool *found)
{
    if (at->opcode_map != 0)
        return 0;
    struct operands operands = operands_of(at, bytes);
    switch (at->opcode) {
    case ADD_TO_MEMORY:
        *found = !operands.memory && operands.rm == *wanted;
        return *found ? CODE_SITE_TABLE : 0;
    case ADD:
        *found = operands.reg == *wanted;
        return *found ? CODE_SITE_TABLE : 0;
    case STORE:
        if (!operands.memory && operands.rm == *wanted)
            *wanted = operands.reg;
        return 0;
    case LOAD:
        if (operands.reg != *wanted)
            return 0;
        *found = operands.memory;
        if (!operands.memory)
            *wanted = operands.rm;
        return operands.indexed ? CODE_SITE_INDEXED : 0;
    default:
        return 0;
    }
}

unsigned code_jump_facts(const struct code_instructions *instructions, size_t number, const uint8_t *code)
{
    const struct code_instruction *all = instructions->items, *jump = &all[number];
    const uint8_t *bytes = code + (jump->address - all->address);
    struct operands operands = operands_of(jump, bytes);
    unsigned wanted = operands.rm;
    bool found = false;
    if (jump->marks & CODE_NOTRACK)
        return CODE_SITE_TABLE;
    if (jump->operand != CODE_OPERAND_REGISTER)
        return jump->operand == CODE_OPERAND_MEMORY && operands.indexed ? CODE_SITE_INDEXED : 0;
    for (size_t back = 1; back <= WINDOW && back <= number; back++) {
        const struct code_instruction *at = &all[number - back];
        if (at->flow == CODE_CALL || at->flow == CODE_CALL_INDIRECT) /* what it returned, or what it kept */
            return 0;
        if (code_instruction_ends(at))
            return CODE_SITE_UNKNOWN;
        unsigned fact = find_origin(at, code + (at->address - all->address), &wanted, &found);
        if (found)
            return fact;
    }
    return CODE_SITE_UNKNOWN;
}
