/* The numbers are those of the header. */
#include "plan_pieces.h"

#include <stdlib.h>

#include "base_search.h"
#include "code_given.h"

struct judging {
    struct plan_draft *draft;
    uint64_t *addresses; /* whose frames matter, ascending */
    bool *bare;          /* of each: nothing but the return address */
    size_t count;
    uint8_t *jumped; /* of each function: a jump that is a tail call by its form leads to its start */
};

static const struct code_function *function_of(const struct judging *judging, size_t index)
{
    return &judging->draft->functions->items[index];
}

static bool has_own_name(const struct code_function *function)
{
    return function->name != NULL && !function->fragment;
}

static bool is_called(const struct judging *judging, size_t index)
{
    return code_survey_marked(judging->draft->survey, CODE_MAP_CALL, function_of(judging, index)->start);
}

static bool is_linkage(const struct judging *judging, size_t index)
{
    return (judging->draft->survey->items[index].facts & CODE_FACT_LINKAGE) != 0;
}

/* A direct jump, of any kind, from one function to another, or into it. */
static bool is_jump_out(const struct code_site *site)
{
    return site->operand == CODE_OPERAND_NONE && site->flow != CODE_CALL &&
           site->target_function != CODE_NONE && site->target_function != site->function;
}

/* One that leads to the start of a piece without a name of its own. */
static bool leads_to_piece(const struct judging *judging, const struct code_site *site)
{
    return is_jump_out(site) && function_of(judging, site->target_function)->start == site->target &&
           !has_own_name(function_of(judging, site->target_function));
}

/* --- frames --- */

static int by_number(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* Starts of pieces, and jumps to them. */
static void list_addresses(struct judging *judging)
{
    const struct code_survey *survey = judging->draft->survey;
    for (size_t i = 0; i < judging->draft->functions->count; i++)
        if (!has_own_name(function_of(judging, i)) && !is_called(judging, i))
            judging->addresses[judging->count++] = function_of(judging, i)->start;
    for (size_t i = 0; i < survey->site_count; i++)
        if (leads_to_piece(judging, &survey->sites[i]))
            judging->addresses[judging->count++] = survey->sites[i].address;
    if (judging->count)
        qsort(judging->addresses, judging->count, sizeof *judging->addresses, by_number);
}

static bool is_bare(const struct judging *judging, uint64_t address)
{
    size_t at = base_search_number(judging->addresses, judging->count, address);
    return at < judging->count && judging->addresses[at] == address && judging->bare[at];
}

/* --- 1. to 4. --- */

static enum plan_draft_piece piece_by_itself(const struct judging *judging, size_t index)
{
    const struct code_function *function = function_of(judging, index);
    const struct code_survey_function *found = &judging->draft->survey->items[index];
    if (has_own_name(function) || is_linkage(judging, index) || is_called(judging, index))
        return PLAN_PIECE_FUNCTION;
    bool bare = is_bare(judging, function->start);
    bool landing = code_survey_marked(judging->draft->survey, CODE_MAP_LANDING, function->start);
    if (function->name == NULL && (found->taken & CODE_TAKEN_LOADER) != 0)
        return PLAN_PIECE_FUNCTION;
    if (function->name == NULL && found->taken != 0)
        return bare && !landing ? PLAN_PIECE_FUNCTION : PLAN_PIECE_HALF;
    if (!bare || landing || found->verdict != CODE_VERDICT_FINE ||
        (found->facts & CODE_FACT_FALLS_THROUGH) != 0)
        return PLAN_PIECE_HALF;
    if (function->name != NULL)
        return code_function_is_part(function->name) ? PLAN_PIECE_FUNCTION : PLAN_PIECE_HALF;
    return PLAN_PIECE_JUMPED_TO;
}

/* --- 5. --- */

/* How the jumps to the starts of pieces look. */
static void judge_jumps(struct judging *judging)
{
    struct plan_draft *draft = judging->draft;
    for (size_t i = 0; i < draft->survey->site_count; i++) {
        const struct code_site *site = &draft->survey->sites[i];
        if (!leads_to_piece(judging, site))
            continue;
        bool bare = is_bare(judging, site->address);
        draft->within[i] = !bare && !is_called(judging, site->target_function);
        struct plan_draft_function *of = &draft->of[site->target_function];
        if (of->piece == PLAN_PIECE_JUMPED_TO && (!bare || site->flow != CODE_JUMP))
            of->piece = PLAN_PIECE_HALF;
        judging->jumped[site->target_function] = 1;
    }
}

static void judge_registers(struct judging *judging)
{
    struct plan_draft *draft = judging->draft;
    for (size_t i = 0; i < draft->functions->count; i++)
        if (draft->of[i].piece == PLAN_PIECE_JUMPED_TO &&
            (!judging->jumped[i] || !code_given_only(&draft->survey->text, function_of(judging, i)->start)))
            draft->of[i].piece = PLAN_PIECE_HALF;
}

/* Of two that jump into each other's middle one is half of the other. Where neither is known to be, both
 * are taken for it; what is found stands in `jumped` until all have been looked at. */
static void judge_exchanges(struct judging *judging)
{
    enum { EXCHANGES = 2 };
    struct plan_draft *draft = judging->draft;
    for (size_t i = 0; i < draft->survey->site_count; i++) {
        const struct code_site *site = &draft->survey->sites[i];
        if (!is_jump_out(site) || (site->facts & CODE_SITE_INSIDE) == 0 ||
            draft->of[site->function].piece == PLAN_PIECE_HALF ||
            draft->of[site->target_function].piece == PLAN_PIECE_HALF)
            continue;
        judging->jumped[site->function] = EXCHANGES;
        judging->jumped[site->target_function] = EXCHANGES;
    }
    for (size_t i = 0; i < draft->functions->count; i++)
        if (draft->of[i].piece == PLAN_PIECE_JUMPED_TO && judging->jumped[i] == EXCHANGES)
            draft->of[i].piece = PLAN_PIECE_HALF;
}

static int judge_pieces(struct judging *judging, struct base_error *error)
{
    struct plan_draft *draft = judging->draft;
    list_addresses(judging);
    int code = cfi_bare_frames(draft->image, judging->addresses, judging->count, judging->bare, error);
    if (code < 0)
        return code;
    for (size_t i = 0; i < draft->functions->count; i++)
        draft->of[i].piece = (uint8_t)piece_by_itself(judging, i);
    judge_jumps(judging);
    judge_registers(judging);
    judge_exchanges(judging);
    return BASE_OK;
}

int plan_pieces_judge(struct plan_draft *draft, struct base_error *error)
{
    size_t most = draft->functions->count + draft->survey->site_count + 1;
    struct judging judging = {.draft = draft,
                              .addresses = calloc(most, sizeof *judging.addresses),
                              .bare = calloc(most, sizeof *judging.bare),
                              .jumped = calloc(draft->functions->count + 1, 1)};
    draft->within = calloc(draft->survey->site_count + 1, sizeof *draft->within);
    int code =
        judging.addresses != NULL && judging.bare != NULL && judging.jumped != NULL && draft->within != NULL
            ? judge_pieces(&judging, error)
            : base_fail(error, BASE_ENOMEM, "no memory for the plan of a program's calls");
    free(judging.addresses);
    free(judging.bare);
    free(judging.jumped);
    return code;
}
