#include "plan_creation.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include <Zydis/Zydis.h>

#include "base_array.h"
#include "base_search.h"
#include "cfi.h"
#include "code_function.h"
#include "code_instruction.h"
#include "code_text.h"
#include "stub_x86_64_entry.h"

#define AFTER    16         /* bytes behind a function's end that may still be its own */
#define GAP_MOST (64 << 10) /* bytes without a function: more, and functions are not known */

/* clone, fork, vfork, execve, execveat, clone3 */
const uint32_t plan_creation_numbers[PLAN_CREATION_NUMBERS] = {56, 57, 58, 59, 322, 435};

enum verdict { HARMLESS, BY_RSI = PLAN_CREATION_BY_RSI, BY_RDI = PLAN_CREATION_BY_RDI, CREATION };

struct search {
    const struct elf_image *image;
    struct code_text text;
    struct code_bounds bounds;
    struct cfi_range *ranges;
    size_t range_count;
    struct code_functions functions;
    struct code_instructions instructions; /* of the function that is checked */
    ZydisDecoder decoder;
    struct plan_creations *creations;
};

static bool is_creation(uint64_t number)
{
    for (unsigned i = 0; i < PLAN_CREATION_NUMBERS; i++)
        if (number == plan_creation_numbers[i])
            return true;
    return false;
}

static void set_raw(struct search *search, uint64_t address)
{
    if (!search->creations->is_raw)
        search->creations->raw = address;
    search->creations->is_raw = true;
}

/* --- what is in a register --- */

struct decoded {
    ZydisDecodedInstruction instruction;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
};

static bool decode_at(const struct search *search, size_t index, struct decoded *decoded)
{
    size_t available;
    const struct code_instruction *in = &search->instructions.items[index];
    const uint8_t *bytes = code_text_at(&search->text, in->address, &available);
    return bytes && ZYAN_SUCCESS(ZydisDecoderDecodeFull(&search->decoder, bytes, available,
                                                        &decoded->instruction, decoded->operands));
}

static ZydisRegister whole_register(ZydisRegister reg)
{
    return ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
}

static bool writes_register(const struct decoded *decoded, ZydisRegister reg)
{
    for (unsigned i = 0; i < decoded->instruction.operand_count; i++) {
        const ZydisDecodedOperand *operand = &decoded->operands[i];
        if (operand->type == ZYDIS_OPERAND_TYPE_REGISTER &&
            (operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) && whole_register(operand->reg.value) == reg)
            return true;
    }
    return false;
}

static bool is_call(const struct code_instruction *in)
{
    return in->flow == CODE_CALL || in->flow == CODE_CALL_INDIRECT;
}

static bool survives_calls(ZydisRegister reg)
{
    return reg == ZYDIS_REGISTER_RBX || reg == ZYDIS_REGISTER_RBP ||
           (reg >= ZYDIS_REGISTER_R12 && reg <= ZYDIS_REGISTER_R15);
}

/* The end of another way out of the function. */
static bool restores_register(const struct decoded *decoded, ZydisRegister reg)
{
    return decoded->instruction.mnemonic == ZYDIS_MNEMONIC_POP && survives_calls(reg);
}

static bool is_move(const struct decoded *decoded)
{
    return decoded->instruction.mnemonic == ZYDIS_MNEMONIC_MOV &&
           decoded->operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER && decoded->operands[0].size >= 32;
}

static bool is_zeroing(const struct decoded *decoded)
{
    return decoded->instruction.mnemonic == ZYDIS_MNEMONIC_XOR &&
           decoded->operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
           decoded->operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
           whole_register(decoded->operands[0].reg.value) == whole_register(decoded->operands[1].reg.value);
}

/* What the register holds before instruction `index`, by the nearest writers above. *from is the index of
 * that writer. False: it is not a constant, and *reg is the register that it was copied from, with *from
 * SIZE_MAX if nothing above writes that. */
