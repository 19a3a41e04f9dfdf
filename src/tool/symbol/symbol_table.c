#include "symbol_table.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_search.h"

enum { RANK_WEAK = 1, RANK_LOCAL = 2, RANK_PLT = 3, RANK_UNTYPED = 4 };

void symbol_table_free(struct symbol_table *table)
{
    for (size_t i = 0; i < table->owned_count; i++)
        free(table->owned[i]);
    free(table->owned);
    free(table->entries);
    *table = (struct symbol_table){0};
}

static void add_entry(struct symbol_table *table, struct symbol_entry entry)
{
    if (base_array_room(table->entries, table->count, table->capacity))
        table->entries[table->count++] = entry;
}

void symbol_table_add_owned(struct symbol_table *table, uint64_t start, uint64_t end, char *owned)
{
    if (!owned || !base_array_room(table->owned, table->owned_count, table->owned_capacity)) {
        free(owned);
        return;
    }
    table->owned[table->owned_count++] = owned;
    add_entry(table, (struct symbol_entry){
                         .start = start, .end = end, .name = owned, .rank = RANK_PLT, .sized = true});
}

/* --- from symbol sections --- */

/* The end is not sought without limit: a hostile table without any would be read whole for every symbol. */
const char *symbol_table_name(const struct elf_section *strings, uint32_t at)
{
    enum { NAME_LIMIT = 65536 };
    if (at >= strings->size)
        return NULL;
    size_t left = strings->size - at;
    if (!memchr(strings->bytes + at, 0, left < NAME_LIMIT ? left : NAME_LIMIT))
        return NULL;
    return (const char *)strings->bytes + at;
}

/* Where the code of each section ends; 0 for a section without code. */
static uint64_t *read_code_ends(const struct elf_image *image)
{
    size_t count = elf_image_section_count(image);
    uint64_t *ends = calloc(count + 1, sizeof *ends);
    struct elf_section section;
    for (size_t i = 0; ends && i < count; i++) {
        if (elf_image_section_header(image, i, &section) && section.flags & SHF_EXECINSTR)
            ends[i] = section.address + section.memory_size;
    }
    return ends;
}

/* Functions, and labels in code (assembly); not the $x and $d that mark code and data on Arm. */
static bool is_function(const Elf64_Sym *symbol, const char *name)
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    if (!symbol->st_value || !name || !*name)
        return false;
    return type == STT_FUNC || type == STT_GNU_IFUNC || (type == STT_NOTYPE && name[0] != '$');
}

static uint8_t rank_of(const Elf64_Sym *symbol)
{
    unsigned rank = ELF64_ST_TYPE(symbol->st_info) == STT_NOTYPE ? RANK_UNTYPED : 0;
    unsigned binding = ELF64_ST_BIND(symbol->st_info);
    if (binding == STB_WEAK)
        rank += RANK_WEAK;
    else if (binding == STB_LOCAL)
        rank += RANK_LOCAL;
    return (uint8_t)rank;
}

/* A size that reaches out of the section is cut there: one wrong symbol must not cover the rest. */
static void add_symbol(struct symbol_table *table, const Elf64_Sym *symbol, const char *name, uint64_t limit)
{
    uint64_t start = symbol->st_value;
    if (start >= limit)
        return;
    bool sized = symbol->st_size;
    uint64_t end = sized && symbol->st_size < limit - start ? start + symbol->st_size : limit;
    add_entry(table, (struct symbol_entry){
                         .start = start, .end = end, .name = name, .rank = rank_of(symbol), .sized = sized});
}

bool symbol_table_add(struct symbol_table *table, const struct elf_image *from, const char *section)
{
    struct elf_section symbols, strings;
    if (!elf_image_section(from, section, &symbols) || !elf_image_section_at(from, symbols.link, &strings) ||
        !strings.bytes)
        return false;
    size_t sections = elf_image_section_count(from);
    uint64_t *code_ends = read_code_ends(from);
    for (size_t at = 0; code_ends && at + sizeof(Elf64_Sym) <= symbols.size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        memcpy(&symbol, symbols.bytes + at, sizeof symbol);
        if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx >= sections || !code_ends[symbol.st_shndx])
            continue;
        const char *name = symbol_table_name(&strings, symbol.st_name);
        if (is_function(&symbol, name))
            add_symbol(table, &symbol, name, code_ends[symbol.st_shndx]);
    }
    free(code_ends);
    return true;
}

/* --- order --- */

static int by_start_then_worth(const void *left, const void *right)
{
    const struct symbol_entry *a = left, *b = right;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    size_t lead_a = strspn(a->name, "_"), lead_b = strspn(b->name, "_");
    if (lead_a != lead_b)
        return lead_a < lead_b ? -1 : 1;
    size_t length_a = strlen(a->name), length_b = strlen(b->name);
    if (length_a != length_b)
        return length_a < length_b ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Of each address the first entry stays, with the size that any of them knows. */
static void drop_aliases(struct symbol_table *table)
{
    size_t kept = 0;
    for (size_t i = 0; i < table->count; i++) {
        struct symbol_entry *last = kept ? &table->entries[kept - 1] : NULL;
        if (!last || last->start != table->entries[i].start) {
            table->entries[kept++] = table->entries[i];
        } else if (!last->sized && table->entries[i].sized) {
            last->end = table->entries[i].end;
            last->sized = true;
        }
    }
    table->count = kept;
}

static void drop_labels(struct symbol_table *table)
{
    uint64_t reach = 0; /* of the functions so far that have a size */
    size_t kept = 0;
    for (size_t i = 0; i < table->count; i++) {
        struct symbol_entry entry = table->entries[i];
        if (!entry.sized && entry.start < reach)
            continue;
        if (entry.sized && entry.end > reach)
            reach = entry.end;
        table->entries[kept++] = entry;
    }
    table->count = kept;
}

static void end_unsized(struct symbol_table *table)
{
    for (size_t i = 0; i + 1 < table->count; i++) {
        struct symbol_entry *entry = &table->entries[i];
        if (!entry->sized && entry->end > table->entries[i + 1].start)
            entry->end = table->entries[i + 1].start;
    }
}

/* The function around an entry is the last one before it that is still open: the previous one, or one of
 * those around that. */
static void link_outer(struct symbol_table *table)
{
    for (size_t i = 1; i < table->count; i++) {
        uint32_t around = (uint32_t)i;
        while (around && table->entries[around - 1].end <= table->entries[i].start)
            around = table->entries[around - 1].outer;
        table->entries[i].outer = around;
    }
}

void symbol_table_finish(struct symbol_table *table)
{
    if (!table->count)
        return;
    qsort(table->entries, table->count, sizeof *table->entries, by_start_then_worth);
    drop_aliases(table);
    drop_labels(table);
    end_unsized(table);
    link_outer(table);
}

const struct symbol_entry *symbol_table_find(const struct symbol_table *table, uint64_t address)
{
    size_t count = base_search_up_to(table->entries, table->count, start, address);
    while (count && address >= table->entries[count - 1].end)
        count = table->entries[count - 1].outer;
    return count ? &table->entries[count - 1] : NULL;
}
