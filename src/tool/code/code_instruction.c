/* code_instruction.c - Zydis' raw fields, turned into what code_instruction.h promises. Opcodes are written
 * as the manual has them: map 0 is one byte, map 1 begins with 0f; "ff /2" is opcode ff with 2 in ModRM's reg
 * field. */
#include "code_instruction.h"

#include <stdlib.h>

#include "base_array.h"
#include "code_quick.h"
#include "code_zydis.h"

enum { PREFIX_OPERAND_SIZE = 0x66, PREFIX_ADDRESS_SIZE = 0x67, PREFIX_GS = 0x65, PREFIX_LOCK = 0xf0 };
enum { PREFIX_BND = 0xf2, PREFIX_REP = 0xf3, PREFIX_NOTRACK = 0x3e };
enum { PLAIN = 0, TWO_BYTES = 1 }; /* opcode maps */

static bool has_prefix(const ZydisDecodedInstruction *raw, uint8_t value)
{
    for (unsigned i = 0; i < raw->raw.prefix_count; i++)
        if (raw->raw.prefixes[i].value == value)
            return true;
    return false;
}

/* --- flow --- */

static uint8_t flow_of_ff(uint8_t reg)
{
    static const uint8_t flow[8] = {[2] = CODE_CALL_INDIRECT,
                                    [3] = CODE_CALL_INDIRECT,
                                    [4] = CODE_JUMP_INDIRECT,
                                    [5] = CODE_JUMP_INDIRECT};
    return flow[reg];
}

static uint8_t flow_of_plain(const ZydisDecodedInstruction *raw)
{
    switch (raw->opcode) {
    case 0x70 ... 0x7f:
        return CODE_BRANCH;
    case 0xe0 ... 0xe3:
        return CODE_LOOP;
    case 0xe8:
        return CODE_CALL;
    case 0xe9:
    case 0xeb:
        return CODE_JUMP;
    case 0xc2: /* ret imm16 */
    case 0xc3: /* ret */
    case 0xca: /* far ret imm16 */
    case 0xcb: /* far ret */
    case 0xcf: /* iret */
        return CODE_RETURN;
    case 0xcc: /* int3 */
    case 0xf4: /* hlt */
        return CODE_STOP;
    case 0xcd: /* int imm8 */
    case 0xf1: /* int1 */
        return CODE_SYSTEM;
    case 0xc7:
        return raw->raw.imm[0].is_relative ? CODE_XBEGIN : CODE_STRAIGHT;
    case 0xff:
        return flow_of_ff(raw->raw.modrm.reg);
    default:
        return CODE_STRAIGHT;
    }
}

static uint8_t flow_of_0f(uint8_t opcode)
{
    switch (opcode) {
    case 0x80 ... 0x8f:
        return CODE_BRANCH;
    case 0x0b: /* ud2 */
    case 0xb9: /* ud1 */
    case 0xff: /* ud0 */
        return CODE_STOP;
    case 0x05: /* syscall */
    case 0x34: /* sysenter */
        return CODE_SYSTEM;
    case 0x07: /* sysret */
    case 0x35: /* sysexit */
    case 0xaa: /* rsm */
        return CODE_RETURN;
    default:
        return CODE_STRAIGHT;
    }
}

static uint8_t flow_of(const ZydisDecodedInstruction *raw)
{
    if (raw->encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY)
        return CODE_STRAIGHT;
    if (raw->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT)
        return flow_of_plain(raw);
    return raw->opcode_map == ZYDIS_OPCODE_MAP_0F ? flow_of_0f(raw->opcode) : CODE_STRAIGHT;
}

static bool is_relative_branch(uint8_t flow)
{
    return flow == CODE_CALL || flow == CODE_JUMP || flow == CODE_BRANCH || flow == CODE_LOOP ||
           flow == CODE_XBEGIN;
}

static bool is_indirect(uint8_t flow)
{
    return flow == CODE_CALL_INDIRECT || flow == CODE_JUMP_INDIRECT;
}

/* --- marks --- */