static bool constant_before(const struct search *search, size_t index, ZydisRegister *reg, size_t *from,
                            uint64_t *value)
{
    struct decoded decoded;
    while (index-- > 0) {
        *from = index;
        if (is_call(&search->instructions.items[index]) && survives_calls(*reg))
            continue;
        if (is_call(&search->instructions.items[index]) || !decode_at(search, index, &decoded))
            return false;
        if (!writes_register(&decoded, *reg) || restores_register(&decoded, *reg))
            continue;
        *value = 0;
        if (is_zeroing(&decoded))
            return true;
        if (!is_move(&decoded))
            return false;
        if (decoded.operands[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
            *value = decoded.operands[1].imm.value.u & UINT32_MAX;
            return true;
        }
        if (decoded.operands[1].type != ZYDIS_OPERAND_TYPE_REGISTER)
            return false;
        *reg = whole_register(decoded.operands[1].reg.value);
    }
    *from = SIZE_MAX;
    return false;
}

/* --- one function --- */

/* May control come to (first, last] from elsewhere? */
static bool is_entered(const struct code_instructions *list, uint64_t first, uint64_t last)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].target > first && list->items[i].target <= last)
            return true;
    return false;
}

static bool holds_creation_number(const struct search *search)
{
    struct decoded decoded;
    for (size_t i = 0; i < search->instructions.count; i++)
        if (search->instructions.items[i].immediate_size >= 4 &&
            is_creation(search->instructions.items[i].immediate) && decode_at(search, i, &decoded) &&
            is_move(&decoded))
            return true;
    return false;
}

/* mov eax, number or mov rax, number just before: the kernel's way back from a signal handler has no function
 * that decodes. */
static bool is_recorded_before(const struct search *search, uint64_t site)
{
    static const uint8_t moves[2][3] = {{0xb8}, {0x48, 0xc7, 0xc0}};
    static const size_t sizes[2] = {1, 3};
    for (unsigned i = 0; i < 2; i++) {
        size_t available;
        uint32_t number;
        const uint8_t *bytes = code_text_at(&search->text, site - sizes[i] - 4, &available);
        if (!bytes || available < sizes[i] + 4 || memcmp(bytes, moves[i], sizes[i]))
            continue;
        memcpy(&number, bytes + sizes[i], sizeof number);
        return !is_creation(number);
    }
    return false;
}

/* A register that is a constant somewhere in the function, and that the number is copied from: compilers keep
 * numbers so, over branches and calls that the search upwards does not follow. */
static bool is_kept_constant(const struct search *search, ZydisRegister reg)
{
    struct decoded decoded;
    for (size_t i = 0; i < search->instructions.count; i++)
        if (search->instructions.items[i].immediate_size >= 4 && decode_at(search, i, &decoded) &&
            is_move(&decoded) && whole_register(decoded.operands[0].reg.value) == reg)
            return true;
    return false;
}

static enum verdict verdict_of(const struct search *search, size_t index)
{
    const struct code_instructions *list = &search->instructions;
    ZydisRegister reg = ZYDIS_REGISTER_RAX;
    size_t from = SIZE_MAX;
    uint64_t number, site = list->items[index].address;
    if (is_recorded_before(search, site) && !is_entered(list, site - 1, site))
        return HARMLESS;
    bool known = constant_before(search, index, &reg, &from, &number);
    if (!known && from == SIZE_MAX && (reg == ZYDIS_REGISTER_RDI || reg == ZYDIS_REGISTER_RSI))
        return reg == ZYDIS_REGISTER_RDI ? BY_RDI : BY_RSI;
    if (!known)
        return reg != ZYDIS_REGISTER_RAX && is_kept_constant(search, reg) && !holds_creation_number(search)
                   ? HARMLESS
                   : CREATION;
    if (is_creation(number))
        return CREATION;
    bool sure = !is_entered(list, list->items[from].address, site);
    return sure || !holds_creation_number(search) ? HARMLESS : CREATION;
}

/* Behind the last of them, unless something from there leads back. */
static uint64_t find_past(const struct code_instructions *list, size_t last, uint64_t end)
{
    uint64_t past = list->items[last].address + list->items[last].length;
    for (size_t i = last + 1; i < list->count; i++) {
        const struct code_instruction *in = &list->items[i];
        if (in->flow == CODE_JUMP_INDIRECT || (in->target && in->target < past && !is_call(in)))
            return end;
    }
    return past;
}

/* Is the word at `at` of the text the displacement of a call, or of an address that is taken? */
static bool is_displacement(const uint8_t *begin, const uint8_t *at)
{
    return (at > begin && at[-1] == 0xe8) || (at - begin > 1 && at[-2] == 0x8d && (at[-1] & 0xc7) == 0x05);
}

