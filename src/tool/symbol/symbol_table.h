/* symbol_table.h - the functions of an image, sorted by address. Private to the symbol room.
 *
 * Of several names for one address the table keeps: global before weak before local, then the one with the fewest leading
 * underscores, then the shortest, then the first in the alphabet. A symbol without a size ends where the next one begins, or its
 * section ends.
 * Context: tool, one thread. */
#ifndef SYMBOL_TABLE_H
#define SYMBOL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf_image.h"

struct symbol_entry {
    uint64_t start, end;
    const char *name; /* in the image's string table, or in `owned` */
    uint8_t binding;  /* lower is better */
    bool sized;
};

struct symbol_table {
    struct symbol_entry *entries;
    size_t count, capacity;
    char **owned; /* names made here: NAME@plt */
    size_t owned_count, owned_capacity;
};

/* Adds the functions of a symbol section (".symtab" or ".dynsym") of `from`. False: there is no such section. */
bool symbol_table_add(struct symbol_table *table, const struct elf_image *from, const char *section);
/* Adds the entries of procedure linkage tables as NAME@plt. */
void symbol_table_add_plt(struct symbol_table *table, const struct elf_image *image);
/* Sorts, drops aliases, gives sizes. To be called once, after all was added. */
void symbol_table_finish(struct symbol_table *table, const struct elf_image *image);
const struct symbol_entry *symbol_table_find(const struct symbol_table *table, uint64_t address);
void symbol_table_free(struct symbol_table *table);

#endif
