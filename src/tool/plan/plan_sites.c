/* Which calls and jumps are sites, and how each is rewritten. */
#include <elf.h>
#include <string.h>

#include "base_array.h"
#include "code_flags.h"
#include "plan_draft.h"

#define FORWARDER_MOST 8 /* instructions before its jump */
#define GROUP_MOST     4 /* instructions before a short call that are tried */

/* Does it lead to another function? Switches, jumps into the middle of a function (the way back from a cold
 * half) and what linkage stubs and undecoded functions do are not counted. */
static bool is_way(const struct plan_draft *draft, const struct code_site *site)
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
static bool flags_dead(struct plan_draft *draft, const struct code_site *site)
{
    struct plan_draft_function *of =
        site->target_function != CODE_NONE ? &draft->of[site->target_function] : NULL;
    bool at_start = of != NULL && draft->functions->items[site->target_function].start == site->target;
    if (at_start && of->flags != PLAN_FLAGS_UNKNOWN)
        return of->flags == PLAN_FLAGS_DEAD;
    bool dead = code_flags_dead(&draft->survey->text, site->target, CODE_FLAGS_INC) ||
                is_forwarder(&draft->survey->text, site->target);
    if (at_start)
        of->flags = dead ? PLAN_FLAGS_DEAD : PLAN_FLAGS_LIVE;
    return dead;
}

/* A function that reads its return address may read the call before it, and where that leads. */
static bool reads_return(const struct plan_draft *draft, uint32_t function)
{
    return function != CODE_NONE && draft->survey->items[function].facts & CODE_FACT_READS_RETURN;
}

/* The function of this image that the linkage stub at `address` leads to, or CODE_NONE. */
static uint32_t behind_linkage(const struct plan_draft *draft, uint64_t address)
{
    uint64_t at;
    const struct code_slot *slot =
        code_survey_slot(draft->survey, address, &at) ? code_survey_slot_at(draft->survey, at) : NULL;
    return slot != NULL && slot->function != 0 ? code_functions_find(draft->functions, slot->function)
                                               : CODE_NONE;
}

/* A jump that is a call: to the start of a function (plan_pieces.h), or to another entry of one. */
static bool is_tail_call(const struct plan_draft *draft, const struct code_site *site)
{
    uint32_t to = site->target_function;
    if (to == CODE_NONE || draft->functions->items[to].start != site->target)
        return (site->facts & CODE_SITE_FRAGMENT) == 0 && (site->facts & CODE_SITE_PROVEN) != 0;
    return draft->of[to].piece != PLAN_PIECE_HALF && !draft->within[site - draft->survey->sites];
}

static enum stub_reason check_direct(struct plan_draft *draft, const struct code_site *site)
{
    bool jump = site->flow != CODE_CALL;
    size_t available;
    /* A last call may well go to the function that lies next. */
    if ((site->facts & CODE_SITE_NEXT) != 0 && !jump && (site->facts & CODE_SITE_ENTRY) == 0)
        return STUB_REASON_GET_PC;
    if ((site->facts & CODE_SITE_MCOUNT) != 0)
        return STUB_REASON_PROFILING_HOOK;
    if ((site->facts & CODE_SITE_THUNK) != 0)
        return STUB_REASON_RETPOLINE;
    if ((site->facts & CODE_SITE_OWN) != 0)
        return STUB_REASON_OWN_FUNCTION;
    if (!jump && reads_return(draft, (site->facts & CODE_SITE_PLT) != 0 ? behind_linkage(draft, site->target)
                                                                        : site->target_function))
        return STUB_REASON_READS_RETURN;
    if ((site->facts & CODE_SITE_PLT) != 0)
        return STUB_FINE; /* a linkage stub reads no flags */
    if ((site->facts & CODE_SITE_INSIDE) != 0)
        return STUB_REASON_NOT_AN_ENTRY;
    if (code_text_at(&draft->survey->text, site->target, &available) == NULL)
        return STUB_REASON_OUTSIDE;
    if (jump && !is_tail_call(draft, site))
        return STUB_REASON_FRAGMENT;
    return jump && !flags_dead(draft, site) ? STUB_REASON_FLAGS_LIVE : STUB_FINE;
}

/* Does the stub of what `planned` replaces exist? Tried at an address like any other. */
static bool can_be_moved(const struct plan_site *planned, const uint8_t *old)
{
    struct stub_x86_64_request site = {.kind = (enum stub_kind)planned->kind,
                                       .length = planned->length,
                                       .address = planned->address,
                                       .old = old,
                                       .target = planned->target};
    struct stub_x86_64_counter counter = {STUB_PLAIN, planned->address, 0, STUB_BLOCK_WORDS};
    struct stub_x86_64_code code;
    stub_x86_64_code_begin(&code, planned->address);
    stub_x86_64_site(&code, &site, &counter);
    return code.refused == STUB_FINE || code.refused == STUB_REASON_OUT_OF_REACH;
}

