/* cfi_find.h - where in an image the material for rows is: sections, code, trampolines (private to the
 * module). Context: tool. */
#ifndef CFI_FIND_H
#define CFI_FIND_H

#include "cfi_entry.h"
#include "cfi_spans.h"
#include "elf_image.h"

/* .eh_frame, by its section or, in files without section headers, by PT_GNU_EH_FRAME. */
bool cfi_find_eh_frame(const struct elf_image *image, struct cfi_section *section);
bool cfi_find_debug_frame(const struct elf_image *image, struct cfi_section *section);

/* The executable segments in order, no further than CFI_BLOB_SPAN_MAX from the first. False: no memory. */
bool cfi_find_code(const struct elf_image *image, struct cfi_span_list *code);

/* The part of [start, *end) that lies in the segment where `start` is; false when it is in none. */
bool cfi_find_in_code(const struct cfi_span_list *code, uint64_t start, uint64_t *end);

/* Does [start, end) of the image hold the machine code of rt_sigreturn? *at is its address. */
bool cfi_find_sigreturn(const struct elf_image *image, const struct arch *arch, uint64_t start, uint64_t end,
                        uint64_t *at);

uint64_t cfi_find_entry(const struct elf_image *image); /* e_entry; 0 when the file is too short */

#endif
