/* Which calls and jumps are sites, and how each is rewritten. */
#include <elf.h>
#include <string.h>

#include "base_array.h"
#include "code_flags.h"
#include "patch_draft.h"

#define FORWARDER_MOST 8 /* instructions before its jump */
#define GROUP_MOST     4 /* instructions before a short call that are tried */

/* Is it a way to another function, or no business of ours? Switches, jumps into the middle of a function (the
 * way back from a cold half) and whatever linkage stubs and undecoded functions do are not. */
static bool is_way(const struct patch_draft *draft, const struct code_site *site)
{
    const struct code_survey_function *found = &draft->survey->items[site->function];
    if (found->verdict != CODE_VERDICT_FINE || (found->facts & CODE_FACT_LINKAGE) != 0)
        return false;
    switch ((enum code_flow)site->flow) {
    case CODE_CALL:
    case CODE_CALL_INDIRECT:
        return true;
    case CODE_JUMP:
    case CODE_BRANCH:
        return (site->facts & CODE_SITE_PLT) != 0 || (site->facts & (CODE_SITE_OWN | CODE_SITE_INSIDE)) == 0;
    case CODE_JUMP_INDIRECT:
        return (site->facts & CODE_SITE_TABLE) == 0;
    default:
        return false;
    }
}

/* Does `address` lead straight to an indirect jump, without a flag being read? A forwarder: `mov rax, [rdi];
 * jmp [rax+8]`, or `jmp free@plt`. code_flags_dead cannot follow it, but no compiler carries flags over an
 * indirect jump. */
static bool is_forwarder(const struct code_text *text, uint64_t address)
{
    for (unsigned i = 0; i < FORWARDER_MOST; i++) {
        struct code_instruction in;
        struct code_flags flags;
        size_t available = 0;
        const uint8_t *bytes = code_text_at(text, address, &available);
        if (bytes == NULL || !code_instruction_decode(bytes, available, address, &in))
            return false;
        if (in.flow == CODE_JUMP_INDIRECT)
            return true;
        if (in.flow == CODE_JUMP) {
            address = in.target;
            continue;
        }
        if (in.flow != CODE_STRAIGHT || !code_flags_of(bytes, available, &flags) || flags.read != 0)
            return false;
        address += in.length;
    }
    return false;
}

/* May a stub come before `site`'s target, as far as flags go? */
static bool flags_dead(struct patch_draft *draft, const struct code_site *site)
{
    struct patch_draft_function *of =
        site->target_function != CODE_NONE ? &draft->of[site->target_function] : NULL;
    bool at_start = of != NULL && draft->functions->items[site->target_function].start == site->target;
    if (at_start && of->flags != PATCH_FLAGS_UNKNOWN)
        return of->flags == PATCH_FLAGS_DEAD;
    bool dead = code_flags_dead(&draft->survey->text, site->target, CODE_FLAGS_INC) ||
                is_forwarder(&draft->survey->text, site->target);
    if (at_start)
        of->flags = dead ? PATCH_FLAGS_DEAD : PATCH_FLAGS_LIVE;
    return dead;
}

/* A function that reads its return address may read the call before it, and where that leads. */
static bool reads_return(const struct patch_draft *draft, uint32_t function)
{
    return function != CODE_NONE && draft->survey->items[function].facts & CODE_FACT_READS_RETURN;
}

/* The function of this image that the linkage stub at `address` leads to, or CODE_NONE. */
static uint32_t behind_linkage(const struct patch_draft *draft, uint64_t address)
{
    uint64_t at;
    const struct code_slot *slot =
        code_survey_slot(draft->survey, address, &at) ? code_survey_slot_at(draft->survey, at) : NULL;
    return slot != NULL && slot->function != 0 ? code_functions_find(draft->functions, slot->function)
                                               : CODE_NONE;
}

