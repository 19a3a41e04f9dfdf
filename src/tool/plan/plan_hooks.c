/* Which functions get an entry hook, and how many of their first bytes move. */
#include <string.h>

#include "base_array.h"
#include "plan_draft.h"
#include "stub_x86_64_entry.h"

#define JUMP_SIZE STUB_X86_64_ENTRY_JUMP

/* A function whose address is taken, or that is entered by a site that stays as it is - not because of its
 * flags, which a hook would lose as well. */
static bool needs_hook(const struct plan_draft *draft, uint32_t index)
{
    const struct plan_draft_function *of = &draft->of[index];
    return ((of->facts & PLAN_FUNCTION_TAKEN) != 0 || (of->unseen && of->flags != PLAN_FLAGS_LIVE)) &&
           of->piece == PLAN_PIECE_FUNCTION && (of->facts & PLAN_FUNCTION_LINKAGE) == 0;
}

/* Another name or another function's code among the bytes behind the start. */
static bool has_entry_inside(const struct plan_draft *draft, uint64_t start, uint64_t end)
{
    for (uint64_t at = start + 1; at < end; at++)
        if (code_functions_entry(draft->functions, at) != CODE_NONE)
            return true;
    return false;
}

/* The bytes that the hook moves; 0 and the reason. `bytes` holds `size` of the function and its padding. */
static unsigned movable_bytes(const struct plan_draft *draft, uint32_t index, const uint8_t *bytes,
                              size_t size, enum stub_reason *reason)
{
    const struct code_function *function = &draft->functions->items[index];
    uint64_t start = function->start;
    unsigned length = stub_x86_64_entry_length(bytes, size, JUMP_SIZE, reason);
    uint64_t end = start + (length > JUMP_SIZE ? length : JUMP_SIZE);
    if (has_entry_inside(draft, start, start + JUMP_SIZE) && start + JUMP_SIZE <= function->end)
        *reason = STUB_REASON_ENTRY_SHARED;
    else if (code_survey_entered(draft->survey, start, end < function->end ? end : function->end))
        *reason = STUB_REASON_ENTRY_BRANCH;
    return *reason == STUB_FINE ? length : 0;
}

/* Is the function's end known well enough? Hand-written assembly is not always what its symbol says. */
static bool is_bounded(const struct plan_draft *draft, uint32_t index, bool whole)
{
    return draft->of[index].has_cfi ||
           (whole && (draft->functions->items[index].origin & CODE_FROM_SYMBOL) != 0);
}

enum stub_reason plan_hooks_one(const struct plan_draft *draft, uint32_t index, bool whole,
                                struct plan_hook *hook)
{
    const struct code_function *function = &draft->functions->items[index];
    const struct code_survey_function *found = &draft->survey->items[index];
    size_t available = 0, size = function->end - function->start;
    const uint8_t *bytes = code_text_at(&draft->survey->text, function->start, &available);
    enum stub_reason reason = STUB_FINE;
    *hook = (struct plan_hook){.address = function->start, .function = index, .kind = STUB_ENTRY};
    if (found->verdict != CODE_VERDICT_FINE || !is_bounded(draft, index, whole) || bytes == NULL)
        return STUB_REASON_ENTRY_NOT_DECODED;
    if (draft->handles_faults)
        return STUB_REASON_FAULTING;
    if ((found->facts & CODE_FACT_LOOPS_TO_START) != 0)
        return STUB_REASON_ENTRY_BRANCH;
    if ((found->facts & CODE_FACT_ENDBR) != 0 && size > 4 && !whole) {
        hook->kind = STUB_ENTRY_ENDBR;
        hook->length = 4;
        memcpy(hook->old, bytes, 5);
        return STUB_FINE;
    }
    size += size < JUMP_SIZE ? plan_draft_padding(draft, index) : 0;
    hook->length = (uint8_t)movable_bytes(draft, index, bytes, size < available ? size : available, &reason);
    memcpy(hook->old, bytes, hook->length);
    return reason;
}

/* Where five bytes cannot change: two, and an island in padding before or right behind the function. That
 * behind later ones may still be theirs. */
static enum stub_reason try_short_hook(struct plan_draft *draft, uint32_t index, enum stub_reason reason,
                                       struct plan_hook *hook)
{
    const struct code_function *function = &draft->functions->items[index];
    size_t available = 0, size = function->end - function->start;
    const uint8_t *bytes = code_text_at(&draft->survey->text, function->start, &available), *padding;
    enum stub_reason other;
    if ((reason != STUB_REASON_ENTRY_SHORT && reason != STUB_REASON_ENTRY_BRANCH) ||
        (draft->survey->items[index].facts & CODE_FACT_LOOPS_TO_START) != 0)
        return reason;
    unsigned length =
        stub_x86_64_entry_length(bytes, size < available ? size : available, STUB_X86_64_ENTRY_SHORT, &other);
    uint64_t end = function->start + length, next = function->start + STUB_X86_64_ENTRY_SHORT;
    if (length == 0 || has_entry_inside(draft, function->start, end) ||
        code_survey_entered(draft->survey, function->start, end))
        return reason;
    uint64_t island = plan_draft_island(draft, index, next, index + 1);
    padding = island != 0 ? code_text_at(&draft->survey->text, island, &available) : NULL;
    if (padding == NULL)
        return reason;
    hook->kind = STUB_ENTRY_SHORT;
    hook->length = (uint8_t)length;
    hook->island = (int8_t)(island - next);
    memset(hook->old, 0, sizeof hook->old);
    memcpy(hook->old, bytes, length);
    memcpy(hook->island_old, padding, sizeof hook->island_old);
    return STUB_FINE;
}

static void add_hook(struct plan_draft *draft, uint32_t index, const struct plan_hook *hook)
{
    const struct code_function *function = &draft->functions->items[index];
    struct plan_draft_function *of = &draft->of[index];
    uint64_t taken = hook->address + hook->length;
    of->hook = (uint32_t)draft->hook_count;
    of->hook_length = hook->length;
    if ((draft->survey->items[index].taken & ~CODE_TAKEN_LINKAGE) == CODE_TAKEN_EXPORT && !of->unseen)
        of->facts |= PLAN_FUNCTION_OFFERED;
    plan_draft_occupy(draft, function->end, taken);
    draft->hooks[draft->hook_count++] = *hook;
    draft->header.taken += (of->facts & PLAN_FUNCTION_TAKEN) != 0;
    draft->header.hooked += (of->facts & PLAN_FUNCTION_TAKEN) != 0;
}

static void refuse_hook(struct plan_draft *draft, uint32_t index, enum stub_reason reason)
{
    draft->header.taken++;
    draft->of[index].reason = (uint8_t)reason;
    plan_draft_refuse(draft, reason);
}

int plan_hooks_plan(struct plan_draft *draft, struct base_error *error)
{
    for (uint32_t i = 0; i < draft->functions->count; i++) {
        struct plan_hook hook;
        if (!needs_hook(draft, i))
            continue;
        if (!base_array_room(draft->hooks, draft->hook_count, draft->hook_capacity))
            return base_fail(error, BASE_ENOMEM, "no memory for the plan of a program's calls");
        enum stub_reason reason = plan_hooks_one(draft, i, false, &hook);
        reason = try_short_hook(draft, i, reason, &hook);
        if (reason == STUB_FINE)
            add_hook(draft, i, &hook);
        else if ((draft->of[i].facts & PLAN_FUNCTION_TAKEN) != 0)
            refuse_hook(draft, i, reason);
    }
    return BASE_OK;
}
