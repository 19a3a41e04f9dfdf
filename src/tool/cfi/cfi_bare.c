/* Frames at single addresses: only the programs of functions that hold one of them are run. */
#include <stdlib.h>
#include <string.h>

#include "base_search.h"
#include "cfi.h"
#include "cfi_find.h"
#include "cfi_program.h"

struct search {
    const struct arch *arch;
    const uint64_t *addresses;
    size_t count;
    bool *bare;
    struct cfi_span_list code;
    struct cfi_rules rules;
    struct cfi_row_list rows; /* of one function at a time */
};

/* The return address and nothing else: the rule that holds where a call has just arrived. Where registers
 * were saved does not count: compilers do not say in an epilogue that they have their values again. */
static bool is_bare(const struct arch *arch, const struct wire_rule *rule)
{
    bool pushed = arch->link == ARCH_NO_REGISTER; /* by the call itself */
    return rule->cfa_kind == WIRE_CFA_REGISTER && rule->cfa_register == arch->sp &&
           rule->cfa_offset == (pushed ? 8 : 0) &&
           (!pushed || (wire_rule_ra_kind(rule) == WIRE_SAVE_CFA && rule->ra_slot == -1));
}

static bool is_bare_at(const struct search *search, uint32_t offset)
{
    size_t before = base_search_up_to(search->rows.items, search->rows.count, offset, offset);
    return before > 0 && is_bare(search->arch, &search->rules.items[search->rows.items[before - 1].rule]);
}

/* False: no memory. */
static bool search_function(struct search *search, const struct cfi_entries *entries, struct cfi_fde *fde)
{
    size_t at = base_search_number(search->addresses, search->count, fde->start);
    if (at == search->count || search->addresses[at] >= fde->end ||
        !cfi_find_in_code(&search->code, fde->start, &fde->end))
        return true;
    search->rows.count = 0;
    if (cfi_program_run(search->arch, &entries->section, &entries->cies[fde->cie], fde, &search->rules,
                        &search->rows) == CFI_PROGRAM_NO_MEMORY)
        return false;
    for (; at < search->count && search->addresses[at] < fde->end; at++)
        search->bare[at] = is_bare_at(search, (uint32_t)(search->addresses[at] - fde->start));
    return true;
}

static bool search_section(struct search *search, const struct cfi_section *section)
{
    struct cfi_entries entries;
    struct cfi_fde fde;
    if (!cfi_entries_start(&entries, search->arch, section))
        return false;
    bool fine = true;
    for (enum cfi_entry_kind kind; fine && (kind = cfi_entries_next(&entries, &fde)) != CFI_ENTRY_END;)
        if (kind == CFI_ENTRY_FDE)
            fine = search_function(search, &entries, &fde);
    cfi_entries_free(&entries);
    return fine;
}

/* .eh_frame last: it wins where both speak. */
static bool search_image(struct search *search, const struct elf_image *image)
{
    struct cfi_section section;
    bool fine = cfi_rules_create(&search->rules) && cfi_find_code(image, &search->code);
    if (fine && cfi_find_debug_frame(image, &section))
        fine = search_section(search, &section);
    if (fine && cfi_find_eh_frame(image, &section))
        fine = search_section(search, &section);
    cfi_rules_free(&search->rules);
    cfi_spans_free(&search->code);
    free(search->rows.items);
    return fine;
}

int cfi_bare_frames(const struct elf_image *image, const uint64_t *addresses, size_t count, bool *bare,
                    struct base_error *error)
{
    struct search search = {arch_of_machine(elf_image_machine(image)), addresses, count, bare, {0}, {0}, {0}};
    if (search.arch == NULL)
        return base_fail(error, BASE_EUNSUPPORTED, "%s: unknown machine (ELF number %u)",
                         elf_image_name(image), elf_image_machine(image));
    memset(bare, 0, count * sizeof *bare);
    if (count == 0 || search_image(&search, image))
        return BASE_OK;
    return base_fail(error, BASE_ENOMEM, "%s: out of memory for its unwind rows", elf_image_name(image));
}
