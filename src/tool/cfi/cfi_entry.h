/* cfi_entry.h - the entries of .eh_frame and .debug_frame: CIEs and FDEs (private to the module).
 *
 * A first pass parses the CIEs; the second yields the FDEs one after the other, each with its own CIE. Only
 * entries that the sequence of lengths leads to are CIEs: so all programs together are no longer than the
 * section, whatever a hostile file says. The two sections differ in how an FDE names its CIE and in how
 * addresses are written.
 * Context: tool. Source: DWARF 5 section 6.4.1; LSB 5 core, chapters 10.5 and 10.6. */
#ifndef CFI_ENTRY_H
#define CFI_ENTRY_H

#include "arch.h"
#include "base_map.h"
#include "cfi_pointer.h"
#include "cfi_reader.h"
#include "cfi_state.h"

struct cfi_cie {
    uint64_t code_alignment;
    int64_t data_alignment;
    uint64_t return_column;
    uint8_t address_encoding; /* DW_EH_PE_... of the FDE's addresses */
    bool augmented;           /* 'z': FDEs carry the size of their augmentation data */
    bool signal;              /* 'S' */
    bool valid;
    struct cfi_reader program;
    struct cfi_state initial; /* after `program` */
};

struct cfi_fde {
    uint64_t start, end;
    uint32_t cie; /* index into cfi_entries.cies */
    struct cfi_reader program;
};

struct cfi_entries {
    const struct arch *arch;
    struct cfi_section section;
    struct cfi_reader reader;
    struct cfi_cie *cies;
    size_t cie_count, cie_capacity;
    struct base_map cie_of_offset;
    uint64_t last_offset; /* of the CIE asked for last */
    uint32_t last_cie;
};

enum cfi_entry_kind {
    CFI_ENTRY_END,
    CFI_ENTRY_FDE,
    CFI_ENTRY_BROKEN, /* an FDE that makes no sense, or the unreadable rest of the section */
};

/* Parses all CIEs of the section. False only when memory ran out. */
bool cfi_entries_start(struct cfi_entries *entries, const struct arch *arch,
                       const struct cfi_section *section);
void cfi_entries_free(struct cfi_entries *entries);
enum cfi_entry_kind cfi_entries_next(struct cfi_entries *entries, struct cfi_fde *fde);

#endif