static bool touches_gs(const ZydisDecodedInstruction *raw)
{
    uint8_t opcode = raw->opcode, reg = raw->raw.modrm.reg, mod = raw->raw.modrm.mod;
    if (raw->encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY)
        return false;
    if (raw->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT)
        return opcode == 0x8e && reg == 5; /* mov to gs */
    if (raw->opcode_map != ZYDIS_OPCODE_MAP_0F)
        return false;
    if (opcode == 0xae) /* rdgsbase, wrgsbase */
        return mod == 3 && (reg == 1 || reg == 3) && has_prefix(raw, PREFIX_REP);
    if (opcode == 0x01) /* swapgs */
        return mod == 3 && reg == 7 && raw->raw.modrm.rm == 0;
    return opcode == 0xa9 || opcode == 0xb5; /* pop gs, lgs */
}

static bool is_padding(const ZydisDecodedInstruction *raw)
{
    if (raw->encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY)
        return false;
    if (raw->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT)
        return raw->opcode == 0xcc ||
               (raw->opcode == 0x90 && !raw->raw.rex.B && !has_prefix(raw, PREFIX_REP));
    return raw->opcode_map == ZYDIS_OPCODE_MAP_0F && raw->opcode == 0x1f && raw->raw.modrm.reg == 0;
}

/* f3 0f 1e fa: without the prefix, or with another ModRM, it is one of the hint instructions around it. */
static bool is_endbr64(const ZydisDecodedInstruction *raw)
{
    return raw->encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY && raw->opcode_map == ZYDIS_OPCODE_MAP_0F &&
           raw->opcode == 0x1e && raw->raw.modrm.mod == 3 && raw->raw.modrm.reg == 7 &&
           raw->raw.modrm.rm == 2 && has_prefix(raw, PREFIX_REP);
}

static bool is_addressed_by_rsp(const ZydisDecodedInstruction *raw, uint8_t flow)
{
    const ZydisDecodedInstructionRaw *fields = &raw->raw;
    if (fields->modrm.offset == 0 || fields->modrm.rm != 4)
        return false;
    if (raw->encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY && fields->rex.B)
        return false;
    return fields->modrm.mod == 3 ? is_indirect(flow) : fields->sib.base == 4;
}

static unsigned marks_of_prefixes(const ZydisDecodedInstruction *raw, uint8_t flow)
{
    unsigned marks = 0;
    if (raw->raw.prefix_count == 0)
        return 0;
    bool branch = is_relative_branch(flow) || is_indirect(flow);
    marks |= has_prefix(raw, PREFIX_LOCK) ? CODE_LOCK : 0;
    marks |= has_prefix(raw, PREFIX_GS) ? CODE_GS : 0;
    marks |= branch && has_prefix(raw, PREFIX_BND) ? CODE_BND : 0;
    marks |= is_indirect(flow) && has_prefix(raw, PREFIX_NOTRACK) ? CODE_NOTRACK : 0;
    if (branch && has_prefix(raw, PREFIX_OPERAND_SIZE) && !raw->raw.rex.W)
        marks |= CODE_AMBIGUOUS;
    return marks;
}

static uint16_t marks_of(const ZydisDecodedInstruction *raw, uint8_t flow, bool rip_relative)
{
    unsigned marks = marks_of_prefixes(raw, flow);
    bool plain =
        raw->encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY && raw->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT;
    marks |= plain && raw->opcode == 0x8d ? CODE_LEA : 0;
    marks |= is_endbr64(raw) ? CODE_ENDBR : 0;
    marks |= is_padding(raw) ? CODE_PADDING : 0;
    marks |= is_addressed_by_rsp(raw, flow) ? CODE_STACK : 0;
    marks |= touches_gs(raw) ? CODE_GS : 0;
    marks |= is_indirect(flow) && (raw->raw.modrm.reg & 1) ? CODE_FAR : 0;
    marks |= raw->raw.disp.size == 32 && !rip_relative ? CODE_ABSOLUTE : 0;
    return (uint16_t)marks;
}

/* --- fields --- */

