#include "symbol_table.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"

void symbol_table_free(struct symbol_table *table)
{
    for (size_t i = 0; i < table->owned_count; i++)
        free(table->owned[i]);
    free(table->owned);
    free(table->entries);
    *table = (struct symbol_table){0};
}

static void add(struct symbol_table *table, struct symbol_entry entry)
{
    if (base_array_room(table->entries, table->count, table->capacity))
        table->entries[table->count++] = entry;
}

/* --- from symbol sections --- */

/* A terminated name inside a string table, or NULL. */
static const char *name_in(const struct elf_section *strings, uint32_t at)
{
    if (at >= strings->size || !memchr(strings->bytes + at, 0, strings->size - at))
        return NULL;
    return (const char *)strings->bytes + at;
}

static bool is_executable(const struct elf_image *image, uint64_t address)
{
    const struct elf_segment *segments;
    size_t count = elf_image_segments(image, &segments);
    for (size_t i = 0; i < count; i++) {
        if (segments[i].executable && address - segments[i].address < segments[i].memory_size)
            return true;
    }
    return false;
}

/* Functions, and labels in code (assembly); not the $x and $d that mark code and data on Arm. */
static bool is_function(const struct elf_image *image, const Elf64_Sym *symbol, const char *name)
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    if (!symbol->st_value || symbol->st_shndx == SHN_UNDEF || symbol->st_shndx == SHN_ABS || !name || !*name)
        return false;
    if (type == STT_FUNC || type == STT_GNU_IFUNC)
        return true;
    return type == STT_NOTYPE && name[0] != '$' && is_executable(image, symbol->st_value);
}

static uint8_t rank_of(const Elf64_Sym *symbol)
{
    uint8_t rank = ELF64_ST_TYPE(symbol->st_info) == STT_NOTYPE ? 4 : 0;
    switch (ELF64_ST_BIND(symbol->st_info)) {
    case STB_GLOBAL:
        return rank;
    case STB_WEAK:
        return (uint8_t)(rank + 1);
    default:
        return (uint8_t)(rank + 2);
    }
}

/* The string section that belongs to a symbol section. */
static bool strings_of(const struct elf_image *image, const char *section, struct elf_section *strings)
{
    return elf_image_section(image, strcmp(section, ".symtab") ? ".dynstr" : ".strtab", strings);
}

bool symbol_table_add(struct symbol_table *table, const struct elf_image *from, const char *section)
{
    struct elf_section symbols, strings;
    if (!elf_image_section(from, section, &symbols) || !strings_of(from, section, &strings))
        return false;
    for (size_t at = 0; at + sizeof(Elf64_Sym) <= symbols.size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        memcpy(&symbol, symbols.bytes + at, sizeof symbol);
        const char *name = name_in(&strings, symbol.st_name);
        if (!is_function(from, &symbol, name))
            continue;
        uint64_t end = symbol.st_value + symbol.st_size;
        bool sized = symbol.st_size && end > symbol.st_value;
        add(table, (struct symbol_entry){symbol.st_value, sized ? end : symbol.st_value, name,
                                         rank_of(&symbol), sized});
    }
    return true;
}

/* --- procedure linkage tables --- */

static void add_plt_entry(struct symbol_table *table, uint64_t address, uint64_t size, const char *name)
{
    char *text;
    if (!base_array_room(table->owned, table->owned_count, table->owned_capacity) ||
        asprintf(&text, "%s@plt", name) < 0)
        return;
    table->owned[table->owned_count++] = text;
    add(table, (struct symbol_entry){address, address + size, text, 3, true});
}

struct got_slot {
    uint64_t address;
    const char *name;
};

struct got_slots {
    struct got_slot *items;
    size_t count, capacity;
};

static void read_slots(const struct elf_image *image, const char *section, struct got_slots *slots)
{
    struct elf_section relocations, symbols, strings;
    if (!elf_image_section(image, section, &relocations) || !elf_image_section(image, ".dynsym", &symbols) ||
        !elf_image_section(image, ".dynstr", &strings))
        return;
    for (size_t at = 0; at + sizeof(Elf64_Rela) <= relocations.size; at += sizeof(Elf64_Rela)) {
        Elf64_Rela relocation;
        Elf64_Sym symbol;
        memcpy(&relocation, relocations.bytes + at, sizeof relocation);
        uint64_t index = ELF64_R_SYM(relocation.r_info);
        if (!index || index >= symbols.size / sizeof symbol)
            continue;
        memcpy(&symbol, symbols.bytes + index * sizeof symbol, sizeof symbol);
        const char *name = name_in(&strings, symbol.st_name);
        if (name && *name && base_array_room(slots->items, slots->count, slots->capacity))
            slots->items[slots->count++] = (struct got_slot){relocation.r_offset, name};
    }
}

static int by_address(const void *left, const void *right)
{
    const struct got_slot *a = left, *b = right;
    return a->address < b->address ? -1 : a->address > b->address;
}

static const char *slot_name(const struct got_slots *slots, uint64_t address)
{
    struct got_slot key = {.address = address};
    const struct got_slot *found =
        slots->count ? bsearch(&key, slots->items, slots->count, sizeof key, by_address) : NULL;
    return found ? found->name : NULL;
}

