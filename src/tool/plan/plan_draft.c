/* A plan while it is being made: the facts of functions, what is refused, and the padding between functions,
 * which hooks and two-byte jumps share. */
#include "plan_draft.h"

#include <stdlib.h>
#include <string.h>

#include "base_search.h"
#include "plan_pieces.h"

void plan_draft_refuse(struct plan_draft *draft, enum stub_reason reason)
{
    draft->header.reasons[reason]++;
}

#define ENTRY_OFFSET 24 /* of e_entry in an ELF64 header */

static bool is_padding(const struct code_text *text, uint64_t start, uint64_t end)
{
    while (start < end) {
        struct code_instruction in;
        size_t available = 0;
        const uint8_t *bytes = code_text_at(text, start, &available);
        if (available > end - start)
            available = end - start;
        if (bytes == NULL || !code_instruction_decode(bytes, available, start, &in) ||
            (in.marks & CODE_PADDING) == 0)
            return false;
        start += in.length;
    }
    return true;
}

size_t plan_draft_padding(const struct plan_draft *draft, uint32_t index)
{
    const struct code_functions *functions = draft->functions;
    const struct code_survey_function *found = &draft->survey->items[index];
    uint64_t end = functions->items[index].end;
    if (index + 1 >= functions->count || found->verdict != CODE_VERDICT_FINE ||
        (found->facts & CODE_FACT_FALLS_THROUGH) != 0)
        return 0;
    uint64_t next = functions->items[index + 1].start;
    if (next <= end || next - end > 64 || code_survey_entered(draft->survey, end - 1, next) ||
        !is_padding(&draft->survey->text, end, next))
        return 0;
    return next - end;
}

static bool has_cfi(const struct plan_draft *draft, uint64_t address)
{
    size_t at = base_search_up_to(draft->ranges, draft->range_count, end, address);
    return at < draft->range_count && draft->ranges[at].start <= address;
}

static uint64_t entry_point(const struct elf_image *image)
{
    size_t size;
    uint64_t entry = 0;
    const uint8_t *bytes = elf_image_bytes(image, &size);
    if (bytes != NULL && size >= ENTRY_OFFSET + sizeof entry)
        memcpy(&entry, bytes + ENTRY_OFFSET, sizeof entry);
    return entry;
}

static void note_function(struct plan_draft *draft, uint32_t index, uint64_t entry)
{
    const struct code_function *function = &draft->functions->items[index];
    const struct code_survey_function *found = &draft->survey->items[index];
    struct plan_draft_function *of = &draft->of[index];
    bool loader = (found->taken & CODE_TAKEN_LOADER) != 0 || function->start == entry;
    of->hook = PLAN_NONE;
    of->has_cfi = has_cfi(draft, function->start);
    of->entered = found->taken != 0;
    if (of->piece == PLAN_PIECE_HALF)
        of->facts |= PLAN_FUNCTION_FRAGMENT;
    if ((found->facts & CODE_FACT_LINKAGE) != 0)
        of->facts |= PLAN_FUNCTION_LINKAGE;
    else if (found->verdict != CODE_VERDICT_FINE && found->verdict != CODE_VERDICT_EMPTY)
        plan_draft_refuse(draft, STUB_REASON_UNDECODABLE);
    else if (!of->has_cfi && found->site_count > 0)
        plan_draft_refuse(draft, STUB_REASON_NO_CFI);
    if (found->taken != 0 && !loader)
        of->facts |= PLAN_FUNCTION_TAKEN;
}

static int gather_functions(struct plan_draft *draft, struct code_bounds *bounds,
                            struct code_functions *functions, struct base_error *error)
{
    int code = code_bounds_add_symbols(bounds, draft->image, error);
    if (code == BASE_OK)
        code = cfi_ranges(draft->image, &draft->ranges, &draft->range_count, error);
    for (size_t i = 0; code == BASE_OK && i < draft->range_count; i++)
        code = code_bounds_add(bounds,
                               &(struct code_bound){.start = draft->ranges[i].start,
                                                    .end = draft->ranges[i].end,
                                                    .origin = CODE_FROM_FDE},
                               error);
    return code == BASE_OK ? code_functions_make(bounds, draft->image, functions, error) : code;
}

static int note_functions(struct plan_draft *draft, struct base_error *error)
{
    uint64_t entry = entry_point(draft->image);
    struct elf_section section;
    draft->of = calloc(draft->functions->count + 1, sizeof *draft->of);
    if (draft->of == NULL)
        return base_fail(error, BASE_ENOMEM, "no memory for the plan of a program's calls");
    draft->handles_faults = elf_image_section(draft->image, ".gopclntab", &section) ||
                            elf_image_section(draft->image, ".data.rel.ro.gopclntab", &section);
    int code = plan_pieces_judge(draft, error);
    if (code != BASE_OK)
        return code;
    for (uint32_t i = 0; i < draft->functions->count; i++)
        note_function(draft, i, entry);
    draft->header.reasons[STUB_REASON_ENTRY_UNKNOWN] = draft->survey->taken_nowhere;
    return BASE_OK;
}

int plan_draft_begin(struct plan_draft *draft, struct plan_draft_basis *basis, const struct elf_image *image,
                     const struct code_survey_options *options, struct base_error *error)
{
    *draft = (struct plan_draft){.image = image};
    int code = gather_functions(draft, &basis->bounds, &basis->functions, error);
    if (code == BASE_OK)
        code = code_survey_make(image, &basis->functions, options, &basis->survey, error);
    draft->functions = &basis->functions;
    draft->survey = basis->survey;
    return code == BASE_OK ? note_functions(draft, error) : code;
}

void plan_draft_end(struct plan_draft *draft, struct plan_draft_basis *basis)
{
    free(draft->of);
    free(draft->within);
    free(draft->sites);
    free(draft->hooks);
    free(draft->ranges);
    if (basis->survey != NULL)
        code_survey_free(basis->survey);
    code_functions_free(&basis->functions);
    code_bounds_free(&basis->bounds);
    *basis = (struct plan_draft_basis){0};
}

uint64_t plan_draft_island(struct plan_draft *draft, uint32_t index, uint64_t next, uint32_t before)
{
    uint64_t low = next - 128, high = next + 127;
    while (index > 0 && draft->functions->items[index - 1].end + 64 >= low)
        index--;
    for (; index < before && draft->functions->items[index].end <= high; index++) {
        struct plan_draft_function *of = &draft->of[index];
        uint64_t end = draft->functions->items[index].end, at = end + of->padding_used;
        if (at < low)
            at = low;
        if (at > high || at + PLAN_DRAFT_ISLAND > end + plan_draft_padding(draft, index))
            continue;
        of->padding_used = (uint8_t)(at + PLAN_DRAFT_ISLAND - end);
        return at;
    }
    return 0;
}
