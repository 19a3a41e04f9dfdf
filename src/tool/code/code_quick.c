/* code_quick.c - a table of forms. code_quick.h says why there is one beside Zydis, with a figure. Source:
 * Intel SDM volume 2, appendix A (opcode maps). */
#include "code_quick.h"

#include <string.h>

/* A form; 0: not in the table. */
enum {
    KNOWN = 0x80,
    MODRM = 0x40,
    GROUP = 0x20,  /* valid for some values of ModRM's reg only: group_of */
    MEMORY = 0x10, /* invalid with a register */
    NO_REX = 0x08, /* means something else behind a REX prefix */
    KIND = 0x07,   /* what follows ModRM: */
    IMMEDIATE_1 = 1,
    IMMEDIATE_4 = 2,
    IMMEDIATE_WIDE = 3, /* 8 bytes with REX.W, else 4 */
    RELATIVE_1 = 4,
    RELATIVE_4 = 5
};

#define ALU(base)                                                                                            \
    [(base)...(base) + 3] = KNOWN | MODRM, [(base) + 4] = KNOWN | IMMEDIATE_1,                               \
                       [(base) + 5] = KNOWN | IMMEDIATE_4

static const uint8_t one_byte[256] = {
    ALU(0x00),               /* add */
    ALU(0x08),               /* or */
    ALU(0x10),               /* adc */
    ALU(0x18),               /* sbb */
    ALU(0x20),               /* and */
    ALU(0x28),               /* sub */
    ALU(0x30),               /* xor */
    ALU(0x38),               /* cmp */
    [0x50 ... 0x5f] = KNOWN, /* push, pop */
    [0x63] = KNOWN | MODRM,  /* movslq */
    [0x68] = KNOWN | IMMEDIATE_4,
    [0x69] = KNOWN | MODRM | IMMEDIATE_4,
    [0x6a] = KNOWN | IMMEDIATE_1,
    [0x6b] = KNOWN | MODRM | IMMEDIATE_1,
    [0x70 ... 0x7f] = KNOWN | RELATIVE_1,
    [0x80] = KNOWN | MODRM | IMMEDIATE_1,
    [0x81] = KNOWN | MODRM | IMMEDIATE_4,
    [0x83] = KNOWN | MODRM | IMMEDIATE_1,
    [0x84 ... 0x8b] = KNOWN | MODRM, /* test, xchg, mov */
    [0x8d] = KNOWN | MODRM | MEMORY, /* lea */
    [0x90] = KNOWN | NO_REX,
    [0x98 ... 0x99] = KNOWN,
    [0xa8] = KNOWN | IMMEDIATE_1,
    [0xa9] = KNOWN | IMMEDIATE_4,
    [0xb0 ... 0xb7] = KNOWN | IMMEDIATE_1,
    [0xb8 ... 0xbf] = KNOWN | IMMEDIATE_WIDE,
    [0xc0 ... 0xc1] = KNOWN | MODRM | GROUP | IMMEDIATE_1,
    [0xc3] = KNOWN, /* ret */
    [0xc6] = KNOWN | MODRM | GROUP | IMMEDIATE_1,
    [0xc7] = KNOWN | MODRM | GROUP | IMMEDIATE_4,
    [0xc9] = KNOWN, /* leave */
    [0xd0 ... 0xd3] = KNOWN | MODRM | GROUP,
    [0xe8 ... 0xe9] = KNOWN | RELATIVE_4,
    [0xeb] = KNOWN | RELATIVE_1,
    [0xf6 ... 0xf7] = KNOWN | MODRM | GROUP, /* reg 0 has an immediate: kind_of */
    [0xfe ... 0xff] = KNOWN | MODRM | GROUP,
};

static const uint8_t two_bytes[256] = {
    [0x10 ... 0x11] = KNOWN | MODRM, /* movups */
    [0x28 ... 0x29] = KNOWN | MODRM, /* movaps */
    [0x1f] = KNOWN | MODRM | GROUP,  /* nop */
    [0x40 ... 0x4f] = KNOWN | MODRM, /* cmovcc */
    [0x57] = KNOWN | MODRM,          /* xorps */
    [0x80 ... 0x8f] = KNOWN | RELATIVE_4,
    [0x90 ... 0x9f] = KNOWN | MODRM, /* setcc */
    [0xaf] = KNOWN | MODRM,          /* imul */
    [0xb6 ... 0xb7] = KNOWN | MODRM, /* movzx */
    [0xbe ... 0xbf] = KNOWN | MODRM, /* movsx */
};

/* A bit for each value of reg that is valid whatever else ModRM says. */
static uint8_t group_of(bool two, uint8_t opcode)
{
    if (two) /* 0f 1f /0 */
        return 0x01;
    switch (opcode) {
    case 0xc6:
    case 0xc7:
        return 0x01;
    case 0xf6:
    case 0xf7:
        return 0xfd;
    case 0xfe:
        return 0x03;
    case 0xff: /* inc, dec, call, jmp, push */
        return 0x57;
    default: /* shifts */
        return 0xbf;
    }
}