/* May it stand before the last instruction of a group? A branch of its own function may before a jump: when it
 * is taken, nothing has changed. (A call's return address is on the stack already.) */
static bool fits_in_group(const struct code_function *function, const struct code_instruction *in, bool jump)
{
    bool stays = in->target >= function->start && in->target < function->end;
    return in->flow == CODE_STRAIGHT || (in->flow == CODE_BRANCH && jump && stays);
}

/* Short calls and jumps: move instructions before them too, as few as suffice. */
static enum stub_reason plan_group(const struct plan_draft *draft, const struct code_site *site,
                                   struct plan_site *planned)
{
    const struct code_function *function = &draft->functions->items[site->function];
    uint64_t start = site->address, end = site->address + site->length;
    uint64_t lowest = function->start + draft->of[site->function].hook_length;
    bool direct = site->flow == CODE_JUMP, jump = direct || site->flow == CODE_JUMP_INDIRECT;
    enum stub_reason reason = direct ? STUB_REASON_NO_ISLAND
                              : jump ? STUB_REASON_INDIRECT_SHORT_JUMP
                                     : STUB_REASON_TOO_SHORT;
    if ((draft->survey->items[site->function].facts & CODE_FACT_UNRESOLVED) != 0)
        return STUB_REASON_BRANCH_INTO;
    for (unsigned i = 0; i < GROUP_MOST && end - start < 5; i++) {
        struct code_instruction in;
        size_t available = 0;
        uint64_t previous = code_survey_previous(draft->survey, start);
        const uint8_t *bytes =
            previous != 0 ? code_text_at(&draft->survey->text, previous, &available) : NULL;
        if (bytes == NULL || previous < lowest || end - previous > STUB_X86_64_SITE_MAX ||
            !code_instruction_decode(bytes, available, previous, &in) ||
            !fits_in_group(function, &in, jump) || previous + in.length != start)
            return reason;
        start = previous;
    }
    if (end - start < 5)
        return reason;
    if (code_survey_entered(draft->survey, start, end))
        return STUB_REASON_BRANCH_INTO;
    planned->kind = direct ? STUB_JUMP_GROUP_SHORT : jump ? STUB_JUMP_GROUP : STUB_CALL_GROUP;
    planned->address = start;
    planned->length = (uint8_t)(end - start);
    return STUB_FINE;
}

static enum stub_reason check_moved(const struct plan_draft *draft, const struct plan_site *planned)
{
    size_t available;
    const uint8_t *old = code_text_at(&draft->survey->text, planned->address, &available);
    return can_be_moved(planned, old) ? STUB_FINE : STUB_REASON_IMMOVABLE;
}

/* False: none is within reach. */
static bool take_island(struct plan_draft *draft, const struct code_site *site, struct plan_site *planned)
{
    size_t available;
    planned->island = plan_draft_island(draft, site->function, site->address + site->length,
                                        (uint32_t)draft->functions->count);
    if (planned->island == 0)
        return false;
    memcpy(planned->island_old, code_text_at(&draft->survey->text, planned->island, &available),
           PLAN_DRAFT_ISLAND);
    return true;
}

/* Two bytes reach an island; without one a jump is moved together with instructions before it. A branch
 * cannot be: when it is not taken, execution goes on behind it. */
static enum stub_reason plan_short(struct plan_draft *draft, const struct code_site *site,
                                   struct plan_site *planned)
{
    planned->kind = site->flow == CODE_JUMP ? STUB_JUMP_SHORT : STUB_BRANCH_SHORT;
    if (take_island(draft, site, planned))
        return STUB_FINE;
    bool groups = site->flow == CODE_JUMP && !draft->handles_faults;
    enum stub_reason reason = groups ? plan_group(draft, site, planned) : STUB_REASON_NO_ISLAND;
    return reason == STUB_FINE ? check_moved(draft, planned) : reason;
}

/* The other way round: an indirect jump with instructions before it needs no padding, which is scarce. */
static enum stub_reason plan_short_indirect(struct plan_draft *draft, const struct code_site *site,
                                            struct plan_site *planned)
{
    struct plan_site alone = *planned;
    enum stub_reason reason = plan_group(draft, site, planned);
    if (reason == STUB_FINE)
        reason = check_moved(draft, planned);
    if (reason == STUB_FINE || site->flow != CODE_JUMP_INDIRECT)
        return reason;
    alone.kind = STUB_JUMP_INDIRECT_SHORT;
    if (check_moved(draft, &alone) != STUB_FINE || !take_island(draft, site, &alone))
        return reason;
    *planned = alone;
    return STUB_FINE;
}

static enum stub_reason plan_direct(struct plan_draft *draft, const struct code_site *site,
                                    struct plan_site *planned)
{
    enum stub_reason reason = check_direct(draft, site);
    if (reason != STUB_FINE)
        return reason;
    planned->kind = site->flow == CODE_CALL ? STUB_CALL : site->flow == CODE_JUMP ? STUB_JUMP : STUB_BRANCH;
    planned->target = site->target;
    planned->callee = site->target_function == CODE_NONE ? PLAN_NONE : site->target_function;
    if ((site->facts & CODE_SITE_PLT) != 0) {
        code_survey_slot(draft->survey, site->target, &planned->slot);
        planned->callee = PLAN_NONE;
    }
    return site->displacement_size == 1 ? plan_short(draft, site, planned) : STUB_FINE;
}

