/* From call-frame information to compiled rows.
 *
 * Call-frame information is a program for each function, made to be run for one address at a time by whoever
 * throws an exception; a profiler asks a million times a second. So the programs are run once, here, and what
 * they say is written down flat (wire_rows.h). The steps:
 *   1. Read every FDE of .eh_frame, run its program, keep its rows and its span of code. A broken FDE is
 *      counted and left out; its code stays uncovered.
 *   2. Order the spans. Where FDEs overlap (linkers have merged twice what they should have dropped), the one
 *      that starts first keeps the place.
 *   3. Signal trampolines: the code of an FDE marked 'S', or uncovered code, that holds the very bytes of
 *      rt_sigreturn. They go on top of everything.
 *   4. Under .eh_frame goes .debug_frame, the image's own and the separate file's: assembly is sometimes
 *      described only there. Under that the PLT and the entry point, where nobody described them.
 *   5. Write the flat form.
 *
 * Everything is proportional to the sections' sizes; nothing in a hostile file makes it otherwise: programs
 * do not overlap (cfi_entry.h), CIE programs run once, rows are at most one for each instruction, pages are
 * bounded by CFI_BLOB_SPAN_MAX. */
#include "cfi.h"

#include <stdlib.h>

#include "cfi_blob.h"
#include "cfi_synthetic.h"

/* Uncovered code shorter than this is padding between functions: not searched for trampolines. */
#define GAP_WORTH_SEARCHING 16

struct compilation {
    struct cfi_material material;
    struct cfi_span_list top; /* signal trampolines, then under them everything else */
    struct cfi_statistics *statistics;
};

static bool add_function(struct compilation *compilation, const struct cfi_entries *entries,
                         struct cfi_fde *fde, struct cfi_span_list *spans)
{
    struct cfi_material *material = &compilation->material;
    const struct cfi_cie *cie = &entries->cies[fde->cie];
    uint64_t at;
    if (!cfi_find_in_code(&material->code, fde->start, &fde->end)) {
        /* A linker that dropped a function leaves its .debug_frame behind, at address 0 or so. */
        compilation->statistics->broken_fdes += entries->section.eh;
        return true;
    }
    if (cie->signal && cfi_find_sigreturn(material->image, material->arch, fde->start, fde->end, &at))
        return cfi_synthetic_trampoline(material, fde->start, fde->end, &compilation->top);
    struct cfi_span span = {fde->start, fde->end, fde->start, (uint32_t)material->rows.count, 0};
    switch (cfi_program_run(material->arch, &entries->section, cie, fde, &material->rules, &material->rows)) {
    case CFI_PROGRAM_DONE:
        span.row_count = (uint32_t)material->rows.count - span.first_row;
        return cfi_spans_add(spans, &span);
    case CFI_PROGRAM_BROKEN:
        compilation->statistics->broken_fdes++;
        return true;
    default:
        return false;
    }
}

static bool add_section(struct compilation *compilation, const struct cfi_section *section,
                        struct cfi_span_list *spans)
{
    struct cfi_entries entries;
    struct cfi_fde fde;
    if (!cfi_entries_start(&entries, compilation->material.arch, section))
        return false;
    bool fine = true;
    for (enum cfi_entry_kind kind; fine && (kind = cfi_entries_next(&entries, &fde)) != CFI_ENTRY_END;) {
        compilation->statistics->fdes++;
        if (kind == CFI_ENTRY_BROKEN)
            compilation->statistics->broken_fdes++;
        else
            fine = add_function(compilation, &entries, &fde, spans);
    }
    cfi_entries_free(&entries);
    return fine && cfi_spans_order(spans);
}

/* Looks through the code that .eh_frame leaves uncovered. */
static bool add_trampolines(struct compilation *compilation, const struct cfi_span_list *covered)
{
    struct cfi_material *material = &compilation->material;
    size_t hint = 0;
    for (size_t i = 0; i < material->code.count; i++) {
        uint64_t start = material->code.items[i].start, end = material->code.items[i].end, stop, at;
        for (; cfi_spans_gap(covered, &hint, &start, end, &stop); start = stop) {
            while (stop - start >= GAP_WORTH_SEARCHING &&
                   cfi_find_sigreturn(material->image, material->arch, start, stop, &at)) {
                start = at + material->arch->sigreturn_size;
                if (!cfi_synthetic_trampoline(material, at, start, &compilation->top))
                    return false;
            }
        }
    }
    return cfi_spans_order(&compilation->top);
}

