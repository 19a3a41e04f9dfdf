#include "code_given.h"

#include "code_instruction.h"
#include "code_zydis.h"

enum { INSTRUCTIONS = 32 };

#define GIVEN_GENERAL 0x03d6u /* rcx, rdx, rsp, rsi, rdi, r8, r9 */
#define GIVEN_VECTOR  0x00ffu /* xmm0 to xmm7 */

struct known { /* registers, by their numbers, that were given or written */
    uint32_t general, vector;
};

/* The set and the bit of a register; NULL: one that does not matter. */
static uint32_t *set_of(struct known *known, ZydisRegister reg, uint32_t *bit)
{
    ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
    ZydisRegisterClass class = ZydisRegisterGetClass(whole);
    bool vector = class == ZYDIS_REGCLASS_XMM || class == ZYDIS_REGCLASS_YMM || class == ZYDIS_REGCLASS_ZMM;
    if (class != ZYDIS_REGCLASS_GPR64 && !vector)
        return NULL;
    *bit = 1u << ZydisRegisterGetId(whole);
    return vector ? &known->vector : &known->general;
}

/* al tells a function how many vector registers its variable arguments are in. */
static bool is_known(struct known *known, ZydisRegister reg)
{
    uint32_t bit = 0;
    const uint32_t *set = reg == ZYDIS_REGISTER_AL ? NULL : set_of(known, reg, &bit);
    return set == NULL || (*set & bit) != 0;
}

/* xor eax, eax and the like read nothing. */
static bool clears(const ZydisDecodedInstruction *in, const ZydisDecodedOperand *operands)
{
    switch (in->mnemonic) {
    case ZYDIS_MNEMONIC_XOR:
    case ZYDIS_MNEMONIC_SUB:
    case ZYDIS_MNEMONIC_SBB: /* reads the carry alone */
    case ZYDIS_MNEMONIC_PXOR:
    case ZYDIS_MNEMONIC_XORPS:
    case ZYDIS_MNEMONIC_XORPD:
    case ZYDIS_MNEMONIC_VPXOR:
    case ZYDIS_MNEMONIC_VXORPS:
    case ZYDIS_MNEMONIC_VXORPD:
        break;
    default:
        return false;
    }
    unsigned last = in->operand_count_visible - 1u;
    return last > 0 && operands[last].type == ZYDIS_OPERAND_TYPE_REGISTER &&
           operands[last - 1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
           operands[last].reg.value == operands[last - 1].reg.value;
}

/* Saves a register on the stack, whatever it holds: push, or a move to where rsp points. */
static bool saves(const ZydisDecodedInstruction *in, const ZydisDecodedOperand *operands)
{
    bool to_stack = operands[0].type == ZYDIS_OPERAND_TYPE_MEMORY &&
                    operands[0].mem.base == ZYDIS_REGISTER_RSP &&
                    operands[0].mem.index == ZYDIS_REGISTER_NONE;
    return in->mnemonic == ZYDIS_MNEMONIC_PUSH || (in->mnemonic == ZYDIS_MNEMONIC_MOV && to_stack);
}

/* What is perhaps written is perhaps kept. */
#define READS (ZYDIS_OPERAND_ACTION_MASK_READ | ZYDIS_OPERAND_ACTION_CONDWRITE)

static bool reads_known(struct known *known, const ZydisDecodedInstruction *in,
                        const ZydisDecodedOperand *operands)
{
    bool skips = clears(in, operands) || saves(in, operands);
    if (in->mnemonic == ZYDIS_MNEMONIC_NOP) /* may name operands */
        return true;
    for (unsigned i = 0; i < in->operand_count; i++) {
        const ZydisDecodedOperand *operand = &operands[i];
        bool read = (operand->actions & READS) != 0 && !skips;
        if (operand->type == ZYDIS_OPERAND_TYPE_REGISTER && read && !is_known(known, operand->reg.value))
            return false;
        if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
            (!is_known(known, operand->mem.base) || !is_known(known, operand->mem.index)))
            return false;
    }
    return true;
}

static void note_written(struct known *known, const ZydisDecodedInstruction *in,
                         const ZydisDecodedOperand *operands)
{
    for (unsigned i = 0; i < in->operand_count; i++) {
        uint32_t bit = 0;
        bool written = operands[i].type == ZYDIS_OPERAND_TYPE_REGISTER &&
                       (operands[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0;
        uint32_t *set = written ? set_of(known, operands[i].reg.value, &bit) : NULL;
        if (set != NULL)
            *set |= bit;
    }
}

bool code_given_only(const struct code_text *text, uint64_t address)
{
    static const ZydisDecoder decoder = CODE_ZYDIS_DECODER(ZYAN_FALSE);
    struct known known = {GIVEN_GENERAL, GIVEN_VECTOR};
    for (unsigned i = 0; i < INSTRUCTIONS; i++) {
        ZydisDecodedInstruction in;
        ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
        size_t available = 0;
        const uint8_t *bytes = code_text_at(text, address, &available);
        if (bytes == NULL ||
            !ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, available, &in, operands)) ||
            !reads_known(&known, &in, operands))
            return false;
        if (in.meta.category == ZYDIS_CATEGORY_CALL || in.meta.category == ZYDIS_CATEGORY_RET ||
            in.meta.category == ZYDIS_CATEGORY_UNCOND_BR)
            return true;
        note_written(&known, &in, operands);
        address += in.length;
    }
    return true;
}