static enum patch_reason check_direct(struct patch_draft *draft, const struct code_site *site)
{
    bool jump = site->flow != CODE_CALL;
    size_t available;
    /* A last call may well go to the function that lies next. */
    if ((site->facts & CODE_SITE_NEXT) != 0 && !jump && (site->facts & CODE_SITE_ENTRY) == 0)
        return PATCH_REASON_GET_PC;
    if ((site->facts & CODE_SITE_MCOUNT) != 0)
        return PATCH_REASON_PROFILING_HOOK;
    if ((site->facts & CODE_SITE_THUNK) != 0)
        return PATCH_REASON_RETPOLINE;
    if ((site->facts & CODE_SITE_OWN) != 0)
        return PATCH_REASON_OWN_FUNCTION;
    if (!jump && reads_return(draft, (site->facts & CODE_SITE_PLT) != 0 ? behind_linkage(draft, site->target)
                                                                        : site->target_function))
        return PATCH_REASON_READS_RETURN;
    if ((site->facts & CODE_SITE_PLT) != 0)
        return PATCH_FINE; /* a linkage stub reads no flags */
    if ((site->facts & CODE_SITE_INSIDE) != 0)
        return PATCH_REASON_NOT_AN_ENTRY;
    if (code_text_at(&draft->survey->text, site->target, &available) == NULL)
        return PATCH_REASON_OUTSIDE;
    if (jump && ((site->facts & CODE_SITE_FRAGMENT) != 0 || (site->facts & CODE_SITE_PROVEN) == 0))
        return PATCH_REASON_FRAGMENT;
    return jump && !flags_dead(draft, site) ? PATCH_REASON_FLAGS_LIVE : PATCH_FINE;
}

uint64_t patch_draft_island(struct patch_draft *draft, uint32_t index, uint64_t next, uint32_t before)
{
    uint64_t low = next - 128, high = next + 127;
    while (index > 0 && draft->functions->items[index - 1].end + 64 >= low)
        index--;
    for (; index < before && draft->functions->items[index].end <= high; index++) {
        struct patch_draft_function *of = &draft->of[index];
        uint64_t end = draft->functions->items[index].end, at = end + of->padding_used;
        if (at < low)
            at = low;
        if (at > high || at + PATCH_DRAFT_ISLAND > end + patch_draft_padding(draft, index))
            continue;
        of->padding_used = (uint8_t)(at + PATCH_DRAFT_ISLAND - end);
        return at;
    }
    return 0;
}

/* Does the stub of what `planned` replaces exist? Tried at an address like any other. */
static bool can_be_moved(const struct patch_plan_site *planned, const uint8_t *old)
{
    struct patch_x86_64_site site = {.kind = (enum patch_kind)planned->kind,
                                     .length = planned->length,
                                     .address = planned->address,
                                     .old = old,
                                     .target = planned->target};
    struct patch_x86_64_counter counter = {PATCH_PLAIN, planned->address, 0, PATCH_BLOCK_WORDS};
    struct patch_x86_64_code code;
    patch_x86_64_code_begin(&code, planned->address);
    patch_x86_64_stub(&code, &site, &counter);
    return code.refused == PATCH_FINE || code.refused == PATCH_REASON_OUT_OF_REACH;
}

/* Short calls and jumps: take instructions before them along, as few as do. */
static enum patch_reason plan_group(const struct patch_draft *draft, const struct code_site *site,
                                    struct patch_plan_site *planned)
{
    const struct code_function *function = &draft->functions->items[site->function];
    uint64_t start = site->address, end = site->address + site->length;
    uint64_t lowest = function->start + draft->of[site->function].hook_length;
    bool direct = site->flow == CODE_JUMP, jump = direct || site->flow == CODE_JUMP_INDIRECT;
    enum patch_reason reason = direct ? PATCH_REASON_NO_ISLAND
                               : jump ? PATCH_REASON_INDIRECT_SHORT_JUMP
                                      : PATCH_REASON_TOO_SHORT;
    if ((draft->survey->items[site->function].facts & CODE_FACT_UNRESOLVED) != 0)
        return PATCH_REASON_BRANCH_INTO;
    for (unsigned i = 0; i < GROUP_MOST && end - start < 5; i++) {
        struct code_instruction in;
        size_t available = 0;
        uint64_t previous = code_survey_previous(draft->survey, start);
        const uint8_t *bytes =
            previous != 0 ? code_text_at(&draft->survey->text, previous, &available) : NULL;
        if (bytes == NULL || previous < lowest || end - previous > PATCH_X86_64_SITE_MAX ||
            !code_instruction_decode(bytes, available, previous, &in) || in.flow != CODE_STRAIGHT ||
            previous + in.length != start)
            return reason;
        start = previous;
    }
    if (end - start < 5)
        return reason;
    if (code_survey_entered(draft->survey, start, end))
        return PATCH_REASON_BRANCH_INTO;
    planned->kind = direct ? PATCH_JUMP_GROUP_SHORT : jump ? PATCH_JUMP_GROUP : PATCH_CALL_GROUP;
    planned->address = start;
    planned->length = (uint8_t)(end - start);
    return PATCH_FINE;
}

