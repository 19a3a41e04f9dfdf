#include "code_function.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"

int code_bounds_add(struct code_bounds *bounds, const struct code_bound *bound, struct base_error *error)
{
    if (!base_array_room(bounds->items, bounds->count, bounds->capacity))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    bounds->items[bounds->count++] = *bound;
    return BASE_OK;
}

void code_bounds_free(struct code_bounds *bounds)
{
    free(bounds->items);
    *bounds = (struct code_bounds){NULL, 0, 0};
}

/* A terminated name inside the string section, or NULL. */
static const char *name_at(const struct elf_section *strings, uint32_t at)
{
    if (strings->bytes == NULL || at >= strings->size)
        return NULL;
    const char *name = (const char *)strings->bytes + at;
    return memchr(name, '\0', strings->size - at) ? name : NULL;
}

static int add_symbol(struct code_bounds *bounds, const Elf64_Sym *symbol, const char *name,
                      struct base_error *error)
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    if (symbol->st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_GNU_IFUNC) || name == NULL ||
        *name == '\0')
        return BASE_OK;
    uint64_t end = symbol->st_value + symbol->st_size;
    if (end < symbol->st_value)
        end = symbol->st_value;
    return code_bounds_add(bounds,
                           &(struct code_bound){.start = symbol->st_value,
                                                .end = end,
                                                .name = name,
                                                .origin = CODE_FROM_SYMBOL,
                                                .fragment = code_function_is_fragment(name)},
                           error);
}

static int add_section(struct code_bounds *bounds, const struct elf_image *image, const char *which,
                       struct base_error *error)
{
    struct elf_section symbols, strings;
    if (!elf_image_section(image, which, &symbols) || symbols.bytes == NULL ||
        !elf_image_section_at(image, symbols.link, &strings))
        return BASE_OK;
    for (size_t at = 0; at + sizeof(Elf64_Sym) <= symbols.size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        memcpy(&symbol, symbols.bytes + at, sizeof symbol);
        int code = add_symbol(bounds, &symbol, name_at(&strings, symbol.st_name), error);
        if (code < 0)
            return code;
    }
    return BASE_OK;
}

int code_bounds_add_symbols(struct code_bounds *bounds, const struct elf_image *image,
                            struct base_error *error)
{
    int code = add_section(bounds, image, ".symtab", error);
    return code < 0 ? code : add_section(bounds, image, ".dynsym", error);
}

/* Is there `.WORD` in the name, at its end or followed by another dot? */
static bool has_suffix(const char *name, const char *word)
{
    size_t length = strlen(word);
    for (const char *dot = strstr(name, word); dot; dot = strstr(dot + 1, word))
        if (dot != name && (dot[length] == '\0' || dot[length] == '.'))
            return true;
    return false;
}

bool code_function_is_fragment(const char *name)
{
    return name != NULL && (has_suffix(name, ".cold") || has_suffix(name, ".part"));
}

bool code_function_is_part(const char *name)
{
    return name != NULL && has_suffix(name, ".part") && !has_suffix(name, ".cold");
}
