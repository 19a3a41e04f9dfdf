/* Names: what an image takes from others, and what it offers them. */
#include "space_imports.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_map.h"
#include "plan_select.h"

enum { NAME_LEAST = 2, NAME_MOST = 1000 }; /* bytes of a function's name among the constants */

struct symbols {
    struct elf_section symbols, strings;
    size_t count;
};

static bool open_table(const struct elf_image *image, const char *table, const char *names,
                       struct symbols *symbols)
{
    bool found = elf_image_section(image, table, &symbols->symbols) && symbols->symbols.bytes &&
                 elf_image_section(image, names, &symbols->strings) && symbols->strings.bytes;
    symbols->count = found ? symbols->symbols.size / sizeof(Elf64_Sym) : 0;
    return found;
}

static bool open_symbols(const struct elf_image *image, struct symbols *symbols)
{
    return open_table(image, ".dynsym", ".dynstr", symbols);
}

static Elf64_Sym symbol_at(const struct symbols *symbols, size_t index)
{
    Elf64_Sym symbol;
    memcpy(&symbol, symbols->symbols.bytes + index * sizeof symbol, sizeof symbol);
    return symbol;
}

static bool is_symbol_named(const struct symbols *symbols, const Elf64_Sym *symbol, const char *name)
{
    const struct elf_section *strings = &symbols->strings;
    size_t size = strlen(name) + 1;
    return symbol->st_name < strings->size && strings->size - symbol->st_name >= size &&
           !memcmp(strings->bytes + symbol->st_name, name, size);
}

/* 0: no name. Versions do not matter here: a hook too many is no harm. */
static uint64_t hash_of(const struct symbols *symbols, const Elf64_Sym *symbol)
{
    const struct elf_section *strings = &symbols->strings;
    if (symbol->st_name >= strings->size)
        return 0;
    const char *name = (const char *)strings->bytes + symbol->st_name;
    size_t length = strnlen(name, strings->size - symbol->st_name);
    return length ? base_hash_bytes(name, length) | 1 : 0;
}

/* Marks the symbols that relocations other than JUMP_SLOT refer to. */
static void mark_relocated(const struct elf_image *image, uint8_t *marks, size_t count)
{
    for (size_t i = 0; i < elf_image_section_count(image); i++) {
        struct elf_section section;
        if (!elf_image_section_header(image, i, &section) || section.type != SHT_RELA ||
            !(section.flags & SHF_ALLOC) || !elf_image_section_at(image, i, &section) || !section.bytes)
            continue;
        for (size_t at = 0; at + sizeof(Elf64_Rela) <= section.size; at += sizeof(Elf64_Rela)) {
            Elf64_Rela relocation;
            memcpy(&relocation, section.bytes + at, sizeof relocation);
            size_t symbol = ELF64_R_SYM(relocation.r_info);
            if (symbol < count && ELF64_R_TYPE(relocation.r_info) != R_X86_64_JUMP_SLOT)
                marks[symbol] = 1;
        }
    }
}

/* Is the symbol an undefined one of the functions that find addresses by names (dlsym)? */
static bool finds_by_name(const struct symbols *symbols, const Elf64_Sym *symbol)
{
    return symbol->st_shndx == SHN_UNDEF &&
           (is_symbol_named(symbols, symbol, "dlsym") || is_symbol_named(symbols, symbol, "dlvsym"));
}

/* As linkers' symbols are written: 1 may stand anywhere in one, 2 not at the beginning. */
static const uint8_t in_names[256] = {
    ['a' ... 'z'] = 1,
    ['A' ... 'Z'] = 1,
    ['_'] = 1,
    ['0' ... '9'] = 2,
};

/* 0 when the string is none. */
static size_t identifier_length(const uint8_t *string, size_t most)
{
    size_t length = 0, end = most < NAME_MOST + 1 ? most : NAME_MOST + 1;
    if (!end || in_names[string[0]] != 1)
        return 0;
    while (length < end && in_names[string[length]])
        length++;
    return length < most && length >= NAME_LEAST && length <= NAME_MOST && string[length] == '\0' ? length
                                                                                                  : 0;
}

/* Constants are full of zeros: of tables of numbers, and between one string and the next. */
static const uint8_t *skip_zeros(const uint8_t *at, const uint8_t *end)
{
    for (uint64_t word; (size_t)(end - at) >= sizeof word; at += sizeof word) {
        memcpy(&word, at, sizeof word);
        if (word)
            break;
    }
    while (at < end && !*at)
        at++;
    return at;
}

