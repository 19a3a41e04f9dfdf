/* code_survey_make.c - puts the passes of code_scan.h together and judges each site when all of them are
 * done. */
#include "code_survey.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "code_scan.h"

#define SPAN_MAX (UINT64_C(1) << 30) /* of text: hostile files put segments anywhere */

/* --- making space --- */

static int find_span(struct code_survey *survey, const struct elf_image *image, struct base_error *error)
{
    const struct code_text *text = &survey->text;
    if (text->count == 0)
        return BASE_OK;
    const struct code_piece *last = &text->pieces[text->count - 1];
    survey->map_base = text->pieces[0].address & ~UINT64_C(63);
    survey->map_end = last->address + last->size;
    if (survey->map_end - survey->map_base > SPAN_MAX)
        return base_fail(error, BASE_EUNSUPPORTED, "%s: its code is spread over more than 1 GiB",
                         elf_image_name(image));
    return BASE_OK;
}

static bool make_maps(struct code_survey *survey)
{
    size_t words = (size_t)(survey->map_end - survey->map_base) / 64 + 1;
    for (unsigned i = 0; i < CODE_MAPS; i++) {
        survey->maps[i] = calloc(words, sizeof *survey->maps[i]);
        if (survey->maps[i] == NULL)
            return false;
    }
    return true;
}

static bool make_index(struct code_scan *scan)
{
    const struct code_survey *survey = scan->survey;
    size_t blocks = (size_t)((survey->map_end - survey->map_base) >> 8) + 1, at = 0;
    scan->index = calloc(blocks, sizeof *scan->index);
    scan->labels = calloc(survey->functions->count + 1, sizeof *scan->labels);
    if (scan->index == NULL || scan->labels == NULL)
        return false;
    for (size_t block = 0; block < blocks; block++) {
        while (at < survey->functions->count &&
               survey->functions->items[at].end <= survey->map_base + ((uint64_t)block << 8))
            at++;
        scan->index[block] = (uint32_t)at;
    }
    return true;
}

static void find_linkage(struct code_scan *scan)
{
    struct elf_section section;
    for (size_t i = 0; i < elf_image_section_count(scan->image); i++) {
        if (scan->linkage_count == CODE_LINKAGE_MAX || !elf_image_section_header(scan->image, i, &section))
            continue;
        bool linkage = strcmp(section.name, ".plt") == 0 || strncmp(section.name, ".plt.", 5) == 0 ||
                       strcmp(section.name, ".iplt") == 0;
        if (linkage && section.address + section.memory_size > section.address)
            scan->linkage[scan->linkage_count++] =
                (struct code_bound){.start = section.address, .end = section.address + section.memory_size};
    }
}

/* --- the facts of sites --- */

static bool is_thunk(const char *name)
{
    static const char *const beginnings[] = {"__x86_indirect_thunk",      "__x86_return_thunk",
                                             "__x86_indirect_call_thunk", "__x86_indirect_jump_thunk",
                                             "__llvm_retpoline_",         "__llvm_external_retpoline_"};
    for (size_t i = 0; name && i < sizeof beginnings / sizeof *beginnings; i++)
        if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return false;
}

static bool is_profiler_slot(const struct code_scan *scan, uint64_t slot)
{
    for (size_t i = 0; i < scan->profiler_count; i++)
        if (scan->profilers[i] == slot)
            return true;
    return false;
}

/* The entry of `function` at `address`, or NULL. */
static const struct code_entry *entry_at(const struct code_functions *functions,
                                         const struct code_function *function, uint64_t address)
{
    if (function->entry_count == 0)
        return NULL;
    const struct code_entry *first = &functions->entries[function->first_entry];
    if (first->address == address)
        return first;
    uint32_t found = function->entry_count > 1 ? code_functions_entry(functions, address) : CODE_NONE;
    return found == CODE_NONE ? NULL : &functions->entries[found];
}

/* Where in the function the target lies. */
static unsigned facts_of_place(const struct code_survey *survey, const struct code_site *site)
{
    const struct code_function *function = &survey->functions->items[site->target_function];
    const struct code_entry *entry = entry_at(survey->functions, function, site->target);
    unsigned facts = 0;
    if (entry || site->target == function->start)
        facts |= CODE_SITE_ENTRY;
    else if (site->target_function != site->function)
        facts |= CODE_SITE_INSIDE;
    if (entry ? entry->fragment : function->fragment)
        facts |= CODE_SITE_FRAGMENT;
    else if (entry && (function->origin & CODE_FROM_SYMBOL))
        facts |= CODE_SITE_PROVEN;
    if (code_scan_is_profiler(function->name) && entry)
        facts |= CODE_SITE_MCOUNT;
    if (entry && is_thunk(function->name))
        facts |= CODE_SITE_THUNK;
    return facts;
}

static unsigned facts_of_linkage(const struct code_scan *scan, const struct code_site *site)
{
    uint64_t slot;
    bool known = scan->linkage_count > 0;
    if (known ? !code_scan_in_linkage(scan, site->target) : site->target_function != CODE_NONE)
        return 0;
    if (!code_survey_slot(scan->survey, site->target, &slot))
        return 0;
    return CODE_SITE_PLT | CODE_SITE_PROVEN | (is_profiler_slot(scan, slot) ? CODE_SITE_MCOUNT : 0u);
}

