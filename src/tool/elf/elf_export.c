#include "elf_export.h"

#include <elf.h>
#include <string.h>

#define HIDDEN_VERSION 0x8000u

struct tables {
    struct elf_section symbols, strings, versions, hashes;
};

static uint32_t word_at(const struct elf_section *section, size_t at)
{
    uint32_t word = 0;
    if (at <= section->size && section->size - at >= sizeof word)
        memcpy(&word, section->bytes + at, sizeof word);
    return word;
}

static bool is_string_at(const struct elf_section *strings, uint32_t at, const char *name)
{
    size_t size = strlen(name) + 1;
    return at < strings->size && strings->size - at >= size && !memcmp(strings->bytes + at, name, size);
}

static bool is_default(const struct tables *tables, size_t index)
{
    uint16_t version = 0;
    if (tables->versions.size >= (index + 1) * sizeof version)
        memcpy(&version, tables->versions.bytes + index * sizeof version, sizeof version);
    return !(version & HIDDEN_VERSION);
}

static bool is_export_named(const struct tables *tables, size_t index, const char *name, uint64_t *address)
{
    Elf64_Sym symbol;
    if (tables->symbols.size / sizeof symbol <= index)
        return false;
    memcpy(&symbol, tables->symbols.bytes + index * sizeof symbol, sizeof symbol);
    unsigned type = ELF64_ST_TYPE(symbol.st_info);
    *address = symbol.st_value;
    return (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE) &&
           symbol.st_shndx != SHN_UNDEF && symbol.st_value &&
           is_string_at(&tables->strings, symbol.st_name, name) && is_default(tables, index);
}

static uint32_t gnu_hash(const char *name)
{
    uint32_t hash = 5381;
    for (const char *at = name; *at; at++)
        hash = hash * 33 + (unsigned char)*at;
    return hash;
}

/* Header: buckets, first symbol, words of the filter, its shift; then the filter, the buckets, and a chain
 * word for each symbol from the first one on, whose lowest bit ends a bucket. */
static bool find_hashed(const struct tables *tables, const char *name, uint64_t *address)
{
    const struct elf_section *table = &tables->hashes;
    uint32_t buckets = word_at(table, 0), first = word_at(table, 4), filter = word_at(table, 8);
    size_t bucket_at = 16 + (size_t)filter * 8, chain_at = bucket_at + (size_t)buckets * 4;
    uint32_t hash = gnu_hash(name);
    if (!buckets || chain_at > table->size)
        return false;
    uint32_t index = word_at(table, bucket_at + (size_t)(hash % buckets) * 4);
    for (; index >= first && chain_at + ((size_t)index - first + 1) * 4 <= table->size; index++) {
        uint32_t chain = word_at(table, chain_at + ((size_t)index - first) * 4);
        if ((chain | 1) == (hash | 1) && is_export_named(tables, index, name, address))
            return true;
        if (chain & 1)
            break;
    }
    return false;
}

static bool find_slowly(const struct tables *tables, const char *name, uint64_t *address)
{
    for (size_t i = 0; i < tables->symbols.size / sizeof(Elf64_Sym); i++)
        if (is_export_named(tables, i, name, address))
            return true;
    return false;
}

bool elf_export_find(const struct elf_image *image, const char *name, uint64_t *address)
{
    struct tables tables = {0};
    if (!elf_image_section(image, ".dynsym", &tables.symbols) ||
        !elf_image_section(image, ".dynstr", &tables.strings) || !tables.symbols.bytes ||
        !tables.strings.bytes)
        return false;
    if (!elf_image_section(image, ".gnu.version", &tables.versions) || !tables.versions.bytes)
        tables.versions.size = 0;
    if (elf_image_section(image, ".gnu.hash", &tables.hashes) && tables.hashes.bytes)
        return find_hashed(&tables, name, address);
    return find_slowly(&tables, name, address);
}