/* A nameless function may be a fragment, unless something calls it or takes its address. */
static bool is_referenced(const struct search *search, uint64_t address)
{
    for (size_t i = 0; i < search->text.count; i++) {
        const struct code_piece *piece = &search->text.pieces[i];
        uint32_t wanted = (uint32_t)(address - piece->address - 4);
        for (size_t at = 0; at + 4 <= piece->size; at++) {
            uint32_t displacement;
            memcpy(&displacement, piece->bytes + at, sizeof displacement);
            if (displacement == wanted - (uint32_t)at && is_displacement(piece->bytes, piece->bytes + at))
                return true;
        }
    }
    return false;
}

static bool can_have_doorbell(const struct search *search, const struct code_function *function,
                              unsigned *length)
{
    size_t available;
    enum stub_reason reason;
    const uint8_t *bytes = code_text_at(&search->text, function->start, &available);
    if (!bytes || function->fragment || (!function->name && !is_referenced(search, function->start)))
        return false;
    for (uint32_t i = 0; i < function->entry_count; i++)
        if (search->functions.entries[function->first_entry + i].address != function->start)
            return false;
    size_t size = (size_t)(function->end - function->start);
    *length =
        stub_x86_64_entry_length(bytes, size < available ? size : available, STUB_X86_64_ENTRY_JUMP, &reason);
    return *length && !is_entered(&search->instructions, function->start, function->start + *length - 1);
}

static int add_creation(struct search *search, const struct plan_creation *creation)
{
    struct plan_creations *creations = search->creations;
    if (!base_array_room(creations->items, creations->count, creations->capacity))
        return BASE_ENOMEM;
    creations->items[creations->count++] = *creation;
    return BASE_OK;
}

static bool is_syscall(const struct code_instruction *in)
{
    return in->opcode_map == 1 && in->opcode == 0x05;
}

static bool is_site(const struct code_instruction *in)
{
    bool other_interrupt =
        in->opcode_map == 0 && in->opcode == 0xcd && in->immediate != (uint64_t)(int8_t)0x80;
    return in->flow == CODE_SYSTEM && !other_interrupt;
}

/* The instructions are decoded. */
static int check_decoded(struct search *search, const struct code_function *function)
{
    const struct code_instructions *list = &search->instructions;
    struct plan_creation creation = {.start = function->start, .end = function->end};
    size_t last = SIZE_MAX;
    bool same = true;
    for (size_t i = 0; i < list->count; i++) {
        bool site = is_site(&list->items[i]);
        enum verdict found = site ? verdict_of(search, i) : HARMLESS;
        if (site && !is_syscall(&list->items[i])) /* other numbers */
            set_raw(search, list->items[i].address);
        if (found == HARMLESS)
            continue;
        same = same && (last == SIZE_MAX || creation.argument == found);
        creation.argument = (uint8_t)found;
        last = i;
    }
    if (last == SIZE_MAX)
        return BASE_OK;
    creation.argument = same && creation.argument != CREATION ? creation.argument : PLAN_CREATION_ALWAYS;
    creation.past = find_past(list, last, function->end);
    if (can_have_doorbell(search, function, &creation.length))
        return add_creation(search, &creation);
    set_raw(search, list->items[last].address);
    return BASE_OK;
}

static int check_function(struct search *search, const struct code_function *function, uint64_t site)
{
    uint64_t where;
    int verdict = code_instructions_decode(&search->text, function->start, function->end,
                                           &search->instructions, &where);
    if (verdict == CODE_VERDICT_FINE)
        return check_decoded(search, function);
    if (verdict > 0 && !is_recorded_before(search, site))
        set_raw(search, site);
    return verdict < 0 ? verdict : BASE_OK;
}

/* --- between functions --- */

/* Does the code from `from` on lead to `site`, instruction by instruction, and go on behind it? */
static bool decodes_to(const struct search *search, uint64_t from, uint64_t site)
{
    struct code_instruction in;
    bool met = false;
    for (uint64_t at = from; at <= site + AFTER; at += in.length) {
        size_t available;
        const uint8_t *bytes = code_text_at(&search->text, at, &available);
        met = met || at == site;
        if (!bytes)
            return met; /* the end of the text */
        if (!code_instruction_decode(bytes, available, at, &in))
            return false;
        if (at < site && at + in.length > site)
            return false;
    }
    return met;
}

static const struct code_function *function_before(const struct code_functions *functions, uint64_t address)
{
    size_t count = base_search_up_to(functions->items, functions->count, start, address);
    return count ? &functions->items[count - 1] : NULL;
}

/* Where the section of code that holds the address begins: some linkers put constants beside the code.
 * Without sections everything is code, from 0 on. False: these are constants. */