static uint8_t opcode_offset(const ZydisDecodedInstruction *raw)
{
    if (raw->encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY) /* VEX and the like: the byte before ModRM */
        return raw->raw.modrm.offset ? (uint8_t)(raw->raw.modrm.offset - 1) : (uint8_t)(raw->length - 1);
    switch (raw->opcode_map) {
    case ZYDIS_OPCODE_MAP_0F:
        return (uint8_t)(raw->raw.prefix_count + 1);
    case ZYDIS_OPCODE_MAP_0F38:
    case ZYDIS_OPCODE_MAP_0F3A:
        return (uint8_t)(raw->raw.prefix_count + 2);
    default:
        return raw->raw.prefix_count;
    }
}

static uint8_t map_of(const ZydisDecodedInstruction *raw)
{
    if (raw->encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY)
        return (uint8_t)(16 + raw->opcode_map);
    return (uint8_t)raw->opcode_map;
}

static bool is_rip_relative(const ZydisDecodedInstruction *raw)
{
    const ZydisDecodedInstructionRaw *fields = &raw->raw;
    return fields->modrm.offset && fields->modrm.mod == 0 && fields->modrm.rm == 5 && fields->disp.size == 32;
}

static uint8_t operand_of(const ZydisDecodedInstruction *raw, uint8_t flow, bool rip_relative)
{
    if (!is_indirect(flow))
        return CODE_OPERAND_NONE;
    if (raw->raw.modrm.mod == 3)
        return CODE_OPERAND_REGISTER;
    return rip_relative ? CODE_OPERAND_RIP : CODE_OPERAND_MEMORY;
}

static void fill_displacement(const ZydisDecodedInstruction *raw, struct code_instruction *out)
{
    uint64_t next = out->address + out->length;
    if (is_relative_branch(out->flow)) {
        out->target = next + (uint64_t)raw->raw.imm[0].value.s;
        out->displacement_at = raw->raw.imm[0].offset;
        out->displacement_size = raw->raw.imm[0].size / 8;
    } else if (out->rip_relative) {
        out->memory = next + (uint64_t)raw->raw.disp.value;
        if (raw->address_width == 32)
            out->memory = (uint32_t)out->memory;
        out->displacement_at = raw->raw.disp.offset;
        out->displacement_size = 4;
    }
}

static void fill_immediate(const ZydisDecodedInstruction *raw, struct code_instruction *out)
{
    unsigned last = raw->raw.imm[1].size ? 1 : 0;
    if (raw->raw.imm[last].size == 0 || raw->raw.imm[last].is_relative)
        return;
    unsigned unused = 64u - raw->raw.imm[last].size;
    out->immediate = (uint64_t)((int64_t)(raw->raw.imm[last].value.u << unused) >> unused);
    out->immediate_at = raw->raw.imm[last].offset;
    out->immediate_size = raw->raw.imm[last].size / 8;
}

bool code_instruction_decode_zydis(const uint8_t *bytes, size_t available, uint64_t address,
                                   struct code_instruction *out)
{
    static const ZydisDecoder decoder = CODE_ZYDIS_DECODER(ZYAN_TRUE);
    ZydisDecodedInstruction raw;
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, bytes, available, &raw)))
        return false;
    bool rip_relative = is_rip_relative(&raw);
    uint8_t flow = flow_of(&raw);
    *out = (struct code_instruction){
        .address = address,
        .absolute = raw.raw.disp.size == 32 && !rip_relative ? (int32_t)raw.raw.disp.value : 0,
        .marks = marks_of(&raw, flow, rip_relative),
        .length = raw.length,
        .flow = flow,
        .operand = operand_of(&raw, flow, rip_relative),
        .rip_relative = rip_relative,
        .opcode_at = opcode_offset(&raw),
        .modrm_at = raw.raw.modrm.offset,
        .opcode_map = map_of(&raw),
        .opcode = raw.opcode,
    };
    fill_displacement(&raw, out);
    fill_immediate(&raw, out);
    return true;
}

