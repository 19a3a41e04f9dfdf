/* Names for the entries of procedure linkage tables. Nothing in the file names them: an entry jumps through a
 * slot of the global offset table, and a relocation says which symbol fills that slot. So the slot is read
 * out of the entry's instructions. With x86's indirect-branch tracking there are two tables: .plt.sec jumps
 * through the slots, while .plt, where a slot points until it is bound, pushes the relocation's number
 * instead. Source: System V ABI supplements for x86-64 (5.2, 13.2) and AArch64 (the linker's own comments
 * say more than the ABI). */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "symbol_table.h"

struct slot {
    uint64_t address;
    const char *name; /* NULL: of a relocation without a symbol */
};

struct slots {
    struct slot *items; /* sorted by address once all are read */
    size_t count, capacity;
    const char **pushed; /* name by number in .rela.plt */
    size_t pushed_count;
};

struct plt {
    struct symbol_table *table;
    struct slots slots;
    struct elf_section section;
};

/* --- slots --- */

static void read_slots(const struct elf_image *image, const char *section, struct slots *slots)
{
    struct elf_section relocations, symbols, strings;
    if (!elf_image_section(image, section, &relocations) || !elf_image_section(image, ".dynsym", &symbols) ||
        !elf_image_section_at(image, symbols.link, &strings) || !strings.bytes)
        return;
    for (size_t at = 0; at + sizeof(Elf64_Rela) <= relocations.size; at += sizeof(Elf64_Rela)) {
        Elf64_Rela relocation;
        Elf64_Sym symbol = {0};
        memcpy(&relocation, relocations.bytes + at, sizeof relocation);
        uint64_t index = ELF64_R_SYM(relocation.r_info);
        if (index && index < symbols.size / sizeof symbol)
            memcpy(&symbol, symbols.bytes + index * sizeof symbol, sizeof symbol);
        if (!index && slots->pushed)
            continue;
        const char *name = symbol_table_name(&strings, symbol.st_name);
        if (base_array_room(slots->items, slots->count, slots->capacity))
            slots->items[slots->count++] = (struct slot){relocation.r_offset, name && *name ? name : NULL};
    }
}

/* To be called when only .rela.plt has been read. */
static void number_slots(struct slots *slots)
{
    slots->pushed = calloc(slots->count + 1, sizeof *slots->pushed);
    slots->pushed_count = slots->pushed ? slots->count : 0;
    for (size_t i = 0; i < slots->pushed_count; i++)
        slots->pushed[i] = slots->items[i].name;
}

static int by_address(const void *left, const void *right)
{
    const struct slot *a = left, *b = right;
    return a->address < b->address ? -1 : a->address > b->address;
}

static const char *slot_name(const struct slots *slots, uint64_t address)
{
    struct slot key = {.address = address};
    const struct slot *found =
        slots->count ? bsearch(&key, slots->items, slots->count, sizeof key, by_address) : NULL;
    return found ? found->name : NULL;
}

static void add_entry(struct plt *plt, size_t at, size_t size, const char *name)
{
    char *text;
    uint64_t start = plt->section.address + at;
    if (asprintf(&text, "%s@plt", name) >= 0)
        symbol_table_add_owned(plt->table, start, start + size, text);
}

/* --- x86-64 --- */

static const uint8_t ENDBR64[] = {0xf3, 0x0f, 0x1e, 0xfa};

/* jmp *disp32(%rip) is ff 25, behind an endbr64 and a bnd prefix or not; push $n is 68, first or behind an
 * endbr64. */
