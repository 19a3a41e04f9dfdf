/* oracle.h - what binutils say about the same file. */
#ifndef ORACLE_H
#define ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol.h"

/* All that a shell command (printf rules) prints; malloc'd. The test fails when the command does. */
char *oracle_output(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Next line of *text, terminated, *text behind it; NULL at the end. */
char *oracle_line(char **text);

struct oracle_symbol {    /* as nm lists it */
    uint64_t start, size; /* 0: has none */
    char type;
    char *name; /* version cut off */
};
struct oracle_symbols {
    struct oracle_symbol *items;
    size_t count, capacity;
    char *text;
};
/* The code symbols of a file; `flags` for nm. */
void oracle_symbols_read(struct oracle_symbols *symbols, const char *flags, const char *path);
void oracle_symbols_free(struct oracle_symbols *symbols);

/* The symbol that covers the address, by looking at all of them; NULL: none. `limit` is where a symbol
 * without a size ends at the latest (its section's end). */
const struct oracle_symbol *oracle_symbol_at(const struct oracle_symbols *symbols, uint64_t address,
                                             uint64_t section);

/* A test fixture's path, in a static buffer; or NULL (and the test is to be skipped) where it could not be
 * made. */
void oracle_use(const char *directory);
const char *oracle_path(const char *name);
const char *oracle_fixture(const char *name);

struct opened {
    struct elf_image *image;
    struct symbol_file *file;
    uint64_t start, end; /* of .text */
};
/* `options` NULL: none, and no directory of debug files. */
struct opened oracle_open(const char *path, const struct symbol_options *options);
void oracle_close(struct opened *opened);

#endif
