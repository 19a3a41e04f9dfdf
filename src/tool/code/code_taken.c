/* code_taken.c - whose address is taken outside of code: relocations, dynamic symbols, words of data, the
 * loader.
 *
 * Relocations and symbols are found through section headers; a file without any keeps what code itself takes,
 * and the caller's list. RELR (relative relocations packed into bit maps) keeps the addend in the word
 * itself. */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "code_scan.h"

#ifndef SHT_RELR
#define SHT_RELR 19
#endif

/* --- relocations --- */

struct symbols { /* a dynamic symbol table */
    struct elf_section table, strings;
};

static bool symbol_at(const struct symbols *symbols, uint64_t number, Elf64_Sym *symbol)
{
    if (symbols->table.bytes == NULL || number >= symbols->table.size / sizeof *symbol)
        return false;
    memcpy(symbol, symbols->table.bytes + number * sizeof *symbol, sizeof *symbol);
    return true;
}

static const char *symbol_name(const struct symbols *symbols, const Elf64_Sym *symbol)
{
    if (symbols->strings.bytes == NULL || symbol->st_name >= symbols->strings.size)
        return "";
    const char *name = (const char *)symbols->strings.bytes + symbol->st_name;
    return memchr(name, '\0', symbols->strings.size - symbol->st_name) ? name : "";
}

static bool symbols_of(const struct elf_image *image, uint32_t section, struct symbols *symbols)
{
    memset(symbols, 0, sizeof *symbols);
    return elf_image_section_at(image, section, &symbols->table) &&
           (symbols->table.type == SHT_DYNSYM || symbols->table.type == SHT_SYMTAB) &&
           elf_image_section_at(image, symbols->table.link, &symbols->strings);
}

static void add_slot(struct code_scan *scan, const struct code_slot *slot)
{
    struct code_survey *survey = scan->survey;
    if (!base_array_room(survey->slots, survey->slot_count, survey->slot_capacity)) {
        scan->failed = true;
        return;
    }
    survey->slots[survey->slot_count++] = *slot;
    if (code_scan_is_profiler(slot->name) && scan->profiler_count < CODE_PROFILER_MAX)
        scan->profilers[scan->profiler_count++] = slot->address;
}

static void take_symbol(struct code_scan *scan, const struct symbols *symbols, const Elf64_Rela *relocation)
{
    Elf64_Sym symbol;
    uint32_t type = (uint32_t)ELF64_R_TYPE(relocation->r_info);
    struct code_slot slot = {.address = relocation->r_offset, .name = "", .type = type};
    if (symbol_at(symbols, ELF64_R_SYM(relocation->r_info), &symbol)) {
        slot.name = symbol_name(symbols, &symbol);
        if (symbol.st_shndx != SHN_UNDEF) {
            slot.function = symbol.st_value + (uint64_t)relocation->r_addend;
            code_scan_take(scan, slot.function,
                           type == R_X86_64_JUMP_SLOT ? CODE_TAKEN_LINKAGE : CODE_TAKEN_RELOCATION);
        }
    }
    add_slot(scan, &slot);
}

static void take_relocation(struct code_scan *scan, const struct symbols *symbols,
                            const Elf64_Rela *relocation)
{
    switch (ELF64_R_TYPE(relocation->r_info)) {
    case R_X86_64_RELATIVE:
        code_scan_take(scan, (uint64_t)relocation->r_addend, CODE_TAKEN_RELOCATION);
        break;
    case R_X86_64_IRELATIVE:
        code_scan_take(scan, (uint64_t)relocation->r_addend, CODE_TAKEN_LOADER);
        add_slot(scan, &(struct code_slot){
                           .address = relocation->r_offset, .name = "", .type = R_X86_64_IRELATIVE});
        break;
    case R_X86_64_64:
    case R_X86_64_GLOB_DAT:
    case R_X86_64_JUMP_SLOT:
        take_symbol(scan, symbols, relocation);
        break;
    default:
        break;
    }
}

static void take_rela(struct code_scan *scan, const struct elf_section *section)
{
    struct symbols symbols;
    if (!symbols_of(scan->image, section->link, &symbols))
        memset(&symbols, 0, sizeof symbols);
    for (size_t at = 0; at + sizeof(Elf64_Rela) <= section->size && !scan->failed; at += sizeof(Elf64_Rela)) {
        Elf64_Rela relocation;
        memcpy(&relocation, section->bytes + at, sizeof relocation);
        take_relocation(scan, &symbols, &relocation);
    }
}

static void take_word(struct code_scan *scan, uint64_t address, enum code_taken how)
{
    size_t available;
    uint64_t word;
    const uint8_t *bytes = elf_image_at(scan->image, address, &available);
    if (bytes == NULL || available < sizeof word)
        return;
    memcpy(&word, bytes, sizeof word);
    code_scan_take(scan, word, how);
}

/* An even entry is the address of a relocated word; an odd one a bit map of the 63 words behind the last. */
static void take_relr(struct code_scan *scan, const struct elf_section *section)
{
    uint64_t entry, next = 0;
    for (size_t at = 0; at + sizeof entry <= section->size; at += sizeof entry) {
        memcpy(&entry, section->bytes + at, sizeof entry);
        if ((entry & 1) == 0) {
            take_word(scan, entry, CODE_TAKEN_RELOCATION);
            next = entry + sizeof entry;
            continue;
        }
        for (unsigned bit = 1; bit < 64; bit++)
            if (entry >> bit & 1)
                take_word(scan, next + (bit - 1) * sizeof entry, CODE_TAKEN_RELOCATION);
        next += 63 * sizeof entry;
    }
}

