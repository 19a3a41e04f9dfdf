#include <stdlib.h>

#include "cfi.h"
#include "cfi_find.h"

/* The functions of one section, in order. */
static bool add_section(const struct arch *arch, const struct cfi_span_list *code,
                        const struct cfi_section *section, struct cfi_span_list *spans)
{
    struct cfi_entries entries;
    struct cfi_fde fde;
    if (!cfi_entries_start(&entries, arch, section))
        return false;
    bool fine = true;
    for (enum cfi_entry_kind kind; fine && (kind = cfi_entries_next(&entries, &fde)) != CFI_ENTRY_END;)
        if (kind == CFI_ENTRY_FDE && cfi_find_in_code(code, fde.start, &fde.end))
            fine = cfi_spans_add(spans, &(struct cfi_span){.start = fde.start, .end = fde.end});
    cfi_entries_free(&entries);
    return fine && cfi_spans_order(spans);
}

static bool gather_ranges(const struct elf_image *image, const struct arch *arch, struct cfi_span_list *spans)
{
    struct cfi_section section;
    struct cfi_span_list code = {0}, lower = {0};
    bool fine = cfi_find_code(image, &code);
    if (fine && cfi_find_eh_frame(image, &section))
        fine = add_section(arch, &code, &section, spans);
    if (fine && cfi_find_debug_frame(image, &section))
        fine = add_section(arch, &code, &section, &lower) && cfi_spans_put_under(spans, &lower);
    cfi_spans_free(&code);
    cfi_spans_free(&lower);
    return fine;
}

int cfi_ranges(const struct elf_image *image, struct cfi_range **ranges, size_t *count,
               struct base_error *error)
{
    struct cfi_span_list spans = {0};
    const struct arch *arch = arch_of_machine(elf_image_machine(image));
    *ranges = NULL;
    *count = 0;
    if (arch == NULL)
        return base_fail(error, BASE_EUNSUPPORTED, "%s: unknown machine (ELF number %u)",
                         elf_image_name(image), elf_image_machine(image));
    if (gather_ranges(image, arch, &spans))
        *ranges = malloc((spans.count + 1) * sizeof **ranges);
    for (size_t i = 0; *ranges != NULL && i < spans.count; i++)
        (*ranges)[i] = (struct cfi_range){spans.items[i].start, spans.items[i].end};
    *count = *ranges != NULL ? spans.count : 0;
    cfi_spans_free(&spans);
    return *ranges != NULL
               ? BASE_OK
               : base_fail(error, BASE_ENOMEM, "%s: out of memory for its functions", elf_image_name(image));
}
