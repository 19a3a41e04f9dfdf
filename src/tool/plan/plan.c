/* From an image to its plan: facts of functions, hooks, sites, coverage, and the flat block. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base_map.h"
#include "base_search.h"
#include "base_text.h"
#include "plan_draft.h"

#define ENTRY_OFFSET 24 /* of e_entry in an ELF64 header */

void plan_draft_refuse(struct plan_draft *draft, enum stub_reason reason)
{
    draft->header.reasons[reason]++;
}

/* --- facts --- */

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
    if (function->fragment)
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

/* --- coverage --- */

static void settle_coverage(struct plan_draft *draft)
{
    for (uint32_t i = 0; i < draft->functions->count; i++) {
        struct plan_draft_function *of = &draft->of[i];
        if (!of->entered || (of->facts & (PLAN_FUNCTION_FRAGMENT | PLAN_FUNCTION_LINKAGE)) != 0)
            continue;
        of->facts |= PLAN_FUNCTION_CALLABLE;
        draft->header.callable++;
        if (of->reason != 0)
            continue;
        of->facts |= PLAN_FUNCTION_COVERED;
        draft->header.covered++;
    }
}

/* --- the flat block --- */

static void add_functions(const struct plan_draft *draft, struct base_text *block, struct base_text *strings)
{
    base_text_add_bytes(strings, "", 1);
    for (uint32_t i = 0; i < draft->functions->count; i++) {
        const struct code_function *function = &draft->functions->items[i];
        const struct plan_draft_function *of = &draft->of[i];
        struct plan_function flat = {.start = function->start,
                                     .size = (uint32_t)(function->end - function->start),
                                     .hook = of->hook,
                                     .facts = of->facts,
                                     .reason = of->reason};
        if (function->name != NULL) {
            flat.name = (uint32_t)strings->length;
            base_text_add_bytes(strings, function->name, strlen(function->name) + 1);
        }
        base_text_add_bytes(block, &flat, sizeof flat);
    }
}

static bool flatten(struct plan_draft *draft, struct base_text *block)
{
    struct base_text strings = {0};
    struct plan_header header = draft->header;
    header.magic = PLAN_MAGIC;
    header.version = PLAN_VERSION;
    header.machine = elf_image_machine(draft->image);
    header.function_count = (uint32_t)draft->functions->count;
    header.site_count = (uint32_t)draft->site_count;
    header.hook_count = (uint32_t)draft->hook_count;
    header.gs_users = draft->survey->gs_users;
    elf_image_text_check(draft->image, &header.text_size, &header.text_hash);
    base_text_add_bytes(block, &header, sizeof header);
    add_functions(draft, block, &strings);
    base_text_add_bytes(block, draft->sites, draft->site_count * sizeof *draft->sites);
    base_text_add_bytes(block, draft->hooks, draft->hook_count * sizeof *draft->hooks);
    base_text_add_bytes(block, strings.data, strings.length);
    bool failed = strings.failed || block->failed || strings.length > UINT32_MAX;
    if (!failed) {
        header.string_bytes = (uint32_t)strings.length;
        header.byte_count = block->length;
        header.content = base_hash_bytes(block->data + sizeof header, block->length - sizeof header);
        memcpy(block->data, &header, sizeof header);
    }
    base_text_free(&strings);
    return !failed;
}

/* --- making; the numbers are those of plan_draft.h --- */

/* A rehearsal: only `unseen` and what is known of flags stay. */
static int learn_unseen(struct plan_draft *draft, struct base_error *error)
{
    struct plan_header counts = draft->header;
    int code = plan_sites_plan(draft, error);
    draft->header = counts;
    for (uint32_t i = 0; i < draft->functions->count; i++) {
        draft->of[i].reason = 0;
        draft->of[i].padding_used = 0;
    }
    return code;
}

static int make(struct plan_draft *draft, bool no_hooks, struct plan *plan, struct base_error *error)
{
    struct base_text block = {0};
    int code = learn_unseen(draft, error); /* 2. */
    if (code == BASE_OK && !no_hooks)
        code = plan_hooks_plan(draft, error); /* 3. */
    if (code == BASE_OK)
        code = plan_sites_plan(draft, error); /* 4. */
    if (code != BASE_OK)
        return code;
    settle_coverage(draft); /* 5. */
    if (!flatten(draft, &block)) {
        base_text_free(&block);
        return base_fail(error, BASE_ENOMEM, "no memory for the plan of a program's calls");
    }
    size_t size = block.length;
    void *bytes = base_text_detach(&block);
    if (!plan_open(plan, bytes, size)) {
        free(bytes);
        return base_fail(error, BASE_EFORMAT, "%s: its plan makes no sense", elf_image_name(draft->image));
    }
    plan->blob = bytes;
    return BASE_OK;
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
    free(draft->sites);
    free(draft->hooks);
    free(draft->ranges);
    if (basis->survey != NULL)
        code_survey_free(basis->survey);
    code_functions_free(&basis->functions);
    code_bounds_free(&basis->bounds);
    *basis = (struct plan_draft_basis){0};
}

int plan_make(const struct elf_image *image, const struct plan_options *options, struct plan *plan,
              struct base_error *error)
{
    struct plan_draft draft;
    struct plan_draft_basis basis = {0};
    struct code_survey_options given = {0};
    *plan = (struct plan){0};
    if (options != NULL)
        given = (struct code_survey_options){options->taken, options->taken_count};
    int code = plan_draft_begin(&draft, &basis, image, &given, error); /* 1. */
    if (code == BASE_OK)
        code = make(&draft, options != NULL && options->no_hooks, plan, error);
    plan_draft_end(&draft, &basis);
    return code;
}

void plan_free(struct plan *plan)
{
    if (plan->mapped)
        munmap(plan->blob, plan->size);
    else
        free(plan->blob);
    *plan = (struct plan){0};
}
