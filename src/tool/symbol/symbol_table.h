/* symbol_table.h - the functions of an image, sorted by address. Private to the symbol module.
 *
 * Functions are symbols of type FUNC and GNU_IFUNC in sections with code, and untyped ones there (assembly).
 * Of several names for one address the table keeps a typed one before an untyped, then global before weak
 * before local, then the one with the fewest leading underscores, then the shortest, then the first in the
 * alphabet. A symbol without a size ends where the next one begins or its section ends; one inside a function
 * that has a size is a label, and left out. Functions may nest; the innermost answers. Context: tool, one
 * thread. */
#ifndef SYMBOL_TABLE_H
#define SYMBOL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf_image.h"

struct symbol_entry {
    uint64_t start, end;
    const char *name; /* in the image's string table, or in `owned` */
    uint32_t outer;   /* index + 1 of the function around it, 0: none; set by finish */
    uint8_t rank;     /* lower is better */
    bool sized;
};

struct symbol_table {
    struct symbol_entry *entries;
    size_t count, capacity;
    char **owned; /* names made here: NAME@plt */
    size_t owned_count, owned_capacity;
};

/* Adds the functions of a symbol section (".symtab" or ".dynsym") of `from`, whose bytes must outlive the
 * table. False: there is no such section. */
bool symbol_table_add(struct symbol_table *table, const struct elf_image *from, const char *section);
/* Adds the entries of procedure linkage tables as NAME@plt (symbol_plt.c). */
void symbol_table_add_plt(struct symbol_table *table, const struct elf_image *image);
/* Adds one function; takes over `owned` (malloc'd), which is then its name. */
void symbol_table_add_owned(struct symbol_table *table, uint64_t start, uint64_t end, char *owned);
/* Sorts, drops aliases and labels, gives sizes. To be called once, after all was added. */
void symbol_table_finish(struct symbol_table *table);
const struct symbol_entry *symbol_table_find(const struct symbol_table *table, uint64_t address);
void symbol_table_free(struct symbol_table *table);

/* A terminated name inside a string section; NULL when there is none, or it is longer than 64 KiB. */
const char *symbol_table_name(const struct elf_section *strings, uint32_t at);

#endif
