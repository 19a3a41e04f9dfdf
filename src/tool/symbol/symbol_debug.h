/* symbol_debug.h - finding what was split off an image: separate debug files, and .gnu_debugdata inside it.
 * Context: tool. Source: GDB manual, "Separate Debug Files" and "MiniDebugInfo". */
#ifndef SYMBOL_DEBUG_H
#define SYMBOL_DEBUG_H

#include "symbol.h"

/* The separate debug file, to be closed by the caller: by build-id below the options' root, then on this
 * host; by debuglink in the same places; by debuginfod if the options say so. It must bear the image's
 * build-id; where one of the two has none, the debuglink's checksum. NULL: there is none. */
struct elf_image *symbol_debug_open(const struct elf_image *image, const struct symbol_options *options);

/* The image inside .gnu_debugdata; NULL: there is none. */
struct elf_image *symbol_debug_mini(const struct elf_image *image);

#endif