static bool section_of(const struct search *search, uint64_t address, uint64_t *start)
{
    size_t count = elf_image_section_count(search->image);
    *start = 0;
    for (size_t i = 0; i < count; i++) {
        struct elf_section section;
        if (!elf_image_section_header(search->image, i, &section) || !section.address ||
            address - section.address >= section.memory_size)
            continue;
        *start = section.address;
        return (section.flags & SHF_EXECINSTR) != 0;
    }
    return true;
}

/* What stands in no function belongs to the one before it, or is data, or a syscall site without a name. */
static int check_between(struct search *search, uint64_t site)
{
    const struct code_function *before = function_before(&search->functions, site);
    uint64_t where, from;
    if (!section_of(search, site, &from) || is_recorded_before(search, site))
        return BASE_OK;
    bool own = before && before->end > from; /* section's, and its last one so far */
    from = own ? before->end : from;
    if (site - from <= GAP_MOST && !decodes_to(search, from, site))
        return BASE_OK;
    if (!own || site - from > AFTER) {
        set_raw(search, site);
        return BASE_OK;
    }
    struct code_function longer = *before;
    longer.end = site + 2;
    int verdict =
        code_instructions_decode(&search->text, longer.start, longer.end, &search->instructions, &where);
    if (verdict == CODE_VERDICT_FINE)
        return check_decoded(search, &longer);
    set_raw(search, site);
    return verdict < 0 ? verdict : BASE_OK;
}

/* --- an image --- */

static bool looks_like_site(const uint8_t *bytes)
{
    return (bytes[0] == 0x0f && (bytes[1] == 0x05 || bytes[1] == 0x34)) ||
           (bytes[0] == 0xcd && bytes[1] == 0x80);
}

/* In order of address; NULL: no more in this piece. */
static const uint8_t *next_site(const struct code_piece *piece, const uint8_t *at)
{
    for (const uint8_t *end = piece->bytes + piece->size; at + 1 < end; at++)
        if (looks_like_site(at))
            return at;
    return NULL;
}

static bool has_site(const struct code_text *text)
{
    for (size_t i = 0; i < text->count; i++)
        if (next_site(&text->pieces[i], text->pieces[i].bytes))
            return true;
    return false;
}

static int gather_functions(struct search *search, struct base_error *error)
{
    int result = code_bounds_add_symbols(&search->bounds, search->image, error);
    if (result == BASE_OK)
        result = cfi_ranges(search->image, &search->ranges, &search->range_count, error);
    for (size_t i = 0; result == BASE_OK && i < search->range_count; i++)
        result = code_bounds_add(&search->bounds,
                                 &(struct code_bound){.start = search->ranges[i].start,
                                                      .end = search->ranges[i].end,
                                                      .origin = CODE_FROM_FDE},
                                 error);
    return result < 0 ? result
                      : code_functions_make(&search->bounds, search->image, &search->functions, error);
}

static int check_piece(struct search *search, const struct code_piece *piece)
{
    uint32_t done = CODE_NONE;
    int result = BASE_OK;
    for (const uint8_t *at = piece->bytes; result == BASE_OK && (at = next_site(piece, at)); at++) {
        uint64_t address = piece->address + (uint64_t)(at - piece->bytes);
        uint32_t index = code_functions_find(&search->functions, address);
        if (index == CODE_NONE)
            result = check_between(search, address);
        else if (index != done)
            result = check_function(search, &search->functions.items[index], address);
        done = index;
    }
    return result;
}

int plan_creation_find(const struct elf_image *image, struct plan_creations *creations,
                       struct base_error *error)
{
    struct search search = {.image = image, .creations = creations};
    *creations = (struct plan_creations){0};
    ZydisDecoderInit(&search.decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    int result = code_text_of_image(image, &search.text, error);
    if (result == BASE_OK && has_site(&search.text)) {
        result = gather_functions(&search, error);
        for (size_t i = 0; i < search.text.count && result == BASE_OK; i++) {
            result = check_piece(&search, &search.text.pieces[i]);
            if (result < 0)
                base_fail(error, result, "out of memory");
        }
    }
    code_instructions_free(&search.instructions);
    code_functions_free(&search.functions);
    code_bounds_free(&search.bounds);
    code_text_free(&search.text);
    free(search.ranges);
    return result;
}

void plan_creation_free(struct plan_creations *creations)
{
    free(creations->items);
    *creations = (struct plan_creations){0};
}
