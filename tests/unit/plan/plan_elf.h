/* plan_elf.h - small ELF images made of hand-written functions: symbols, call-frame information, text at
 * 0x1000.
 *
 * Life cycle: `struct plan_elf elf = {0}`, plan_elf_function for each, plan_elf_image, plan_elf_free. */
#ifndef PLAN_ELF_H
#define PLAN_ELF_H

#include <stdint.h>

#include "base_text.h"
#include "elf_image.h"

#define PLAN_ELF_TEXT 0x1000u
#define PLAN_ELF_MOST 512

struct plan_elf {
    struct base_text text;
    struct {
        const char *name; /* NULL: no symbol */
        uint64_t start, size;
        int has_fde;
        uint8_t frame; /* bytes on the stack at its start, the return address among them; 0: 8 */
    } functions[PLAN_ELF_MOST];
    unsigned count;
};

/* Adds `size` bytes at the end of the text; returns its address. */
uint64_t plan_elf_function(struct plan_elf *elf, const char *name, const void *bytes, size_t size,
                           int has_fde);
/* Bytes between functions. */
void plan_elf_fill(struct plan_elf *elf, uint8_t byte, size_t count);
uint64_t plan_elf_here(const struct plan_elf *elf);
struct elf_image *plan_elf_image(const struct plan_elf *elf);
void plan_elf_free(struct plan_elf *elf);

#endif