static bool add_strings(struct space_imports *imports, const struct elf_section *section)
{
    const uint8_t *end = section->bytes + section->size;
    bool room = true;
    for (const uint8_t *at = skip_zeros(section->bytes, end); at < end && room; at = skip_zeros(at, end)) {
        size_t length = identifier_length(at, (size_t)(end - at));
        if (length) {
            room = base_array_room(imports->hashes, imports->count, imports->capacity);
            if (room)
                imports->hashes[imports->count++] = base_hash_bytes((const char *)at, length) | 1;
        }
        at = memchr(at + length, '\0', (size_t)(end - at) - length);
        if (!at)
            break;
    }
    return room;
}

/* An image that uses dlsym may find any function whose name is among its constants. */
static bool add_constants(struct space_imports *imports, const struct elf_image *image)
{
    bool room = true;
    for (size_t i = 0; room && i < elf_image_section_count(image); i++) {
        struct elf_section section;
        const uint64_t kinds = SHF_ALLOC | SHF_WRITE | SHF_EXECINSTR;
        if (elf_image_section_header(image, i, &section) && section.type == SHT_PROGBITS &&
            (section.flags & kinds) == SHF_ALLOC && elf_image_section_at(image, i, &section) &&
            section.bytes && section.name && !strncmp(section.name, ".rodata", 7))
            room = add_strings(imports, &section);
    }
    return room;
}

/* An undefined symbol with a value is a function whose address the program takes as that of its own linkage
 * stub. */
int space_imports_make(struct space_imports *imports, const struct elf_image *image, bool calls,
                       struct base_error *error)
{
    struct symbols symbols = {0};
    *imports = (struct space_imports){0};
    if (!open_symbols(image, &symbols))
        return BASE_OK;
    uint8_t *marks = calloc(symbols.count + 1, 1);
    bool room = marks != NULL, by_name = false;
    if (room)
        mark_relocated(image, marks, symbols.count);
    for (size_t i = 1; room && i < symbols.count; i++) {
        Elf64_Sym symbol = symbol_at(&symbols, i);
        bool undefined = symbol.st_shndx == SHN_UNDEF,
             wanted = marks[i] || (undefined && (!calls || symbol.st_value));
        uint64_t hash = wanted ? hash_of(&symbols, &symbol) : 0;
        by_name = by_name || finds_by_name(&symbols, &symbol);
        if (!hash)
            continue;
        room = base_array_room(imports->hashes, imports->count, imports->capacity);
        if (room)
            imports->hashes[imports->count++] = hash;
    }
    if (room && by_name)
        room = add_constants(imports, image);
    free(marks);
    return room ? BASE_OK : base_fail(error, BASE_ENOMEM, "out of memory");
}

/* A program with a loader takes ptrace from the C library; in others it is linked in. */
bool space_imports_ptrace(const struct elf_image *program)
{
    struct symbols symbols = {0};
    struct elf_section interpreter;
    bool loads = elf_image_section(program, ".interp", &interpreter), found = false;
    if (!(loads ? open_symbols(program, &symbols) : open_table(program, ".symtab", ".strtab", &symbols)))
        return false;
    for (size_t i = 1; i < symbols.count && !found; i++) {
        Elf64_Sym symbol = symbol_at(&symbols, i);
        found = (symbol.st_shndx == SHN_UNDEF) == loads && is_symbol_named(&symbols, &symbol, "ptrace");
    }
    return found;
}

int space_imports_offers(struct space_offers *offers, const struct elf_image *image, const struct plan *plan,
                         struct base_error *error)
{
    struct symbols symbols = {0};
    *offers = (struct space_offers){0};
    if (!open_symbols(image, &symbols))
        return BASE_OK;
    for (size_t i = 1; i < symbols.count; i++) {
        Elf64_Sym symbol = symbol_at(&symbols, i);
        uint32_t function = symbol.st_shndx != SHN_UNDEF && symbol.st_value
                                ? plan_function_at(plan, symbol.st_value)
                                : PLAN_NONE;
        if (function == PLAN_NONE || plan->functions[function].start != symbol.st_value ||
            !(plan->functions[function].facts & PLAN_FUNCTION_OFFERED) ||
            plan->functions[function].hook == PLAN_NONE)
            continue;
        uint64_t hash = hash_of(&symbols, &symbol);
        if (!hash)
            continue;
        if (!base_array_room(offers->items, offers->count, offers->capacity))
            return base_fail(error, BASE_ENOMEM, "out of memory");
        offers->items[offers->count++] = (struct space_offer){hash, plan->functions[function].hook};
    }
    return BASE_OK;
}
