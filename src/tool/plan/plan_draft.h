/* plan_draft.h - a plan while it is being made (inside the module only).
 *
 * Order:
 *   1. functions get their facts, and pieces of code are told apart (plan_pieces.h);
 *   2. sites for the first time, to learn which functions are entered by sites that cannot be rewritten;
 *   3. hooks, for those and for functions called by address, because hooks take first bytes and padding;
 *   4. sites for good;
 *   5. what is covered.
 * plan.c drives these steps; plan_sites.c and plan_hooks.c need plan_draft.c only; plan_function.c uses step
 * 1 and plan_hooks_one. Context: tool. */
#ifndef PLAN_DRAFT_H
#define PLAN_DRAFT_H

#include "cfi.h"
#include "code_function.h"
#include "code_survey.h"
#include "plan.h"

enum plan_draft_flags { PLAN_FLAGS_UNKNOWN, PLAN_FLAGS_DEAD, PLAN_FLAGS_LIVE };

/* What a piece of code is that has bounds like a function's: plan_pieces.h. */
enum plan_draft_piece {
    PLAN_PIECE_FUNCTION,
    PLAN_PIECE_JUMPED_TO, /* a function by the jumps that lead to it, and nothing else */
    PLAN_PIECE_HALF       /* of a function */
};

struct plan_draft_function {
    uint16_t facts;      /* enum plan_function_fact */
    uint8_t reason;      /* the first reason for which a way into it is not counted */
    uint8_t flags;       /* at its start; enum plan_draft_flags */
    uint8_t piece;       /* enum plan_draft_piece */
    uint8_t hook_length; /* bytes from its start that a hook moves */
    bool has_cfi;
    bool entered; /* it is called, jumped to, or its address is taken */
    bool unseen;  /* some such site cannot be rewritten */
    uint32_t hook;
};

struct plan_draft {
    const struct elf_image *image;
    const struct code_functions *functions;
    const struct code_survey *survey;
    struct cfi_range *ranges;
    size_t range_count;
    bool handles_faults;            /* Go: faults at known addresses are part of the program */
    struct plan_draft_function *of; /* functions->count */
    uint8_t *occupied; /* a bit for each byte of text: padding that islands and hooks have taken */
    bool *within;      /* of each of the survey's sites: a jump that stays in its function */
    struct plan_site *sites;
    size_t site_count, site_capacity;
    struct plan_hook *hooks;
    size_t hook_count, hook_capacity;
    struct plan_header header; /* counts only */
};

/* What a draft is made from. {0} before it begins. */
struct plan_draft_basis {
    struct code_bounds bounds; /* a caller may add bounds of its own first */
    struct code_functions functions;
    struct code_survey *survey;
};

/* 1. Functions, survey, facts. plan_draft_end frees it, also after an error. */
int plan_draft_begin(struct plan_draft *draft, struct plan_draft_basis *basis, const struct elf_image *image,
                     const struct code_survey_options *options, struct base_error *error);
void plan_draft_end(struct plan_draft *draft, struct plan_draft_basis *basis);

void plan_draft_refuse(struct plan_draft *draft, enum stub_reason reason);

/* The hook of function `index`, or why there can be none. `whole`: by a jump of five bytes whatever they
 * hold, and where call-frame information is missing too, if a symbol bounds the function. */
enum stub_reason plan_hooks_one(const struct plan_draft *draft, uint32_t index, bool whole,
                                struct plan_hook *hook);

/* 3.; 2. and 4. (forgets what it found before). BASE_ENOMEM. */
int plan_hooks_plan(struct plan_draft *draft, struct base_error *error);
int plan_sites_plan(struct plan_draft *draft, struct base_error *error);

/* Five bytes of padding in functions below index `before`, or behind them, that a two-byte jump which ends at
 * `next`, in function `index`, reaches; 0: none. Takes them. Padding inside a function is what stands between
 * a jump or return and a label that was aligned: no hook reaches there, and no group of instructions that
 * moves, because the label is entered. */
#define PLAN_DRAFT_ISLAND 5
uint64_t plan_draft_island(struct plan_draft *draft, uint32_t index, uint64_t next, uint32_t before);

/* Takes padding, all of what lies in [start, end); frees all that was taken. */
void plan_draft_occupy(struct plan_draft *draft, uint64_t start, uint64_t end);
void plan_draft_vacate(struct plan_draft *draft);

/* How many bytes of padding (nops, int3) lie between the end of function `index` and the next one, at an end
 * that no instruction runs over. 0: none that can be used. */
size_t plan_draft_padding(const struct plan_draft *draft, uint32_t index);

#endif
