/* Slots and their names. */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_search.h"
#include "plan_slots.h"

struct symbols {
    struct elf_section table, strings; /* no bytes: there are none */
};

static void open_symbols(const struct elf_image *image, uint32_t index, struct symbols *symbols)
{
    if (!elf_image_section_at(image, index, &symbols->table) || symbols->table.bytes == NULL ||
        !elf_image_section_at(image, symbols->table.link, &symbols->strings) ||
        symbols->strings.bytes == NULL)
        *symbols = (struct symbols){0};
}

static const char *name_of(const struct symbols *symbols, uint64_t index)
{
    Elf64_Sym symbol;
    if (index == 0 || index >= symbols->table.size / sizeof symbol)
        return "";
    memcpy(&symbol, symbols->table.bytes + index * sizeof symbol, sizeof symbol);
    if (symbol.st_name >= symbols->strings.size ||
        memchr(symbols->strings.bytes + symbol.st_name, '\0', symbols->strings.size - symbol.st_name) == NULL)
        return "";
    return (const char *)symbols->strings.bytes + symbol.st_name;
}

/* --- versions --- */

struct versions {
    struct elf_section of_symbols, needed, strings;
};

static bool versions_for(const struct elf_image *image, uint32_t symbols, struct versions *versions)
{
    for (size_t i = 0; i < elf_image_section_count(image); i++) {
        struct elf_section section;
        if (!elf_image_section_header(image, i, &section))
            continue;
        if (section.type == SHT_GNU_versym && section.link == symbols)
            elf_image_section_at(image, i, &versions->of_symbols);
        else if (section.type == SHT_GNU_verneed && elf_image_section_at(image, i, &versions->needed))
            elf_image_section_at(image, versions->needed.link, &versions->strings);
    }
    return versions->of_symbols.bytes && versions->needed.bytes && versions->strings.bytes;
}

static bool requires_version(const struct elf_section *needed, size_t at, const Elf64_Verneed *file,
                             uint16_t version)
{
    Elf64_Vernaux one = {.vna_next = file->vn_aux};
    for (unsigned i = 0; i < file->vn_cnt && one.vna_next != 0; i++) {
        at += one.vna_next;
        if (at > needed->size || needed->size - at < sizeof one)
            return false;
        memcpy(&one, needed->bytes + at, sizeof one);
        if (one.vna_other == version)
            return true;
    }
    return false;
}

/* The file that symbol `index` must come from. */
static const char *library_of(const struct versions *versions, uint64_t index)
{
    const struct elf_section *needed = &versions->needed;
    Elf64_Verneed file = {0};
    uint16_t version;
    if (!versions->of_symbols.bytes || index >= versions->of_symbols.size / sizeof version)
        return "";
    memcpy(&version, versions->of_symbols.bytes + index * sizeof version, sizeof version);
    version &= 0x7fff; /* the highest bit: hidden */
    for (size_t at = 0; version > VER_NDX_GLOBAL && at < needed->size && needed->size - at >= sizeof file;
         at += file.vn_next) {
        memcpy(&file, needed->bytes + at, sizeof file);
        if (requires_version(needed, at, &file, version))
            return file.vn_file < versions->strings.size &&
                           memchr(versions->strings.bytes + file.vn_file, '\0',
                                  versions->strings.size - file.vn_file)
                       ? (const char *)versions->strings.bytes + file.vn_file
                       : "";
        if (file.vn_next == 0)
            break;
    }
    return "";
}

static bool is_slot(uint64_t type)
{
    return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT || type == R_X86_64_IRELATIVE;
}

static bool add_slots_of_section(const struct elf_image *image, const struct elf_section *section,
                                 struct plan_slots *slots)
{
    struct symbols symbols;
    struct versions versions = {0};
    open_symbols(image, section->link, &symbols);
    if (!versions_for(image, section->link, &versions))
        versions = (struct versions){0};
    for (size_t at = 0; at + sizeof(Elf64_Rela) <= section->size; at += sizeof(Elf64_Rela)) {
        Elf64_Rela relocation;
        memcpy(&relocation, section->bytes + at, sizeof relocation);
        if (!is_slot(ELF64_R_TYPE(relocation.r_info)))
            continue;
        if (!base_array_room(slots->items, slots->count, slots->capacity))
            return false;
        uint64_t symbol = ELF64_R_SYM(relocation.r_info);
        slots->items[slots->count++] =
            (struct plan_slot){relocation.r_offset, name_of(&symbols, symbol), library_of(&versions, symbol)};
    }
    return true;
}

static int by_address(const void *a, const void *b)
{
    uint64_t left = ((const struct plan_slot *)a)->address, right = ((const struct plan_slot *)b)->address;
    return (left > right) - (left < right);
}

int plan_slots_make(const struct elf_image *image, struct plan_slots *slots, struct base_error *error)
{
    *slots = (struct plan_slots){0};
    if (elf_image_machine(image) != EM_X86_64)
        return BASE_OK;
    for (size_t i = 0; i < elf_image_section_count(image); i++) {
        struct elf_section section;
        if (!elf_image_section_header(image, i, &section) || section.type != SHT_RELA ||
            (section.flags & SHF_ALLOC) == 0 || !elf_image_section_at(image, i, &section) ||
            section.bytes == NULL)
            continue;
        if (!add_slots_of_section(image, &section, slots)) {
            plan_slots_free(slots);
            return base_fail(error, BASE_ENOMEM, "no memory for the slots of an image");
        }
    }
    if (slots->count > 0)
        qsort(slots->items, slots->count, sizeof *slots->items, by_address);
    return BASE_OK;
}

void plan_slots_free(struct plan_slots *slots)
{
    free(slots->items);
    *slots = (struct plan_slots){0};
}

const struct plan_slot *plan_slots_at(const struct plan_slots *slots, uint64_t slot)
{
    size_t at = base_search_below(slots->items, slots->count, address, slot);
    return at < slots->count && slots->items[at].address == slot ? &slots->items[at] : NULL;
}

const char *plan_slots_name(const struct plan_slots *slots, uint64_t slot)
{
    const struct plan_slot *found = plan_slots_at(slots, slot);
    return found ? found->name : NULL;
}