/* --- dynamic symbols --- */

/* An undefined function that has an address is the linkage stub that non-PIE code takes for the function:
 * everybody else binds to that stub as well. */
static void take_export(struct code_scan *scan, const Elf64_Sym *symbol)
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info), binding = ELF64_ST_BIND(symbol->st_info);
    unsigned visibility = ELF64_ST_VISIBILITY(symbol->st_other);
    if (symbol->st_shndx == SHN_ABS || binding == STB_LOCAL || symbol->st_value == 0)
        return;
    if (visibility != STV_DEFAULT && visibility != STV_PROTECTED)
        return;
    if (type == STT_GNU_IFUNC)
        code_scan_take(scan, symbol->st_value, CODE_TAKEN_LOADER);
    else if (type == STT_FUNC || type == STT_NOTYPE)
        code_scan_take(scan, symbol->st_value, CODE_TAKEN_EXPORT);
}

static void take_exports(struct code_scan *scan, const struct elf_section *section)
{
    struct symbols symbols = {.table = *section};
    Elf64_Sym symbol;
    for (uint64_t i = 1; symbol_at(&symbols, i, &symbol); i++)
        take_export(scan, &symbol);
}

/* Resolvers of symbols that are not exported. */
static void take_resolvers(struct code_scan *scan, const struct elf_section *section)
{
    struct symbols symbols = {.table = *section};
    Elf64_Sym symbol;
    for (uint64_t i = 1; symbol_at(&symbols, i, &symbol); i++)
        if (ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC && symbol.st_shndx != SHN_UNDEF)
            code_scan_take(scan, symbol.st_value, CODE_TAKEN_LOADER);
}

/* --- the loader --- */

static void take_dynamic(struct code_scan *scan, const struct elf_section *section)
{
    Elf64_Dyn entry;
    for (size_t at = 0; at + sizeof entry <= section->size; at += sizeof entry) {
        memcpy(&entry, section->bytes + at, sizeof entry);
        if (entry.d_tag == DT_INIT || entry.d_tag == DT_FINI)
            code_scan_take(scan, entry.d_un.d_ptr, CODE_TAKEN_LOADER);
    }
}

static void take_entry(struct code_scan *scan)
{
    Elf64_Ehdr header;
    size_t size;
    const uint8_t *bytes = elf_image_bytes(scan->image, &size);
    if (bytes == NULL || size < sizeof header)
        return;
    memcpy(&header, bytes, sizeof header);
    code_scan_take(scan, header.e_entry, CODE_TAKEN_LOADER);
}

/* --- words of data: only where addresses are known when linking --- */

static void take_data(struct code_scan *scan, const struct elf_section *section)
{
    uint64_t word, skip = -section->address & 7;
    for (size_t at = (size_t)skip; at + sizeof word <= section->size; at += sizeof word) {
        memcpy(&word, section->bytes + at, sizeof word);
        if (word >= scan->survey->map_base && word < scan->survey->map_end)
            code_scan_take(scan, word, CODE_TAKEN_DATA);
    }
}

static bool holds_data(const struct elf_section *section)
{
    if ((section->flags & (SHF_ALLOC | SHF_EXECINSTR)) != SHF_ALLOC ||
        strcmp(section->name, ".eh_frame") == 0)
        return false;
    return section->type == SHT_PROGBITS || section->type == SHT_INIT_ARRAY ||
           section->type == SHT_FINI_ARRAY || section->type == SHT_PREINIT_ARRAY;
}

static int slot_order(const void *left, const void *right)
{
    const struct code_slot *a = left, *b = right;
    return a->address < b->address ? -1 : a->address > b->address;
}

static void take_section(struct code_scan *scan, const struct elf_section *section)
{
    if (section->type == SHT_RELA && (section->flags & SHF_ALLOC))
        take_rela(scan, section);
    else if (section->type == SHT_RELR)
        take_relr(scan, section);
    else if (section->type == SHT_DYNSYM)
        take_exports(scan, section);
    else if (section->type == SHT_SYMTAB)
        take_resolvers(scan, section);
    else if (section->type == SHT_DYNAMIC)
        take_dynamic(scan, section);
    else if (!scan->survey->position_independent && holds_data(section))
        take_data(scan, section);
}

static bool is_wanted_section(const struct code_scan *scan, const struct elf_section *header)
{
    switch (header->type) {
    case SHT_RELA:
    case SHT_RELR:
    case SHT_DYNSYM:
    case SHT_SYMTAB:
    case SHT_DYNAMIC:
        return true;
    default:
        return !scan->survey->position_independent && holds_data(header);
    }
}

void code_taken_all(struct code_scan *scan, const struct code_survey_options *options)
{
    struct elf_section section;
    for (size_t i = 0; i < elf_image_section_count(scan->image) && !scan->failed; i++)
        if (elf_image_section_header(scan->image, i, &section) && is_wanted_section(scan, &section) &&
            elf_image_section_at(scan->image, i, &section) && section.bytes)
            take_section(scan, &section);
    take_entry(scan);
    for (size_t i = 0; options && i < options->taken_count; i++)
        code_scan_take(scan, options->taken[i], CODE_TAKEN_GIVEN);
    if (scan->survey->slot_count)
        qsort(scan->survey->slots, scan->survey->slot_count, sizeof *scan->survey->slots, slot_order);
}
