/* import_images.h - the files that code was in: where in them an address is, and where functions begin and
 * end.
 *
 * Formats tell of mappings: so much of a file at such an address. The model wants addresses of the image,
 * which its program headers give: the file is opened for them, if it is there and still the one (by build-id,
 * where the format has it). If not, the offset in the file stands for the address, which is the same in most
 * libraries. Context: tool; private to this module. */
#ifndef IMPORT_IMAGES_H
#define IMPORT_IMAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf_image.h"
#include "profile.h"
#include "symbol.h"

struct import_image {
    const char *path; /* of the profile */
    uint32_t image;   /* index in the profile */
    struct elf_image *elf;
    struct symbol_file *symbols;
    bool needed; /* something of it had to be looked up there */
};

struct import_images {
    struct profile *profile;
    struct import_image *items;
    size_t count, capacity;
    size_t unverified; /* images that were found by path alone: the format has no build-ids */
};

void import_images_free(struct import_images *images);

/* What a path with brackets stands for, or a file: enum profile_image_kind. */
uint32_t import_images_kind(const char *path, uint64_t address);

/* The file's number here, from 0; SIZE_MAX: memory ran out. build_id: hexadecimal, "" unknown. */
size_t import_images_find(struct import_images *images, const char *path, const char *build_id);

uint64_t import_images_address(const struct import_images *images, size_t index, uint64_t offset);

/* Names in this image can only come from its file: a loss if that is not there. */
void import_images_need(struct import_images *images, size_t index);

/* Bounds of the function at an address of the image; both 0 when they are not known. */
void import_images_bounds(struct import_images *images, size_t index, uint64_t address, uint64_t *start,
                          uint64_t *end);

/* Says what of all this could not be had, in meta import_notice. */
void import_images_report(const struct import_images *images);

#endif
