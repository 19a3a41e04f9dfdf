#include "code_switch.h"

#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "code_scan.h"

enum { WINDOW = 24, ENTRIES_MAX = 4096, MOVE_SIGNED = 0x63, LEA = 0x8d, LOAD = 0x8b, STORE = 0x89 };

struct reader {
    const struct code_instructions *all;
    const struct code_text *memory;
    const uint8_t *code; /* the first instruction's bytes */
    struct code_switch *found;
};

struct fields { /* of ModRM and SIB, with REX */
    unsigned reg, rm, base, scale;
    bool memory, indexed, based;
};

static struct fields fields_of(const struct reader *reader, const struct code_instruction *at)
{
    const uint8_t *bytes = reader->code + (at->address - reader->all->items[0].address);
    uint8_t modrm = bytes[at->modrm_at], before = at->opcode_at ? bytes[at->opcode_at - 1] : 0;
    unsigned rex = (before & 0xf0) == 0x40 ? before : 0;
    struct fields fields = {.reg = (modrm >> 3 & 7) | (rex & 4) << 1, .rm = (modrm & 7) | (rex & 1) << 3};
    fields.memory = modrm < 0xc0;
    fields.indexed = fields.memory && (modrm & 7) == 4;
    if (fields.indexed) {
        uint8_t sib = bytes[at->modrm_at + 1];
        fields.scale = 1u << (sib >> 6);
        fields.base = (sib & 7) | (rex & 1) << 3;
        fields.based = (sib & 7) != 5 || modrm >= 0x40;
    }
    return fields;
}

static bool is_plain(const struct code_instruction *at, unsigned opcode)
{
    return at->opcode_map == 0 && at->opcode == opcode && at->modrm_at != 0;
}

/* --- how long it is --- */

static bool is_above(const struct code_instruction *at) /* ja, jbe, jae, jb: unsigned comparisons */
{
    unsigned condition = at->opcode & 0x0f;
    return at->flow == CODE_BRANCH && condition >= 2 && condition <= 7 && condition != 4 && condition != 5;
}

static bool is_compare(const struct reader *reader, const struct code_instruction *at)
{
    if (at->opcode_map != 0 || at->immediate_size == 0)
        return false;
    if (at->opcode == 0x3c || at->opcode == 0x3d)
        return true;
    return (at->opcode == 0x80 || at->opcode == 0x81 || at->opcode == 0x83) && at->modrm_at != 0 &&
           (fields_of(reader, at).reg & 7) == 7;
}

/* Entries by the comparison that guards the jump; ENTRIES_MAX when none is seen. */
static uint64_t length_of(const struct reader *reader, size_t number)
{
    const struct code_instruction *branch = NULL;
    for (size_t back = 1; back <= WINDOW && back <= number; back++) {
        const struct code_instruction *at = &reader->all->items[number - back];
        if (is_above(at))
            branch = at;
        if (!branch || !is_compare(reader, at))
            continue;
        unsigned condition = branch->opcode & 0x0f;
        uint64_t limit = at->immediate + (condition >= 6); /* ja, jbe: the limit is an entry too */
        return limit && limit < ENTRIES_MAX ? limit : ENTRIES_MAX;
    }
    return ENTRIES_MAX;
}

/* --- where it is --- */

/* The table whose address register `base` holds at instruction `number`: by the nearest lea before it, else
 * after it (the order of addresses is not that of execution). 0: not seen. */
static uint64_t table_in(const struct reader *reader, size_t number, unsigned base)
{
    const struct code_instructions *all = reader->all;
    for (size_t step = 1; step < all->count; step++) {
        size_t i = step <= number ? number - step : step;
        const struct code_instruction *at = &all->items[i];
        if (is_plain(at, LEA) && at->rip_relative && fields_of(reader, at).reg == base)
            return at->memory;
        if (step > number || at->opcode_map != 0 || !at->modrm_at)
            continue;
        struct fields fields = fields_of(reader, at);
        if (at->opcode == LOAD && fields.reg == base && !fields.memory)
            base = fields.rm;
        else if (at->opcode == STORE && !fields.memory && fields.rm == base)
            base = fields.reg;
        else if (at->opcode == LOAD && fields.reg == base)
            return 0; /* kept in memory meanwhile */
    }
    return 0;
}