static const char *entry_name_x86(const struct plt *plt, size_t at, size_t size)
{
    const uint8_t *bytes = plt->section.bytes + at;
    for (size_t i = 0; i + 6 <= size; i++) {
        int32_t displacement;
        if (bytes[i] != 0xff || bytes[i + 1] != 0x25)
            continue;
        memcpy(&displacement, bytes + i + 2, sizeof displacement);
        uint64_t next = plt->section.address + at + i + 6;
        const char *name = slot_name(&plt->slots, next + (uint64_t)(int64_t)displacement);
        if (name)
            return name;
    }
    size_t push = size >= 16 && !memcmp(bytes, ENDBR64, sizeof ENDBR64) ? sizeof ENDBR64 : 0;
    uint32_t number;
    if (size < 16 || bytes[push] != 0x68)
        return NULL;
    memcpy(&number, bytes + push + 1, sizeof number);
    return number < plt->slots.pushed_count ? plt->slots.pushed[number] : NULL;
}

static void add_section_x86(struct plt *plt)
{
    const struct elf_section *section = &plt->section;
    bool tracked = section->size >= 16 && !memcmp(section->bytes, ENDBR64, sizeof ENDBR64);
    size_t step = !strcmp(section->name, ".plt.got") && !tracked ? 8 : 16;
    for (size_t at = 0; at + step <= section->size; at += step) {
        const char *name = entry_name_x86(plt, at, step);
        if (name)
            add_entry(plt, at, step, name);
    }
}

/* --- AArch64 --- */

/* adrp x16, page; ldr x17, [x16, #offset]: the slot they load from. */
static bool slot_of_aarch64(const uint8_t *bytes, uint64_t address, uint64_t *slot)
{
    uint32_t adrp, load;
    memcpy(&adrp, bytes, sizeof adrp);
    memcpy(&load, bytes + 4, sizeof load);
    if ((adrp & 0x9f00001f) != 0x90000010 || (load & 0xffc003ff) != 0xf9400211)
        return false;
    uint64_t pages = (uint64_t)(adrp >> 5 & 0x7ffff) << 2 | (adrp >> 29 & 3); /* 21 bits, signed */
    if (pages & 1u << 20)
        pages -= 1u << 21;
    *slot = (address & ~UINT64_C(4095)) + pages * 4096 + (uint64_t)(load >> 10 & 0xfff) * 8;
    return true;
}

/* Entries are of 16 bytes, or of 24 with a `bti c` in front or an `autia1716` behind; the first one is longer
 * and without a symbol. */
static void add_section_aarch64(struct plt *plt)
{
    const uint32_t bti_c = 0xd503245f, autia1716 = 0xd503219f;
    const struct elf_section *section = &plt->section;
    for (size_t at = 0; at + 16 <= section->size; at += 4) {
        uint64_t slot;
        uint32_t before = 0, last;
        if (!slot_of_aarch64(section->bytes + at, section->address + at, &slot))
            continue;
        const char *name = slot_name(&plt->slots, slot);
        if (at >= 4)
            memcpy(&before, section->bytes + at - 4, sizeof before);
        memcpy(&last, section->bytes + at + 12, sizeof last);
        size_t lead = before == bti_c ? 4 : 0;
        size_t size = lead ? 20 : last == autia1716 ? 24 : 16;
        if (name)
            add_entry(plt, at - lead, size + lead, name);
    }
}

/* --- both --- */

void symbol_table_add_plt(struct symbol_table *table, const struct elf_image *image)
{
    static const char *const sections[] = {".plt", ".plt.sec", ".plt.got"};
    struct plt plt = {.table = table};
    read_slots(image, ".rela.plt", &plt.slots);
    number_slots(&plt.slots);
    if (elf_image_section(image, ".plt.got", &plt.section)) /* of the many in .rela.dyn few are slots */
        read_slots(image, ".rela.dyn", &plt.slots);
    if (plt.slots.count)
        qsort(plt.slots.items, plt.slots.count, sizeof *plt.slots.items, by_address);
    for (size_t i = 0; i < sizeof sections / sizeof *sections && plt.slots.count; i++) {
        if (!elf_image_section(image, sections[i], &plt.section))
            continue;
        if (elf_image_machine(image) == EM_AARCH64)
            add_section_aarch64(&plt);
        else if (elf_image_machine(image) == EM_X86_64)
            add_section_x86(&plt);
    }
    free(plt.slots.items);
    free(plt.slots.pushed);
}
