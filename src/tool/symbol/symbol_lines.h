/* symbol_lines.h - file, line and inlined frames at an address, from DWARF through libdw.
 *
 * A compilation unit is read when an address first falls into it: its line table, and its inlined subroutines
 * laid flat into one sorted list of segments, so that every further question about the unit is two binary
 * searches. Units are found by an index of their own ranges (.debug_aranges is missing from clang's output
 * and incomplete elsewhere). Context: tool, one thread. Source: DWARF 5, sections 2.17, 3.1.1, 3.3.8 and 6.2.
 */
#ifndef SYMBOL_LINES_H
#define SYMBOL_LINES_H

#include "symbol.h"

struct symbol_lines;

/* From the debug information in `image`, which must outlive the result, as the result must the strings that
 * it hands out. None there is no failure: then nothing is ever found. False: out of memory. */
bool symbol_lines_open(const struct elf_image *image, struct symbol_lines **lines);
void symbol_lines_close(struct symbol_lines *lines);
bool symbol_lines_present(const struct symbol_lines *lines);

/* Levels of source at an image address, innermost first; the last is the ELF function itself (function ==
 * NULL). */
size_t symbol_lines_at(struct symbol_lines *lines, uint64_t address, struct symbol_line *levels, size_t max);

#endif
