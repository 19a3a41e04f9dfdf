/* code_flags.c - flags that nobody reads.
 *
 * Zydis reports which flags an instruction tests and which it sets, for the general case. Two families leave
 * the flags as they were for some operands: shifts and rotations by zero, and repeated string comparisons
 * with rcx = 0. For "is it dead" only what is overwritten for certain counts, so these write nothing here. */
#include "code_flags.h"

#include "code_zydis.h"

enum { INSTRUCTIONS = 64 };

static uint8_t mask_of(uint32_t zydis)
{
    unsigned mask = 0;
    mask |= zydis & ZYDIS_CPUFLAG_CF ? CODE_CF : 0;
    mask |= zydis & ZYDIS_CPUFLAG_PF ? CODE_PF : 0;
    mask |= zydis & ZYDIS_CPUFLAG_AF ? CODE_AF : 0;
    mask |= zydis & ZYDIS_CPUFLAG_ZF ? CODE_ZF : 0;
    mask |= zydis & ZYDIS_CPUFLAG_SF ? CODE_SF : 0;
    mask |= zydis & ZYDIS_CPUFLAG_OF ? CODE_OF : 0;
    return (uint8_t)mask;
}

static bool shifts_by_nothing(const ZydisDecodedInstruction *raw)
{
    return (raw->raw.imm[0].value.u & (raw->operand_width == 64 ? 0x3f : 0x1f)) == 0;
}

/* rcl and rcr rotate through 9 or 17 bits: a count that is not zero may still come back to where it began. */
static bool may_shift_by_nothing(const ZydisDecodedInstruction *raw)
{
    if (raw->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT) {
        if (raw->opcode == 0xd2 || raw->opcode == 0xd3) /* by cl */
            return true;
        bool through_carry = raw->raw.modrm.reg == 2 || raw->raw.modrm.reg == 3;
        return (raw->opcode == 0xc0 || raw->opcode == 0xc1) && (through_carry || shifts_by_nothing(raw));
    }
    if (raw->opcode_map != ZYDIS_OPCODE_MAP_0F)
        return false;
    if (raw->opcode == 0xa5 || raw->opcode == 0xad) /* shld, shrd by cl */
        return true;
    return (raw->opcode == 0xa4 || raw->opcode == 0xac) && shifts_by_nothing(raw);
}

static bool may_repeat_never(const ZydisDecodedInstruction *raw)
{
    return (raw->attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE)) != 0;
}

/* syscall puts the flags into r11, interrupts push them; both come back with the flags as they were. */
static bool enters_kernel(const ZydisDecodedInstruction *raw)
{
    if (raw->encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY)
        return false;
    if (raw->opcode_map == ZYDIS_OPCODE_MAP_0F)
        return raw->opcode == 0x05 || raw->opcode == 0x34;
    return raw->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT &&
           (raw->opcode == 0xcc || raw->opcode == 0xcd || raw->opcode == 0xf1);
}

bool code_flags_of(const uint8_t *bytes, size_t available, struct code_flags *flags)
{
    static const ZydisDecoder decoder = CODE_ZYDIS_DECODER(ZYAN_FALSE);
    ZydisDecodedInstruction raw;
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, bytes, available, &raw)))
        return false;
    *flags = (struct code_flags){0, 0};
    if (enters_kernel(&raw))
        flags->read = CODE_FLAGS_ADD;
    if (enters_kernel(&raw) || raw.cpu_flags == NULL)
        return true;
    const ZydisAccessedFlags *all = raw.cpu_flags;
    flags->read = mask_of(all->tested);
    bool legacy = raw.encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY;
    if (!(legacy && (may_shift_by_nothing(&raw) || may_repeat_never(&raw))))
        flags->written = mask_of(all->modified | all->set_0 | all->set_1 | all->undefined);
    return true;
}

/* --- along all paths --- */

struct path {
    uint64_t address;
    uint8_t flags; /* still holding what the stub would have changed */
};

struct search {
    const struct code_text *text;
    struct path pending[INSTRUCTIONS], seen[INSTRUCTIONS];
    size_t pending_count, seen_count;
};

static bool was_seen(const struct search *search, const struct path *path)
{
    for (size_t i = 0; i < search->seen_count; i++)
        if (search->seen[i].address == path->address && (search->seen[i].flags & path->flags) == path->flags)
            return true;
    return false;
}

static bool add_path(struct search *search, uint64_t address, uint8_t flags)
{
    if (search->pending_count == INSTRUCTIONS)
        return false;
    search->pending[search->pending_count++] = (struct path){address, flags};
    return true;
}

static bool is_near_return(const struct code_instruction *at)
{
    return at->opcode_map == 0 && (at->opcode == 0xc3 || at->opcode == 0xc2);
}

/* What comes after `at`: false when it is not known. */
static bool follow_path(struct search *search, const struct code_instruction *at, uint8_t flags)
{
    switch (at->flow) {
    case CODE_STRAIGHT:
        return add_path(search, at->address + at->length, flags);
    case CODE_JUMP:
        return add_path(search, at->target, flags);
    case CODE_BRANCH:
    case CODE_LOOP:
        return add_path(search, at->target, flags) && add_path(search, at->address + at->length, flags);
    case CODE_CALL:
    case CODE_CALL_INDIRECT:
        return (at->marks & CODE_FAR) == 0;
    case CODE_RETURN:
        return is_near_return(at);
    case CODE_STOP:
        return !(at->opcode_map == 0 && at->opcode == 0xcc);
    default:
        return false;
    }
}

static bool step_path(struct search *search, struct path path)
{
    struct code_instruction at;
    struct code_flags flags;
    size_t available;
    const uint8_t *bytes = code_text_at(search->text, path.address, &available);
    if (bytes == NULL || search->seen_count == INSTRUCTIONS)
        return false;
    search->seen[search->seen_count++] = path;
    if (!code_instruction_decode(bytes, available, path.address, &at) || (at.marks & CODE_AMBIGUOUS) ||
        !code_flags_of(bytes, available, &flags) || (flags.read & path.flags))
        return false;
    path.flags = (uint8_t)(path.flags & ~flags.written);
    return path.flags == 0 || follow_path(search, &at, path.flags);
}

bool code_flags_dead(const struct code_text *text, uint64_t address, uint8_t flags)
{
    struct search search;
    search.text = text;
    search.pending_count = search.seen_count = 0;
    if (flags != 0)
        add_path(&search, address, flags);
    while (search.pending_count > 0) {
        struct path path = search.pending[--search.pending_count];
        if (!was_seen(&search, &path) && !step_path(&search, path))
            return false;
    }
    return true;
}