/* Two bytes reach an island; without one a jump takes instructions before it along. A branch cannot: who does
 * not take it stays. */
static enum patch_reason plan_short(struct patch_draft *draft, const struct code_site *site,
                                    struct patch_plan_site *planned)
{
    size_t available;
    planned->kind = site->flow == CODE_JUMP ? PATCH_JUMP_SHORT : PATCH_BRANCH_SHORT;
    planned->island = patch_draft_island(draft, site->function, site->address + site->length,
                                         (uint32_t)draft->functions->count);
    if (planned->island != 0) {
        memcpy(planned->island_old, code_text_at(&draft->survey->text, planned->island, &available),
               PATCH_DRAFT_ISLAND);
        return PATCH_FINE;
    }
    bool groups = site->flow == CODE_JUMP && !draft->handles_faults;
    enum patch_reason reason = groups ? plan_group(draft, site, planned) : PATCH_REASON_NO_ISLAND;
    const uint8_t *old = code_text_at(&draft->survey->text, planned->address, &available);
    return reason == PATCH_FINE && !can_be_moved(planned, old) ? PATCH_REASON_IMMOVABLE : reason;
}

static enum patch_reason plan_direct(struct patch_draft *draft, const struct code_site *site,
                                     struct patch_plan_site *planned)
{
    enum patch_reason reason = check_direct(draft, site);
    if (reason != PATCH_FINE)
        return reason;
    planned->kind = site->flow == CODE_CALL   ? PATCH_CALL
                    : site->flow == CODE_JUMP ? PATCH_JUMP
                                              : PATCH_BRANCH;
    planned->target = site->target;
    planned->callee = site->target_function == CODE_NONE ? PATCH_NONE : site->target_function;
    if ((site->facts & CODE_SITE_PLT) != 0) {
        code_survey_slot(draft->survey, site->target, &planned->slot);
        planned->callee = PATCH_NONE;
    }
    return site->displacement_size == 1 ? plan_short(draft, site, planned) : PATCH_FINE;
}

/* Indirect jumps leave the function when all its switches are understood. */
static enum patch_reason check_jump(const struct patch_draft *draft, const struct code_site *site)
{
    bool through_slot =
        site->operand == CODE_OPERAND_RIP && code_survey_slot_name(draft->survey, site->target);
    if (!through_slot && (draft->survey->items[site->function].facts & CODE_FACT_UNRESOLVED) != 0)
        return PATCH_REASON_JUMP_UNKNOWN;
    return PATCH_FINE;
}

/* A word of the linkage tables has one value. Any other may be a variable, also if it begins with a symbol's
 * address: what it holds at read-out says nothing about the calls before. */
static bool is_bound_once(const struct code_survey *survey, uint64_t address)
{
    const struct code_slot *slot = code_survey_slot_at(survey, address);
    return slot && slot->type != R_X86_64_64;
}