static uint8_t flow_of(bool two, uint8_t opcode, uint8_t reg)
{
    if (two)
        return opcode >= 0x80 && opcode <= 0x8f ? CODE_BRANCH : CODE_STRAIGHT;
    switch (opcode) {
    case 0x70 ... 0x7f:
        return CODE_BRANCH;
    case 0xc3:
        return CODE_RETURN;
    case 0xe8:
        return CODE_CALL;
    case 0xe9:
    case 0xeb:
        return CODE_JUMP;
    case 0xff:
        return reg == 2 ? CODE_CALL_INDIRECT : reg == 4 ? CODE_JUMP_INDIRECT : CODE_STRAIGHT;
    default:
        return CODE_STRAIGHT;
    }
}

struct place { /* in the instruction at hand */
    const uint8_t *bytes;
    uint8_t at, rex;
};

static int32_t read_4(const uint8_t *bytes)
{
    int32_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

/* ModRM, SIB and displacement; the displacement of memory addressed by rip is left for the end, when the
 * length is known. */
static void take_modrm(struct place *place, struct code_instruction *out)
{
    uint8_t modrm = place->bytes[place->at], mod = modrm >> 6, rm = modrm & 7, base = rm;
    out->modrm_at = place->at++;
    if (mod == 3)
        return;
    if (rm == 4) {
        base = place->bytes[place->at++] & 7;
        out->marks |= base == 4 && !(place->rex & 1) ? CODE_STACK : 0;
    }
    if (mod == 1) {
        place->at++;
    } else if (mod == 2 || base == 5) {
        if (mod == 0 && rm == 5) {
            out->rip_relative = true;
            out->displacement_at = place->at;
            out->displacement_size = 4;
        } else {
            out->absolute = read_4(place->bytes + place->at);
            out->marks |= CODE_ABSOLUTE;
        }
        place->at = (uint8_t)(place->at + 4);
    }
}

static void take_immediate(struct place *place, uint8_t size, struct code_instruction *out)
{
    const uint8_t *bytes = place->bytes + place->at;
    if (size == 1)
        out->immediate = (uint64_t)(int64_t)(int8_t)*bytes;
    else if (size == 4)
        out->immediate = (uint64_t)(int64_t)read_4(bytes);
    else
        memcpy(&out->immediate, bytes, sizeof out->immediate);
    out->immediate_at = place->at;
    out->immediate_size = size;
    place->at = (uint8_t)(place->at + size);
}

static void take_rest(struct place *place, uint8_t kind, struct code_instruction *out)
{
    switch (kind) {
    case IMMEDIATE_1:
        take_immediate(place, 1, out);
        break;
    case IMMEDIATE_4:
        take_immediate(place, 4, out);
        break;
    case IMMEDIATE_WIDE:
        take_immediate(place, place->rex & 8 ? 8 : 4, out);
        break;
    case RELATIVE_1:
    case RELATIVE_4:
        out->displacement_at = place->at;
        out->displacement_size = kind == RELATIVE_1 ? 1 : 4;
        place->at = (uint8_t)(place->at + out->displacement_size);
        break;
    default:
        break;
    }
}

static void finish_form(const struct place *place, struct code_instruction *out)
{
    out->length = place->at;
    if (out->displacement_size == 0)
        return;
    const uint8_t *bytes = place->bytes + out->displacement_at;
    int64_t displacement = out->displacement_size == 1 ? (int8_t)*bytes : read_4(bytes);
    uint64_t there = out->address + out->length + (uint64_t)displacement;
    *(out->rip_relative ? &out->memory : &out->target) = there;
}

static void finish_indirect(const struct place *place, uint8_t modrm, struct code_instruction *out)
{
    if (modrm < 0xc0) {
        out->operand = out->rip_relative ? CODE_OPERAND_RIP : CODE_OPERAND_MEMORY;
        return;
    }
    out->operand = CODE_OPERAND_REGISTER;
    out->marks |= (modrm & 7) == 4 && !(place->rex & 1) ? CODE_STACK : 0;
}

bool code_quick_decode(const uint8_t *bytes, size_t available, uint64_t address, struct code_instruction *out)
{
    struct place place = {bytes, 0, 0};
    if (available < CODE_QUICK_BYTES)
        return false;
    if ((bytes[0] & 0xf0) == 0x40)
        place.rex = bytes[place.at++];
    bool two = bytes[place.at] == 0x0f;
    place.at = (uint8_t)(place.at + two);
    uint8_t opcode = bytes[place.at], form = (two ? two_bytes : one_byte)[opcode],
            modrm = bytes[place.at + 1];
    uint8_t reg = modrm >> 3 & 7, kind = form & KIND;
    if (!(form & KNOWN) || ((form & GROUP) && !(group_of(two, opcode) >> reg & 1)) ||
        ((form & MEMORY) && modrm >= 0xc0) || ((form & NO_REX) && place.rex))
        return false;
    *out = (struct code_instruction){
        .address = address, .opcode_at = place.at, .opcode_map = two, .opcode = opcode};
    out->flow = flow_of(two, opcode, reg);
    place.at++;
    if (form & MODRM)
        take_modrm(&place, out);
    if (!two && (opcode == 0xf6 || opcode == 0xf7) && reg == 0)
        kind = opcode == 0xf6 ? IMMEDIATE_1 : IMMEDIATE_4;
    take_rest(&place, kind, out);
    finish_form(&place, out);
    if (out->flow == CODE_CALL_INDIRECT || out->flow == CODE_JUMP_INDIRECT)
        finish_indirect(&place, modrm, out);
    if (two ? opcode == 0x1f : opcode == 0x90)
        out->marks |= CODE_PADDING;
    else if (!two && opcode == 0x8d)
        out->marks |= CODE_LEA;
    return true;
}
