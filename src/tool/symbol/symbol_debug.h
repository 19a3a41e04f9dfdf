/* symbol_debug.h - finding what was split off an image: separate debug files, and .gnu_debugdata inside it. Private to the
 * symbol room. Context: tool. Source: GDB manual, "Separate Debug Files" and "MiniDebugInfo". */
#ifndef SYMBOL_DEBUG_H
#define SYMBOL_DEBUG_H

#include "symbol.h"

/* The path (malloc'd) of the separate debug file: by build-id, by debuglink with the right checksum, by debuginfod if the
 * options say so. NULL: there is none. */
char *symbol_debug_path(const struct elf_image *image, const struct symbol_options *options);

/* The image inside .gnu_debugdata; NULL: there is none. */
struct elf_image *symbol_debug_mini(const struct elf_image *image);

#endif
