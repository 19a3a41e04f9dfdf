/* Finding what ld.so calls when the list of objects changes, and that list. */
#include <elf.h>
#include <string.h>

#include "stub_doorbell.h"

static bool is_symbol_name(const struct elf_section *strings, uint32_t at, const char *name)
{
    size_t size = strlen(name) + 1;
    return at < strings->size && strings->size - at >= size && memcmp(strings->bytes + at, name, size) == 0;
}

static bool find_symbol_in(const struct elf_section *symbols, const struct elf_section *strings,
                           const char *name, uint64_t *address)
{
    for (size_t at = 0; at + sizeof(Elf64_Sym) <= symbols->size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        memcpy(&symbol, symbols->bytes + at, sizeof symbol);
        if (symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0 &&
            is_symbol_name(strings, symbol.st_name, name)) {
            *address = symbol.st_value;
            return true;
        }
    }
    return false;
}

static bool find_symbol(const struct elf_image *ld_so, const char *name, uint64_t *address)
{
    for (size_t i = 0; i < elf_image_section_count(ld_so); i++) {
        struct elf_section symbols, strings;
        if (elf_image_section_header(ld_so, i, &symbols) &&
            (symbols.type == SHT_DYNSYM || symbols.type == SHT_SYMTAB) &&
            elf_image_section_at(ld_so, i, &symbols) && symbols.bytes != NULL &&
            elf_image_section_at(ld_so, symbols.link, &strings) && strings.bytes != NULL &&
            find_symbol_in(&symbols, &strings, name, address))
            return true;
    }
    return false;
}

bool stub_doorbell_find(const struct elf_image *ld_so, uint64_t *address)
{
    return find_symbol(ld_so, "_dl_debug_state", address); /* musl: another name of dl_debug_state */
}

bool stub_doorbell_list(const struct elf_image *ld_so, uint64_t *address)
{
    return find_symbol(ld_so, "_r_debug", address);
}
