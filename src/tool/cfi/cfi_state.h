/* cfi_state.h - what call-frame instructions have said so far, as far as rows can hold it (private to the
 * module).
 *
 * Of all columns only four matter to a walk: the frame pointer, the return address, the base register, and
 * the stack pointer (to see that nobody restores it other than to the CFA). Context: tool. */
#ifndef CFI_STATE_H
#define CFI_STATE_H

#include <stdint.h>

#include "wire_rows.h"

/* The kinds of wire_save_kind, and two that only exist until a row is made. */
enum {
    CFI_SAVE_SP = WIRE_SAVE_CFA_VALUE + 1, /* saved at sp + offset */
    CFI_SAVE_ODD,
};

struct cfi_column {
    int64_t offset;
    uint32_t kind; /* enum wire_save_kind, CFI_SAVE_... */
};

struct cfi_state {
    int64_t cfa_offset;
    int64_t cfa_add;       /* bytes */
    uint64_t cfa_register; /* DWARF number, any size */
    uint32_t cfa_kind;     /* enum wire_cfa_kind; WIRE_CFA_NONE before any was said */
    struct cfi_column fp, ra, sp, base;
};

#endif
