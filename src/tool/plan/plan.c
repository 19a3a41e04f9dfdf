/* From an image to its plan: hooks, sites, coverage, and the flat block. Functions and their facts are made
 * by plan_draft.c. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base_map.h"
#include "base_text.h"
#include "plan_draft.h"

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

static void flatten_functions(const struct plan_draft *draft, struct base_text *block,
                              struct base_text *strings)
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

static bool flatten_plan(struct plan_draft *draft, struct base_text *block)
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
    flatten_functions(draft, block, &strings);
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

/* Sites for the first time: only `unseen` and what is known of flags stay. */
static int plan_unseen(struct plan_draft *draft, struct base_error *error)
{
    struct plan_header counts = draft->header;
    int code = plan_sites_plan(draft, error);
    draft->header = counts;
    for (uint32_t i = 0; i < draft->functions->count; i++)
        draft->of[i].reason = 0;
    plan_draft_vacate(draft);
    return code;
}

static int make_plan(struct plan_draft *draft, bool no_hooks, struct plan *plan, struct base_error *error)
{
    struct base_text block = {0};
    int code = plan_unseen(draft, error); /* 2. */
    if (code == BASE_OK && !no_hooks)
        code = plan_hooks_plan(draft, error); /* 3. */
    if (code == BASE_OK)
        code = plan_sites_plan(draft, error); /* 4. */
    if (code != BASE_OK)
        return code;
    settle_coverage(draft); /* 5. */
    if (!flatten_plan(draft, &block)) {
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
        code = make_plan(&draft, options != NULL && options->no_hooks, plan, error);
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