static enum patch_reason plan_indirect(const struct patch_draft *draft, const struct code_site *site,
                                       struct patch_plan_site *planned)
{
    enum patch_reason reason = PATCH_FINE;
    size_t available;
    if ((site->facts & CODE_SITE_MCOUNT) != 0)
        return PATCH_REASON_PROFILING_HOOK;
    if (draft->handles_faults)
        return PATCH_REASON_FAULTING;
    planned->kind = site->flow == CODE_JUMP_INDIRECT ? PATCH_JUMP_INDIRECT : PATCH_CALL_INDIRECT;
    if (site->flow == CODE_JUMP_INDIRECT)
        reason = check_jump(draft, site);
    if (reason == PATCH_FINE && site->length < 5)
        reason = plan_group(draft, site, planned);
    if (site->operand == CODE_OPERAND_RIP && is_bound_once(draft->survey, site->target))
        planned->slot = site->target;
    if (reason != PATCH_FINE)
        return reason;
    const uint8_t *old = code_text_at(&draft->survey->text, planned->address, &available);
    return can_be_moved(planned, old) ? PATCH_FINE : PATCH_REASON_IMMOVABLE;
}

static bool is_indirect(const struct code_site *site)
{
    return site->flow == CODE_CALL_INDIRECT || site->flow == CODE_JUMP_INDIRECT;
}

/* Calls of the next instruction and the like are no ways into their target. */
static bool harms_coverage(enum patch_reason reason)
{
    return reason != PATCH_REASON_GET_PC && reason != PATCH_REASON_PROFILING_HOOK &&
           reason != PATCH_REASON_FRAGMENT && reason != PATCH_REASON_OWN_FUNCTION;
}

/* A call of a linkage stub that is not counted: the stub may lead to a function of this image. */
static void note_slot(struct patch_draft *draft, const struct code_site *site)
{
    uint32_t function = behind_linkage(draft, site->target);
    if (function != CODE_NONE)
        draft->of[function].unseen = true;
}

/* What the site means for the function that it goes to. */
static void note_target(struct patch_draft *draft, const struct code_site *site, enum patch_reason reason)
{
    if ((site->facts & CODE_SITE_PLT) != 0 && reason != PATCH_FINE && harms_coverage(reason))
        note_slot(draft, site);
    if (is_indirect(site) || site->target_function == CODE_NONE || (site->facts & CODE_SITE_ENTRY) == 0)
        return;
    struct patch_draft_function *of = &draft->of[site->target_function];
    if (reason == PATCH_FINE || harms_coverage(reason))
        of->entered = true;
    if (reason == PATCH_FINE || !harms_coverage(reason))
        return;
    of->unseen = true;
    if (of->reason == 0 && of->hook == PATCH_NONE) /* a hook sees whoever comes */
        of->reason = (uint8_t)reason;
}

static void plan_site(struct patch_draft *draft, const struct code_site *site)
{
    size_t available;
    struct patch_plan_site planned = {
        .address = site->address, .function = site->function, .callee = PATCH_NONE, .length = site->length};
    bool indirect = is_indirect(site);
    enum patch_reason reason =
        indirect ? plan_indirect(draft, site, &planned) : plan_direct(draft, site, &planned);
    const uint8_t *old = code_text_at(&draft->survey->text, planned.address, &available);
    if (reason == PATCH_FINE &&
        (old == NULL || available < planned.length || planned.length > sizeof planned.old))
        reason = PATCH_REASON_IMMOVABLE;
    draft->header.found++;
    draft->header.indirect_found += indirect;
    note_target(draft, site, reason);
    if (reason != PATCH_FINE) {
        patch_draft_refuse(draft, reason);
        return;
    }
    memcpy(planned.old, old, planned.length);
    draft->header.planned++;
    draft->header.indirect_planned += indirect;
    draft->sites[draft->site_count++] = planned;
}

int patch_sites_plan(struct patch_draft *draft, struct base_error *error)
{
    draft->site_count = 0;
    for (size_t i = 0; i < draft->survey->site_count; i++) {
        const struct code_site *site = &draft->survey->sites[i];
        if (!is_way(draft, site))
            continue;
        if (!base_array_room(draft->sites, draft->site_count, draft->site_capacity))
            return base_fail(error, BASE_ENOMEM, "no memory for the plan of a program's calls");
        if (draft->of[site->function].has_cfi)
            plan_site(draft, site);
        else
            note_target(draft, site, PATCH_REASON_NO_CFI);
    }
    return BASE_OK;
}
