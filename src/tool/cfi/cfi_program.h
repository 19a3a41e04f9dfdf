/* cfi_program.h - running call-frame instructions (private to the module).
 * Context: tool. Source: DWARF 5 section 6.4.2 and 6.4.3; AADWARF64 section 4.3 for return-address signing.
 */
#ifndef CFI_PROGRAM_H
#define CFI_PROGRAM_H

#include "cfi_entry.h"
#include "cfi_rules.h"

/* From `offset` bytes behind its function's start on, this rule. */
struct cfi_row {
    uint32_t offset;
    uint16_t rule;
};

struct cfi_row_list {
    struct cfi_row *items;
    size_t count, capacity;
};

/* Fills cie->initial. False: the program makes no sense. */
bool cfi_program_initial(const struct arch *arch, const struct cfi_section *section, struct cfi_cie *cie);

enum cfi_program_result { CFI_PROGRAM_DONE, CFI_PROGRAM_BROKEN, CFI_PROGRAM_NO_MEMORY };

/* Appends the function's rows, rising, the first at offset 0, neighbours different. When broken nothing was
 * appended. */
enum cfi_program_result cfi_program_run(const struct arch *arch, const struct cfi_section *section,
                                        const struct cfi_cie *cie, const struct cfi_fde *fde,
                                        struct cfi_rules *rules, struct cfi_row_list *rows);

#endif
