/* loader_image.h - the agent's ELF image, as it is mapped in a process.
 *
 * An ELF shared object for x86-64 that needs no other: PT_LOADs, the writable ones last, and relocations
 * of the kind RELATIVE. It is relocated here and copied to the process: the target's dynamic linker takes
 * no part, so that a static program is like any other. Pure: bytes in, bytes out. Context: tool. Source:
 * System V ABI, chapters 4 and 5. */
#ifndef LOADER_IMAGE_H
#define LOADER_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"

struct loader_image;

/* A copy of the bytes is taken. BASE_EFORMAT: not such an image. */
int loader_image_open(const void *bytes, size_t size, struct loader_image **image, struct base_error *error);
void loader_image_close(struct loader_image *image);

/* Offset of a symbol (.symtab or .dynsym) from the image's base; false: there is none. */
bool loader_image_symbol(const struct loader_image *image, const char *name, uint64_t *offset);

/* Bytes in whole pages: of all of it, and of the read-only part from the base on. */
uint64_t loader_image_span(const struct loader_image *image);
uint64_t loader_image_fixed(const struct loader_image *image);

/* The image as it is with its base at run-time address `base`: `span` bytes. */
int loader_image_make(const struct loader_image *image, uint64_t base, uint8_t *bytes,
                      struct base_error *error);

#endif