static void judge_site(const struct code_scan *scan, struct code_site *site)
{
    struct code_survey *survey = scan->survey;
    unsigned facts = 0;
    if (site->operand == CODE_OPERAND_RIP)
        facts |= is_profiler_slot(scan, site->target) ? CODE_SITE_MCOUNT : 0;
    if (site->operand == CODE_OPERAND_NONE) {
        site->target_function = code_scan_find(scan, site->target);
        facts |= site->target_function == CODE_NONE ? CODE_SITE_NOWHERE : facts_of_place(survey, site);
        facts |= facts_of_linkage(scan, site);
        if (code_survey_marked(survey, CODE_MAP_TAKEN, site->target) ||
            code_survey_marked(survey, CODE_MAP_CALL, site->target))
            facts |= CODE_SITE_PROVEN;
    }
    site->facts |= (uint16_t)facts;
}

/* A compiler may leave a switch in the hot half of a function and its table's address in the cold one: where
 * one is not resolved, neither is what it exchanges jumps with, except for functions of their own (tail
 * calls). */
static void spread_unresolved(const struct code_scan *scan)
{
    struct code_survey *survey = scan->survey;
    uint32_t *doubtful = scan->labels; /* no longer needed */
    for (size_t i = 0; i < survey->functions->count; i++)
        doubtful[i] = (survey->items[i].facts & CODE_FACT_UNRESOLVED) != 0;
    for (size_t i = 0; i < survey->site_count; i++) {
        const struct code_site *site = &survey->sites[i];
        unsigned call = site->facts & (CODE_SITE_ENTRY | CODE_SITE_PROVEN | CODE_SITE_FRAGMENT);
        if (site->flow == CODE_CALL || site->target_function == CODE_NONE ||
            call == (CODE_SITE_ENTRY | CODE_SITE_PROVEN))
            continue;
        if (doubtful[site->function] || doubtful[site->target_function]) {
            survey->items[site->function].facts |= CODE_FACT_UNRESOLVED;
            survey->items[site->target_function].facts |= CODE_FACT_UNRESOLVED;
        }
    }
}

/* Instrumented functions hand their return address on, and nobody looks at what is there. */
static void allow_instrumented(struct code_survey *survey, const struct code_site *site)
{
    uint64_t slot = site->target;
    const char *name = NULL;
    if (!(survey->items[site->function].facts & CODE_FACT_READS_RETURN))
        return;
    if (site->operand == CODE_OPERAND_RIP ||
        (site->facts & CODE_SITE_PLT && code_survey_slot(survey, slot, &slot)))
        name = code_survey_slot_name(survey, slot);
    else if (site->target_function != CODE_NONE)
        name = survey->functions->items[site->target_function].name;
    if (code_return_is_passed(name))
        survey->items[site->function].facts &= (uint16_t)~CODE_FACT_READS_RETURN;
}

static void judge_sites(const struct code_scan *scan)
{
    struct code_survey *survey = scan->survey;
    for (size_t i = 0; i < survey->site_count; i++) {
        judge_site(scan, &survey->sites[i]);
        allow_instrumented(survey, &survey->sites[i]);
    }
    spread_unresolved(scan);
    for (size_t i = 0; i < survey->functions->count; i++)
        if (code_survey_marked(survey, CODE_MAP_CALL, survey->functions->items[i].start))
            survey->items[i].facts |= CODE_FACT_CALLED;
}

/* --- all of it --- */

static bool run_passes(struct code_scan *scan, const struct code_survey_options *options)
{
    find_linkage(scan);
    if (!make_maps(scan->survey) || !make_index(scan))
        return false;
    code_site_all(scan);
    if (!scan->failed)
        code_taken_all(scan, options);
    if (scan->failed)
        return false;
    code_table_all(scan);
    code_landing_all(scan);
    judge_sites(scan);
    return true;
}

static int survey_text(struct code_survey *survey, const struct elf_image *image,
                       const struct code_survey_options *options, struct base_error *error)
{
    struct code_scan scan = {.image = image, .survey = survey};
    survey->items = calloc(survey->functions->count + 1, sizeof *survey->items);
    bool fine = survey->items != NULL && run_passes(&scan, options);
    free(scan.candidates);
    free(scan.index);
    free(scan.labels);
    return fine
               ? BASE_OK
               : base_fail(error, BASE_ENOMEM, "%s: out of memory for its call sites", elf_image_name(image));
}

int code_survey_make(const struct elf_image *image, const struct code_functions *functions,
                     const struct code_survey_options *options, struct code_survey **survey,
                     struct base_error *error)
{
    *survey = NULL;
    if (elf_image_machine(image) != EM_X86_64)
        return base_fail(error, BASE_EUNSUPPORTED, "%s: only x86-64 code is understood",
                         elf_image_name(image));
    struct code_survey *made = calloc(1, sizeof *made);
    if (made == NULL)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    made->functions = functions;
    made->position_independent = elf_image_type(image) == ET_DYN;
    int code = code_text_of_image(image, &made->text, error);
    if (code == BASE_OK)
        code = find_span(made, image, error);
    if (code == BASE_OK)
        code = survey_text(made, image, options, error);
    if (code < 0)
        code_survey_free(made);
    else
        *survey = made;
    return code;
}
