/* Moving instructions. The numbers are those of the header. */
#include <string.h>

#include <Zydis/Zydis.h>

#include "stub_x86_64_move.h"

#define RSP 4 /* in modrm.rm (then a SIB follows) and sib.base */

struct moved {
    ZydisDecodedInstruction instruction;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    const uint8_t *bytes;
    uint64_t from;
    unsigned pushed;
};

static uint64_t next_of(const struct moved *moved)
{
    return moved->from + moved->instruction.length;
}

static bool decode_moved(struct moved *moved, size_t available)
{
    ZydisDecoder decoder;
    return ZYAN_SUCCESS(ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)) &&
           ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, moved->bytes, available, &moved->instruction,
                                               moved->operands));
}

static bool is_stack_register(ZydisRegister reg)
{
    return reg == ZYDIS_REGISTER_RSP || reg == ZYDIS_REGISTER_ESP || reg == ZYDIS_REGISTER_SP ||
           reg == ZYDIS_REGISTER_SPL;
}

/* The memory operand that modrm speaks of; NULL: there is none. */
static const ZydisDecodedOperand *memory_operand(const struct moved *moved)
{
    for (unsigned i = 0; i < moved->instruction.operand_count; i++) {
        const ZydisDecodedOperand *operand = &moved->operands[i];
        if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
            operand->encoding == ZYDIS_OPERAND_ENCODING_MODRM_RM)
            return operand;
    }
    return NULL;
}

/* Does it name rsp as a register, or push or pop? A base of memory does not count. */
static bool uses_stack_register(const struct moved *moved)
{
    for (unsigned i = 0; i < moved->instruction.operand_count; i++) {
        const ZydisDecodedOperand *operand = &moved->operands[i];
        if (operand->type == ZYDIS_OPERAND_TYPE_REGISTER && is_stack_register(operand->reg.value))
            return true;
        if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY && is_stack_register(operand->mem.base) &&
            operand->encoding != ZYDIS_OPERAND_ENCODING_MODRM_RM)
            return true;
    }
    return false;
}

/* 1. Copies with the displacement that means the same from here. */
static void put_rebased(struct stub_x86_64_code *code, const struct moved *moved, const uint8_t *bytes)
{
    const ZydisDecodedInstruction *in = &moved->instruction;
    unsigned at = in->raw.disp.offset, end = at + 4;
    stub_x86_64_code_bytes(code, bytes, at);
    stub_x86_64_code_relative(code, next_of(moved) + (uint64_t)in->raw.disp.value, in->length - end);
    stub_x86_64_code_bytes(code, bytes + end, in->length - end);
}

/* 4. Copies with the displacement raised; the encoding grows when it must. */
static void put_raised(struct stub_x86_64_code *code, const struct moved *moved, const uint8_t *bytes,
                       const ZydisDecodedOperand *memory)
{
    const ZydisDecodedInstruction *in = &moved->instruction;
    int64_t old = memory->mem.disp.has_displacement ? memory->mem.disp.value : 0;
    int64_t displacement = old + moved->pushed;
    unsigned rest = in->raw.sib.offset + 1u + in->raw.disp.size / 8u;
    bool evex = in->encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX; /* its short displacements are scaled */
    bool is_short = displacement <= INT8_MAX && !evex;
    /* Below rsp the return address was written over what the operand means. An index may bring it above. */
    if ((old < 0 && memory->mem.index == ZYDIS_REGISTER_NONE) || displacement < INT8_MIN ||
        displacement > INT32_MAX)
        stub_x86_64_code_refuse(code, STUB_REASON_IMMOVABLE);
    stub_x86_64_code_bytes(code, bytes, in->raw.modrm.offset);
    stub_x86_64_code_put(code, (uint8_t)((bytes[in->raw.modrm.offset] & 0x3f) | (is_short ? 0x40 : 0x80)),
                         bytes[in->raw.sib.offset]);
    if (is_short)
        stub_x86_64_code_put(code, (uint8_t)displacement);
    else
        stub_x86_64_code_32(code, (uint32_t)displacement);
    stub_x86_64_code_bytes(code, bytes + rest, in->length - rest);
}

/* Everything that is no branch; `bytes` may differ from the instruction in modrm.reg. */
static void put_operands(struct stub_x86_64_code *code, const struct moved *moved, const uint8_t *bytes)
{
    const ZydisDecodedOperand *memory = memory_operand(moved);
    ZydisRegister base = memory != NULL ? memory->mem.base : ZYDIS_REGISTER_NONE;
    if (base == ZYDIS_REGISTER_EIP || moved->instruction.encoding == ZYDIS_INSTRUCTION_ENCODING_MVEX)
        stub_x86_64_code_refuse(code, STUB_REASON_IMMOVABLE);
    if (base == ZYDIS_REGISTER_RIP)
        put_rebased(code, moved, bytes);
    else if (moved->pushed != 0 && is_stack_register(base))
        put_raised(code, moved, bytes, memory);
    else
        stub_x86_64_code_bytes(code, bytes, moved->instruction.length);
}

/* mov reg64, rsp with something pushed: lea reg64, [rsp+pushed]. Flags are as little touched. */
static bool put_copied_stack(struct stub_x86_64_code *code, const struct moved *moved)
{
    const ZydisDecodedInstruction *in = &moved->instruction;
    if (in->mnemonic != ZYDIS_MNEMONIC_MOV || in->operand_width != 64 ||
        moved->operands[0].type != ZYDIS_OPERAND_TYPE_REGISTER ||
        moved->operands[1].type != ZYDIS_OPERAND_TYPE_REGISTER ||
        moved->operands[1].reg.value != ZYDIS_REGISTER_RSP || is_stack_register(moved->operands[0].reg.value))
        return false;
    unsigned to = (unsigned)ZydisRegisterGetId(moved->operands[0].reg.value);
    stub_x86_64_code_put(code, to >= 8 ? 0x4c : 0x48, 0x8d, (uint8_t)(0x44 | (to & 7) << 3), 0x24,
                         (uint8_t)moved->pushed);
    return true;
}

