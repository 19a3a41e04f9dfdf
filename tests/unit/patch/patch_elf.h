/* patch_elf.h - small ELF images made of hand-written functions: symbols, call-frame information, text at
 * 0x1000.
 *
 * Life cycle: `struct patch_elf elf = {0}`, patch_elf_function for each, patch_elf_image, patch_elf_free. */
#ifndef PATCH_ELF_H
#define PATCH_ELF_H

#include <stdint.h>

#include "base_text.h"
#include "elf_image.h"

#define PATCH_ELF_TEXT 0x1000u
#define PATCH_ELF_MOST 512

struct patch_elf {
    struct base_text text;
    struct {
        const char *name; /* NULL: no symbol */
        uint64_t start, size;
        int has_fde;
    } functions[PATCH_ELF_MOST];
    unsigned count;
};

/* Adds `size` bytes at the end of the text; returns its address. */
uint64_t patch_elf_function(struct patch_elf *elf, const char *name, const void *bytes, size_t size,
                            int has_fde);
/* Bytes between functions. */
void patch_elf_fill(struct patch_elf *elf, uint8_t byte, size_t count);
uint64_t patch_elf_here(const struct patch_elf *elf);
struct elf_image *patch_elf_image(const struct patch_elf *elf);
void patch_elf_free(struct patch_elf *elf);

#endif
