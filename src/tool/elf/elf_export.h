/* elf_export.h - functions that an image offers to others, by name. Context: tool. Source: the GNU hash table
 * as ld.so reads it (DT_GNU_HASH, do_lookup_x); System V gABI, dynamic linking. */
#ifndef ELF_EXPORT_H
#define ELF_EXPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "elf_image.h"

/* The address of a defined dynamic function of that name, of its default version; of an indirect function
 * (IFUNC) that of its resolver. False: the image has none. Corrupt tables give false. */
bool elf_export_find(const struct elf_image *image, const char *name, uint64_t *address);

#endif