/* x86-64: the entry's first jmp *disp32(%rip) (ff 25) names its slot, behind an endbr64 or a bnd prefix or not. */
static bool slot_of_x86(const uint8_t *bytes, size_t size, uint64_t address, uint64_t *slot)
{
    for (size_t at = 0; at + 6 <= size && at < 8; at++) {
        if (bytes[at] != 0xff || bytes[at + 1] != 0x25)
            continue;
        int32_t displacement;
        memcpy(&displacement, bytes + at + 2, sizeof displacement);
        *slot = address + at + 6 + (uint64_t)(int64_t)displacement;
        return true;
    }
    return false;
}

/* AArch64: adrp x16, page; ldr x17, [x16, #offset]; behind a bti c or not. */
static bool slot_of_arm(const uint8_t *bytes, size_t size, uint64_t address, uint64_t *slot)
{
    for (size_t at = 0; at + 8 <= size && at <= 4; at += 4) {
        uint32_t adrp, load;
        memcpy(&adrp, bytes + at, 4);
        memcpy(&load, bytes + at + 4, 4);
        if ((adrp & 0x9f00001f) != 0x90000010 || (load & 0xffc003ff) != 0xf9400211)
            continue;
        int64_t pages = (int64_t)((uint64_t)(adrp >> 5 & 0x7ffff) << 45) >> 43 | (adrp >> 29 & 3);
        *slot = ((address + at) & ~4095ull) + (uint64_t)(pages * 4096) + (load >> 10 & 0xfff) * 8;
        return true;
    }
    return false;
}

static void add_plt_section(struct symbol_table *table, const struct elf_image *image, const char *name,
                            const struct got_slots *slots)
{
    struct elf_section plt;
    bool arm = elf_image_machine(image) == EM_AARCH64;
    if (!elf_image_section(image, name, &plt))
        return;
    size_t step = arm ? 16 : !strcmp(name, ".plt.got") ? 8 : 16;
    for (size_t at = 0; at + step <= plt.size; at += step) {
        uint64_t slot, address = plt.address + at;
        bool found = arm ? slot_of_arm(plt.bytes + at, plt.size - at, address, &slot)
                         : slot_of_x86(plt.bytes + at, step, address, &slot);
        const char *target = found ? slot_name(slots, slot) : NULL;
        if (target)
            add_plt_entry(table, address, step, target);
    }
}

void symbol_table_add_plt(struct symbol_table *table, const struct elf_image *image)
{
    static const char *const sections[] = {".plt", ".plt.sec", ".plt.got", ".iplt"};
    struct got_slots slots = {0};
    read_slots(image, ".rela.plt", &slots);
    read_slots(image, ".rela.dyn", &slots);
    if (slots.count)
        qsort(slots.items, slots.count, sizeof *slots.items, by_address);
    for (size_t i = 0; i < sizeof sections / sizeof *sections && slots.count; i++)
        add_plt_section(table, image, sections[i], &slots);
    free(slots.items);
}

/* --- order --- */

static size_t underscores(const char *name)
{
    return strspn(name, "_");
}

static int by_start_then_worth(const void *left, const void *right)
{
    const struct symbol_entry *a = left, *b = right;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    if (a->binding != b->binding)
        return a->binding < b->binding ? -1 : 1;
    size_t lead_a = underscores(a->name), lead_b = underscores(b->name);
    if (lead_a != lead_b)
        return lead_a < lead_b ? -1 : 1;
    size_t length_a = strlen(a->name), length_b = strlen(b->name);
    if (length_a != length_b)
        return length_a < length_b ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Where the code around an address ends: its segment does. */
static uint64_t end_of_code(const struct elf_image *image, uint64_t address)
{
    size_t available;
    return elf_image_at(image, address, &available) ? address + available : address;
}

void symbol_table_finish(struct symbol_table *table, const struct elf_image *image)
{
    if (!table->count)
        return;
    qsort(table->entries, table->count, sizeof *table->entries, by_start_then_worth);
    size_t kept = 0;
    for (size_t i = 0; i < table->count; i++) {
        struct symbol_entry *last = kept ? &table->entries[kept - 1] : NULL;
        if (!last || last->start != table->entries[i].start) {
            table->entries[kept++] = table->entries[i];
        } else if (!last->sized && table->entries[i].sized) { /* an alias may know the size */
            last->end = table->entries[i].end;
            last->sized = true;
        }
    }
    table->count = kept;
    for (size_t i = 0; i < kept; i++) {
        struct symbol_entry *entry = &table->entries[i];
        if (entry->sized)
            continue;
        uint64_t end = end_of_code(image, entry->start);
        uint64_t next = i + 1 < kept ? table->entries[i + 1].start : end;
        entry->end = next < end ? next : end;
    }
}

/* Functions may nest (an assembly label inside one): the innermost that holds the address, a few steps back at most. */
const struct symbol_entry *symbol_table_find(const struct symbol_table *table, uint64_t address)
{
    enum { STEPS = 16 };
    size_t low = 0, high = table->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (table->entries[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t steps = 0; low-- > 0 && steps < STEPS; steps++) {
        if (address < table->entries[low].end)
            return &table->entries[low];
    }
    return NULL;
}
