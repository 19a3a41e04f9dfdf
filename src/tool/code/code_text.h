/* code_text.h - the bytes of an image's code, found by address.
 * Context: tool, any thread on its own data. */
#ifndef CODE_TEXT_H
#define CODE_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "elf_image.h"

struct code_piece { /* some bytes at an address */
    uint64_t address;
    const uint8_t *bytes; /* borrowed */
    size_t size;
};

struct code_text { /* sorted by address, not overlapping */
    struct code_piece *pieces;
    size_t count;
};

/* The executable PT_LOADs as they are in the file. `text` borrows from `image`. */
int code_text_of_image(const struct elf_image *image, struct code_text *text, struct base_error *error);
/* All PT_LOADs: the tables of switches lie among the constants. */
int code_text_of_loads(const struct elf_image *image, struct code_text *text, struct base_error *error);
void code_text_free(struct code_text *text);
/* The bytes at `address` and how many follow; NULL: none there. */
const uint8_t *code_text_at(const struct code_text *text, uint64_t address, size_t *available);

#endif
