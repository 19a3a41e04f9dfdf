/* report_candidates_inside.h - what the files of the view of candidates share. Private to them. Context: tool. */
#ifndef REPORT_CANDIDATES_INSIDE_H
#define REPORT_CANDIDATES_INSIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report_candidates.h"
#include "view.h"
#include "view_calls.h"

struct candidate {
    uint32_t entity;
    struct view_figure self, total;
    struct view_called called;
    uint64_t entering; /* 0: not known */
    struct report_bound bound;
};

struct candidate_sum {
    struct view_figure self, total;
    uint32_t active;
};

struct candidate_list { /* best first; the first `shown` are printed */
    struct candidate *items;
    size_t count, capacity, shown;
    bool past;
};

struct candidates {
    struct view_context *context;
    struct report_assumption assumption;
    struct view_entities entities;
    struct view_calls calls;
    struct candidate_sum *sums; /* by entity */
    size_t sum_count, sum_capacity;
    struct candidate_list known, unknown; /* with and without known numbers of calls */
    struct candidate_list roots;          /* which only hold the time of what they call */
};

/* --- report_candidates_figures.c --- */

struct view_mean candidates_mean(const struct candidates *self, const struct candidate *candidate);
struct view_mean candidates_break_even(const struct candidates *self, const struct candidate *candidate);
/* Is it one of the calls that `entering` counts? */
bool candidates_is_entering(const struct candidate *candidate, const struct view_pair *pair);
/* How many CPUs were busy on average; 0 when that is not known. */
double candidates_busy_cpus(const struct candidates *self);
/* Does it hold nearly all of the time, and only as the one that calls what uses it? To move such a function is
 * to move the program. */
bool candidates_is_root(const struct candidates *self, const struct candidate *candidate);

/* --- report_candidates_json.c --- */

void candidates_print_json(struct candidates *self);

#endif
