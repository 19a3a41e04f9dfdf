/* symbol_unit.h - one compilation unit, made ready for many questions. Private to the lines of the symbol
 * module. Context: tool, one thread. */
#ifndef SYMBOL_UNIT_H
#define SYMBOL_UNIT_H

#include <elfutils/libdw.h>
#include <stdint.h>

#include "base_map.h"
#include "symbol.h"

struct symbol_inline { /* one inlined call */
    Dwarf_Die die;
    char *name; /* demangled, owned; NULL until it is asked for */
    const char *call_file;
    uint32_t call_line;
    uint32_t outer; /* index + 1 of the inlined call around it; 0: the function itself */
};

struct symbol_segment { /* from `start` to the next segment, `inner` is the innermost inlined call: index + 1,
                           0: none */
    uint64_t start;
    uint32_t inner;
};

struct symbol_unit {
    Dwarf_Lines *lines; /* libdw's own table, sorted by address */
    struct symbol_inline *inlines;
    struct symbol_segment *segments;
    const char *directory;    /* where the compiler ran: relative names are below it; NULL unknown */
    struct base_map whole_of; /* name as libdw has it (its address) -> index in whole */
    char **whole;             /* the names with their directories */
    size_t whole_count, whole_capacity;
    size_t line_count, inline_count, inline_capacity, segment_count, segment_capacity;
};

/* Reads the lines of the unit `die` and the inlined calls of `split`, which is the same unit unless DWARF is
 * split. What is corrupt is left out. NULL: out of memory. */
struct symbol_unit *symbol_unit_read(Dwarf_Die *die, Dwarf_Die *split);
void symbol_unit_free(struct symbol_unit *unit);

/* As symbol_lines_at. */
size_t symbol_unit_at(struct symbol_unit *unit, uint64_t address, struct symbol_line *levels, size_t max);

#endif