/* 2. */
static void put_branch(struct stub_x86_64_code *code, const struct moved *moved, uint64_t target)
{
    const ZydisDecodedInstruction *in = &moved->instruction;
    if (in->mnemonic == ZYDIS_MNEMONIC_XBEGIN) {
        stub_x86_64_code_refuse(code, STUB_REASON_IMMOVABLE);
    } else if (in->meta.category == ZYDIS_CATEGORY_UNCOND_BR) {
        stub_x86_64_code_jump(code, target);
    } else if (in->opcode_map == ZYDIS_OPCODE_MAP_0F || (in->opcode & 0xf0) == 0x70) {
        stub_x86_64_code_put(code, 0x0f, (uint8_t)(0x80 | (in->opcode & 0x0f)));
        stub_x86_64_code_relative(code, target, 0);
    } else { /* loop and jrcxz, with its prefixes: over the jump that leaves, into the jump that goes */
        stub_x86_64_code_bytes(code, moved->bytes, in->length - 1u);
        stub_x86_64_code_put(code, 2, 0xeb, 5);
        stub_x86_64_code_jump(code, target);
    }
}

/* 3. A real call, over one byte, whose return address is then replaced: processors predict returns by
 * counting calls, and one call too few would make every return on the stack go wrong, not just this one. (A
 * call of the very next instruction is not counted.) The word is pushed whole, from behind the jump that
 * follows: two halves would make the return wait. Returns where the distance to the word is missing. */
static unsigned put_return_address(struct stub_x86_64_code *code)
{
    stub_x86_64_code_put(code, 0xe8, 1, 0, 0, 0, 0xcc);       /* call over; int3 */
    stub_x86_64_code_put(code, 0x48, 0x8d, 0x64, 0x24, 0x08); /* over: lea rsp, [rsp+8] */
    stub_x86_64_code_put(code, 0xff, 0x35, 0, 0, 0, 0);       /* push qword [rip+word] */
    return code->size;
}

static void put_jump_of(struct stub_x86_64_code *code, const struct moved *moved)
{
    uint8_t bytes[ZYDIS_MAX_INSTRUCTION_LENGTH];
    const ZydisDecodedInstruction *in = &moved->instruction;
    unsigned modrm = in->raw.modrm.offset;
    if (in->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR || modrm == 0 || in->opcode != 0xff ||
        (in->raw.modrm.mod == 3 && in->raw.modrm.rm == RSP &&
         moved->operands[0].reg.value == ZYDIS_REGISTER_RSP)) {
        stub_x86_64_code_refuse(code, STUB_REASON_IMMOVABLE);
        return;
    }
    memcpy(bytes, moved->bytes, in->length);
    bytes[modrm] = (uint8_t)((bytes[modrm] & 0xc7) | 0x20); /* ff /2 or /4 -> ff /4 */
    put_operands(code, moved, bytes);
}

static void put_call(struct stub_x86_64_code *code, struct moved *moved, uint64_t target)
{
    if (moved->pushed != 0)
        stub_x86_64_code_refuse(code, STUB_REASON_IMMOVABLE);
    unsigned pushed = put_return_address(code);
    moved->pushed = 8;
    if (moved->instruction.raw.imm[0].is_relative)
        stub_x86_64_code_jump(code, target);
    else
        put_jump_of(code, moved);
    code->bytes[pushed - 4] = (uint8_t)(code->size - pushed);
    stub_x86_64_code_32(code, (uint32_t)next_of(moved));
    stub_x86_64_code_32(code, (uint32_t)(next_of(moved) >> 32));
}

/* The target of a relative branch or call; false: it is none. */
static bool target_of(const struct moved *moved, uint64_t *target)
{
    const ZydisDecodedInstruction *in = &moved->instruction;
    if (!in->raw.imm[0].is_relative)
        return false;
    *target = next_of(moved) + (uint64_t)in->raw.imm[0].value.s;
    return true;
}

unsigned stub_x86_64_move(struct stub_x86_64_code *code, const struct stub_x86_64_move *move)
{
    struct moved moved = {.bytes = move->bytes, .from = move->from, .pushed = move->pushed};
    uint64_t target = 0;
    if (!decode_moved(&moved, move->available))
        return 0;
    const ZydisDecodedInstruction *in = &moved.instruction;
    bool relative = target_of(&moved, &target);
    if ((relative && target >= move->hole && target < move->hole_end) ||
        in->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
        stub_x86_64_code_refuse(code, STUB_REASON_IMMOVABLE);
    if (in->meta.category == ZYDIS_CATEGORY_CALL)
        put_call(code, &moved, target);
    else if (relative)
        put_branch(code, &moved, target);
    else if (move->pushed == 0 || !uses_stack_register(&moved))
        put_operands(code, &moved, move->bytes);
    else if (!put_copied_stack(code, &moved))
        stub_x86_64_code_refuse(code, STUB_REASON_IMMOVABLE);
    return in->length;
}

unsigned stub_x86_64_move_as_jump(struct stub_x86_64_code *code, const uint8_t *bytes, size_t available,
                                  uint64_t from, unsigned pushed)
{
    struct moved moved = {.bytes = bytes, .from = from, .pushed = pushed};
    if (!decode_moved(&moved, available))
        return 0;
    put_jump_of(code, &moved);
    return moved.instruction.length;
}
