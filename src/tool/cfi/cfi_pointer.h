/* cfi_pointer.h - addresses as call-frame information writes them: the DW_EH_PE_ encodings (private to the
 * module). Context: tool. Source: LSB 5 core, chapter 10.5. */
#ifndef CFI_POINTER_H
#define CFI_POINTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cfi_reader.h"

struct cfi_section {
    const uint8_t *bytes;
    size_t size;
    uint64_t address;
    bool eh;                       /* .eh_frame; else .debug_frame */
    bool terminated;               /* a zero length ends it: its size is only an upper bound */
    uint64_t text_base, data_base; /* what DW_EH_PE_textrel and _datarel count from */
};

enum { CFI_POINTER_ABSOLUTE = 0, CFI_POINTER_UNSIGNED = 7 /* a mask: lengths, which have no sign */ };

/* A number in the format that the low four bits of an encoding say. */
uint64_t cfi_pointer_value(struct cfi_reader *reader, uint8_t encoding);
/* A pointer, with what it is relative to. Fails the reader for those that need the program running. */
uint64_t cfi_pointer_read(struct cfi_reader *reader, const struct cfi_section *section, uint8_t encoding);

#endif