/* Indirect jumps leave the function when all its switches are understood. */
static enum stub_reason check_jump(const struct plan_draft *draft, const struct code_site *site)
{
    bool through_slot =
        site->operand == CODE_OPERAND_RIP && code_survey_slot_name(draft->survey, site->target);
    if (!through_slot && (draft->survey->items[site->function].facts & CODE_FACT_UNRESOLVED) != 0)
        return STUB_REASON_JUMP_UNKNOWN;
    return STUB_FINE;
}

/* A word of the linkage tables has one value. Any other may be a variable, also if it begins with a symbol's
 * address: what it holds at read-out says nothing about the calls before. */
static bool is_bound_once(const struct code_survey *survey, uint64_t address)
{
    const struct code_slot *slot = code_survey_slot_at(survey, address);
    return slot && slot->type != R_X86_64_64;
}

static enum stub_reason plan_indirect(struct plan_draft *draft, const struct code_site *site,
                                      struct plan_site *planned)
{
    enum stub_reason reason = STUB_FINE;
    if ((site->facts & CODE_SITE_MCOUNT) != 0)
        return STUB_REASON_PROFILING_HOOK;
    if (draft->handles_faults)
        return STUB_REASON_FAULTING;
    planned->kind = site->flow == CODE_JUMP_INDIRECT ? STUB_JUMP_INDIRECT : STUB_CALL_INDIRECT;
    if (site->flow == CODE_JUMP_INDIRECT)
        reason = check_jump(draft, site);
    if (site->operand == CODE_OPERAND_RIP && is_bound_once(draft->survey, site->target))
        planned->slot = site->target;
    if (reason != STUB_FINE)
        return reason;
    return site->length < 5 ? plan_short_indirect(draft, site, planned) : check_moved(draft, planned);
}

static bool is_indirect(const struct code_site *site)
{
    return site->flow == CODE_CALL_INDIRECT || site->flow == CODE_JUMP_INDIRECT;
}

/* Calls of the next instruction and the like do not enter their target. */
static bool harms_coverage(enum stub_reason reason)
{
    return reason != STUB_REASON_GET_PC && reason != STUB_REASON_PROFILING_HOOK &&
           reason != STUB_REASON_FRAGMENT && reason != STUB_REASON_OWN_FUNCTION;
}

/* A call of a linkage stub that is not counted: the stub may lead to a function of this image. */
static void note_slot(struct plan_draft *draft, const struct code_site *site)
{
    uint32_t function = behind_linkage(draft, site->target);
    if (function != CODE_NONE)
        draft->of[function].unseen = true;
}

/* What the site means for the function that it goes to. */
static void note_target(struct plan_draft *draft, const struct code_site *site, enum stub_reason reason)
{
    if ((site->facts & CODE_SITE_PLT) != 0 && reason != STUB_FINE && harms_coverage(reason))
        note_slot(draft, site);
    if (is_indirect(site) || site->target_function == CODE_NONE || (site->facts & CODE_SITE_ENTRY) == 0)
        return;
    struct plan_draft_function *of = &draft->of[site->target_function];
    if (reason == STUB_FINE || harms_coverage(reason))
        of->entered = true;
    if (reason == STUB_FINE || !harms_coverage(reason))
        return;
    of->unseen = true;
    if (of->reason == 0 && of->hook == PLAN_NONE) /* a hook counts every call */
        of->reason = (uint8_t)reason;
}

static void plan_site(struct plan_draft *draft, const struct code_site *site)
{
    size_t available;
    struct plan_site planned = {
        .address = site->address, .function = site->function, .callee = PLAN_NONE, .length = site->length};
    bool indirect = is_indirect(site);
    enum stub_reason reason =
        indirect ? plan_indirect(draft, site, &planned) : plan_direct(draft, site, &planned);
    const uint8_t *old = code_text_at(&draft->survey->text, planned.address, &available);
    if (reason == STUB_FINE &&
        (old == NULL || available < planned.length || planned.length > sizeof planned.old))
        reason = STUB_REASON_IMMOVABLE;
    draft->header.found++;
    draft->header.indirect_found += indirect;
    note_target(draft, site, reason);
    if (reason != STUB_FINE) {
        plan_draft_refuse(draft, reason);
        return;
    }
    memcpy(planned.old, old, planned.length);
    draft->header.planned++;
    draft->header.indirect_planned += indirect;
    draft->sites[draft->site_count++] = planned;
}

int plan_sites_plan(struct plan_draft *draft, struct base_error *error)
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
            note_target(draft, site, STUB_REASON_NO_CFI);
    }
    return BASE_OK;
}