/* movslq (table,index,4), that a jump's sum is made of. */
static uint64_t table_of_differences(const struct reader *reader, size_t number)
{
    for (size_t back = 1; back <= WINDOW && back <= number; back++) {
        const struct code_instruction *at = &reader->all->items[number - back];
        if (!is_plain(at, MOVE_SIGNED))
            continue;
        struct fields fields = fields_of(reader, at);
        if (fields.indexed && fields.scale == 4 && fields.based)
            return table_in(reader, number - back, fields.base);
    }
    return 0;
}

/* jmp *table(,index,8), or a load of that form before jmp *register. */
static uint64_t table_of_words(const struct reader *reader, size_t number)
{
    for (size_t back = 0; back <= WINDOW && back <= number; back++) {
        const struct code_instruction *at = &reader->all->items[number - back];
        if (back > 0 && !is_plain(at, LOAD))
            continue;
        struct fields fields = fields_of(reader, at);
        if (!fields.indexed || fields.scale != 8)
            continue;
        if (!fields.based)
            return (uint64_t)(int64_t)at->absolute;
        return table_in(reader, number - back, fields.base);
    }
    return 0;
}

/* --- its entries --- */

/* Does another table begin at `address`? */
static bool is_table_start(const struct reader *reader, uint64_t address)
{
    for (size_t i = 0; i < reader->all->count; i++) {
        const struct code_instruction *at = &reader->all->items[i];
        if ((at->marks & CODE_LEA) && at->memory == address)
            return true;
    }
    return false;
}

static uint64_t entry_of(const uint8_t *bytes, uint64_t table, unsigned size)
{
    int32_t difference;
    uint64_t word;
    if (size == 8) {
        memcpy(&word, bytes, sizeof word);
        return word;
    }
    memcpy(&difference, bytes, sizeof difference);
    return table + (uint64_t)(int64_t)difference;
}

static void add_target(struct code_switch *found, size_t target)
{
    if (base_array_room(found->targets, found->count, found->capacity))
        found->targets[found->count++] = (uint32_t)target;
    else
        found->failed = true;
}

/* With a known length, entries that leave the function (for its cold part) are skipped; else they end the
 * table. */
static bool read_entries(const struct reader *reader, uint64_t table, unsigned size, uint64_t length)
{
    size_t available;
    const uint8_t *bytes = table ? code_text_at(reader->memory, table, &available) : NULL;
    for (uint64_t i = 0; bytes && i < length && (i + 1) * size <= available; i++) {
        size_t target = code_instructions_find(reader->all, entry_of(bytes + i * size, table, size));
        if (target != SIZE_MAX)
            add_target(reader->found, target);
        else if (length == ENTRIES_MAX || i == 0)
            break;
        if (length == ENTRIES_MAX && is_table_start(reader, table + (i + 1) * size))
            break;
    }
    return reader->found->count > 0;
}

enum code_switch_kind code_switch_read(const struct code_instructions *instructions, size_t number,
                                       const struct code_text *memory, struct code_switch *found)
{
    size_t available;
    struct reader reader = {.all = instructions,
                            .memory = memory,
                            .code = code_text_at(memory, instructions->items[0].address, &available),
                            .found = found};
    found->count = 0;
    if (!reader.code)
        return CODE_SWITCH_UNKNOWN;
    unsigned facts = code_jump_facts(instructions, number, reader.code);
    if (facts == 0)
        return CODE_SWITCH_LEAVES;
    uint64_t length = length_of(&reader, number);
    if (read_entries(&reader, table_of_differences(&reader, number), 4, length) ||
        read_entries(&reader, table_of_words(&reader, number), 8, length))
        return CODE_SWITCH_TABLE;
    return CODE_SWITCH_UNKNOWN;
}

void code_switch_free(struct code_switch *found)
{
    free(found->targets);
    *found = (struct code_switch){0};
}