bool code_instruction_decode(const uint8_t *bytes, size_t available, uint64_t address,
                             struct code_instruction *out)
{
    return code_quick_decode(bytes, available, address, out) ||
           code_instruction_decode_zydis(bytes, available, address, out);
}

bool code_instruction_ends(const struct code_instruction *instruction)
{
    return instruction->flow == CODE_JUMP || instruction->flow == CODE_JUMP_INDIRECT ||
           instruction->flow == CODE_RETURN || instruction->flow == CODE_STOP;
}

/* --- one function --- */

/* Without a branch on what is found: half of all branches would be guessed wrong, and every jump is looked
 * up. */
size_t code_instructions_find(const struct code_instructions *instructions, uint64_t address)
{
    const struct code_instruction *base = instructions->items;
    if (instructions->count == 0)
        return SIZE_MAX;
    for (size_t left = instructions->count; left > 1;) {
        size_t half = left / 2;
        base += base[half].address <= address ? half : 0;
        left -= half;
    }
    return base->address == address ? (size_t)(base - instructions->items) : SIZE_MAX;
}

void code_instructions_free(struct code_instructions *instructions)
{
    free(instructions->items);
    *instructions = (struct code_instructions){NULL, 0, 0};
}

/* May something in [start, end) refer to `address` as code? Outside of it, anything may. The byte after a
 * lock prefix is an instruction as well: old C libraries jump there when there is one thread only. */
static bool is_boundary(const struct code_instructions *instructions, uint64_t address, uint64_t start,
                        uint64_t end)
{
    if (address < start || address >= end || code_instructions_find(instructions, address) != SIZE_MAX)
        return true;
    size_t before = code_instructions_find(instructions, address - 1);
    return before != SIZE_MAX && (instructions->items[before].marks & CODE_LOCK) != 0;
}

static int check_references(const struct code_instructions *instructions, uint64_t start, uint64_t end,
                            uint64_t *where)
{
    for (size_t i = 0; i < instructions->count; i++) {
        const struct code_instruction *at = &instructions->items[i];
        *where = at->address;
        if (at->displacement_size && !at->rip_relative && !is_boundary(instructions, at->target, start, end))
            return CODE_VERDICT_INTO_INSTRUCTION;
        if (!at->rip_relative || at->memory < start || at->memory >= end)
            continue;
        if (!(at->marks & CODE_LEA) || !is_boundary(instructions, at->memory, start, end))
            return CODE_VERDICT_DATA_IN_TEXT;
    }
    *where = start;
    return CODE_VERDICT_FINE;
}

static int decode_all(const uint8_t *bytes, size_t available, uint64_t start, uint64_t end,
                      struct code_instructions *instructions, uint64_t *where)
{
    size_t at = 0, size = (size_t)(end - start);
    while (at < size) {
        *where = start + at;
        if (!base_array_room(instructions->items, instructions->count, instructions->capacity))
            return BASE_ENOMEM;
        struct code_instruction *next = &instructions->items[instructions->count];
        if (at >= available)
            return CODE_VERDICT_NO_BYTES;
        if (!code_instruction_decode(bytes + at, available - at, *where, next))
            return CODE_VERDICT_UNDECODABLE;
        if (next->marks & CODE_AMBIGUOUS)
            return CODE_VERDICT_AMBIGUOUS;
        if (next->length > size - at)
            return CODE_VERDICT_PAST_END;
        instructions->count++;
        at += next->length;
    }
    return CODE_VERDICT_FINE;
}

int code_instructions_decode(const struct code_text *text, uint64_t start, uint64_t end,
                             struct code_instructions *instructions, uint64_t *where)
{
    size_t available;
    instructions->count = 0;
    *where = start;
    if (end <= start)
        return CODE_VERDICT_EMPTY;
    const uint8_t *bytes = code_text_at(text, start, &available);
    if (bytes == NULL)
        return CODE_VERDICT_NO_BYTES;
    int result = decode_all(bytes, available, start, end, instructions, where);
    return result == CODE_VERDICT_FINE ? check_references(instructions, start, end, where) : result;
}