/* Puts `spans` under what is there already. */
static bool put_under(struct compilation *compilation, struct cfi_span_list *spans)
{
    return cfi_spans_order(&compilation->top) && cfi_spans_order(spans) &&
           cfi_spans_put_under(&compilation->top, spans);
}

static bool add_debug_frame(struct compilation *compilation, const struct elf_image *image)
{
    struct cfi_section section;
    struct cfi_span_list spans = {0};
    if (image == NULL || !cfi_find_debug_frame(image, &section))
        return true;
    bool fine = add_section(compilation, &section, &spans) && put_under(compilation, &spans);
    cfi_spans_free(&spans);
    return fine;
}

static bool add_synthetic(struct compilation *compilation,
                          bool (*synthetic)(struct cfi_material *, struct cfi_span_list *))
{
    struct cfi_span_list spans = {0};
    bool fine = synthetic(&compilation->material, &spans) && put_under(compilation, &spans);
    cfi_spans_free(&spans);
    return fine;
}

/* Code behind a described entry point is somebody else's. */
static bool add_entry(struct compilation *compilation)
{
    uint64_t entry = cfi_find_entry(compilation->material.image), start = entry, stop;
    size_t hint = 0;
    bool covered = !cfi_spans_gap(&compilation->top, &hint, &start, entry + 1, &stop);
    return covered || add_synthetic(compilation, cfi_synthetic_entry);
}

/* Steps 1 to 4; the spans end up in `top`. */
static bool gather_spans(struct compilation *compilation, const struct elf_image *debug)
{
    struct cfi_section section;
    struct cfi_span_list spans = {0};
    const struct elf_image *image = compilation->material.image;
    bool fine = cfi_find_code(image, &compilation->material.code);
    if (fine && cfi_find_eh_frame(image, &section))
        fine = add_section(compilation, &section, &spans);
    fine = fine && add_trampolines(compilation, &spans) && put_under(compilation, &spans) &&
           add_debug_frame(compilation, image) && add_debug_frame(compilation, debug) &&
           add_synthetic(compilation, cfi_synthetic_plt) &&
           add_synthetic(compilation, cfi_synthetic_start_up) && add_entry(compilation);
    cfi_spans_free(&spans);
    return fine;
}

static void count_rows(const struct wire_rows_header *header, struct cfi_statistics *statistics)
{
    const struct wire_rule *rules = (const void *)(header + 1);
    const uint32_t *pages = (const void *)(rules + header->rule_count);
    const struct wire_row *rows = (const void *)(pages + header->page_count + 1);
    statistics->rows = header->row_count;
    statistics->rules = header->rule_count;
    for (uint32_t i = 0; i < header->row_count; i++)
        statistics->odd_rules += rules[rows[i].rule].cfa_kind == WIRE_CFA_ODD;
}

int cfi_compile(const struct elf_image *image, const struct elf_image *debug, void **blob, size_t *size,
                struct cfi_statistics *statistics, struct base_error *error)
{
    struct cfi_statistics own;
    struct compilation compilation = {.material = {.image = image}};
    struct cfi_material *material = &compilation.material;
    compilation.statistics = statistics != NULL ? statistics : &own;
    *compilation.statistics = (struct cfi_statistics){0};
    *blob = NULL;
    material->arch = arch_of_machine(elf_image_machine(image));
    if (material->arch == NULL)
        return base_fail(error, BASE_EUNSUPPORTED, "%s: unknown machine (ELF number %u)",
                         elf_image_name(image), elf_image_machine(image));
    if (cfi_rules_create(&material->rules) && gather_spans(&compilation, debug))
        *blob =
            cfi_blob_make(&compilation.top, &material->rows, &material->rules, material->arch->machine, size);
    if (*blob != NULL) {
        struct wire_rows_header *header = *blob;
        elf_image_text_check(image, &header->text_size, &header->text_hash);
        count_rows(header, compilation.statistics);
    }
    cfi_rules_free(&material->rules);
    free(material->rows.items);
    cfi_spans_free(&material->code);
    cfi_spans_free(&compilation.top);
    return *blob != NULL ? BASE_OK
                         : base_fail(error, BASE_ENOMEM, "%s: out of memory for its unwind rows",
                                     elf_image_name(image));
}
