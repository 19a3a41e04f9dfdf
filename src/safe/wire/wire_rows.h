/* wire_rows.h - compiled call-frame information: the one unwind table that all readers share.
 *
 * The cfi module compiles an image's .eh_frame and .debug_frame once into this flat form, a *rows blob*;
 * the collector (on copies of stacks) and the agent (on the live stack) read it, from the cache file mapped
 * as it is. Addresses are the image's own (ELF virtual addresses, not biased).
 *
 *   header | rules: wire_rule[rule_count] | pages: uint32_t[page_count + 1] | rows: wire_row[row_count]
 *
 * The image's code from `base` (64 KiB aligned) is cut into pages of 64 KiB; pages[i] is the index of the
 * first row of page i, pages[page_count] == row_count. A row says: from this address (its low 16 bits) on,
 * until the next row, this rule holds. Every page that has rows starts with a row for its offset 0 (so a
 * search never leaves its page); a page without rows has no code-frame information. Code that no FDE covers
 * has a row with rule 0, which is WIRE_CFA_NONE. 4 bytes a row: libLLVM's 950,000 rows (gaps included) take
 * 3.8 MB. Source of the layout: OTel eBPF profiler's stack deltas, DWARF 5 section 6.4. Context: anywhere;
 * read only once made. */
#ifndef WIRE_ROWS_H
#define WIRE_ROWS_H

#include <stdint.h>

#define WIRE_ROWS_MAGIC   0x53574f52594c4c54u /* "TLLYROWS" */
#define WIRE_ROWS_VERSION 1

enum wire_cfa_kind {
    WIRE_CFA_NONE = 0,    /* no call-frame information here */
    WIRE_CFA_REGISTER,    /* CFA = register + cfa_offset */
    WIRE_CFA_DEREFERENCE, /* CFA = *(register + cfa_offset) + cfa_add: realigned stacks */
    WIRE_CFA_PLT,         /* CFA = sp + 8 + ((pc & 15) >= cfa_offset ? 8 : 0) */
    WIRE_CFA_SIGNAL,      /* a signal trampoline: registers come from the ucontext on the stack */
    WIRE_CFA_END,         /* the outermost frame: return address undefined */
    WIRE_CFA_ODD,         /* an expression or register rule that is not supported */
};

enum wire_save_kind {
    WIRE_SAVE_SAME = 0,  /* the register keeps its value */
    WIRE_SAVE_CFA,       /* saved at CFA + slot */
    WIRE_SAVE_FP,        /* saved at fp + slot (expression breg fp) */
    WIRE_SAVE_REGISTER,  /* the value is in register number `slot` (DWARF) */
    WIRE_SAVE_UNDEFINED, /* its value is lost */
    WIRE_SAVE_CFA_VALUE, /* its value is CFA + slot */
};

/* What holds between two rows. Registers by their DWARF number; slots count 8 bytes. 16 bytes.
 * Three registers are followed: the frame pointer, the return address, and the machine's base register
 * (arch.base: rbx), from which glibc's lazy binding computes its CFA. The last is only ever saved near the
 * CFA: base_slot 0 says that it keeps its value, WIRE_BASE_LOST that nobody knows. */
struct wire_rule {
    int32_t cfa_offset; /* bytes */
    int16_t fp_slot, ra_slot, base_slot;
    uint16_t zero;
    int8_t cfa_add; /* of WIRE_CFA_DEREFERENCE, in units of 8 bytes */
    uint8_t cfa_register;
    uint8_t cfa_kind;   /* enum wire_cfa_kind */
    uint8_t save_kinds; /* enum wire_save_kind: bits 0-2 fp, bits 4-7 return address; bit 3 WIRE_BASE_LOST */
};
_Static_assert(sizeof(struct wire_rule) == 16, "shared layout");
#define WIRE_BASE_LOST 8

static inline unsigned wire_rule_fp_kind(const struct wire_rule *rule)
{
    return rule->save_kinds & 7u;
}

static inline unsigned wire_rule_ra_kind(const struct wire_rule *rule)
{
    return rule->save_kinds >> 4;
}

struct wire_row {
    uint16_t address_low;
    uint16_t rule;
};
_Static_assert(sizeof(struct wire_row) == 4, "shared layout");

struct wire_rows_header {
    uint64_t magic;
    uint32_t version;
    uint32_t machine; /* ELF e_machine */
    uint64_t base;    /* first address of page 0 */
    uint32_t page_count, row_count, rule_count;
    uint32_t byte_count; /* of the whole blob, this header included */
    uint64_t text_size;  /* of the image's executable segments, bytes: with text_hash the cache's check */
    uint64_t text_hash;
};
_Static_assert(sizeof(struct wire_rows_header) == 56, "shared layout");

#endif
