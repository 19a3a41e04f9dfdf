/* view_calls.h - exact calls as reports need them: by function and by pair of functions, recursion kept
 * apart.
 *
 * Calls and time are of two kinds and are kept apart: calls are exact, and a quotient of sampled time and
 * exact calls carries the interval of the time. Every mean time of a call divides what was spent in the
 * function and all it called (each stack counted once, however often the function recurs in it) by the calls
 * that enter it: those that come neither from the function itself nor from a cycle that it is a member of.
 * Both sides then count an outermost call once. A member of a cycle that is only ever entered through other
 * members has no such calls; for it all calls but its own count, which makes the quotient a lower bound.
 * Context: tool. */
#ifndef VIEW_CALLS_H
#define VIEW_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_map.h"
#include "profile.h"
#include "view.h"

/* Of one caller to one callee, both entities. */
struct view_pair {
    uint32_t caller, callee;
    uint64_t kinds[PROFILE_CALL_KINDS]; /* by enum profile_call_kind */
    uint64_t calls;                     /* their sum; sums stop at the top */
    bool recursive;                     /* within itself or its cycle */
    bool partial, callee_partial;       /* some calls of the pair, of the callee, were not counted */
};

/* What was counted of one callee. */
struct view_called {
    uint64_t calls;
    uint64_t itself;    /* of these, from itself */
    uint64_t recursive; /* of these, from itself or a member of its cycle */
    bool partial;       /* there may be more that were not counted (view_complete.h) */
};

struct view_calls {
    bool counted;            /* the profile counts calls, and some were (profile_extent.h) */
    uint64_t taken, all;     /* calls: after the filters, and before */
    struct view_pair *pairs; /* by callee, then the most calls first */
    size_t pair_count, pair_capacity;
    struct view_called *called; /* by entity */
    uint32_t *first;            /* the pairs of callee e: pairs[first[e]] .. pairs[first[e + 1] - 1] */
    size_t entity_count;
    struct base_map map; /* (caller, callee) -> pair */
};

/* Adds up the edges that the filters on threads leave; those on images too with `by_image`: an edge stays
 * when its caller or its callee lies in one. Entities that only edges mention are made. view_calls_free is
 * right in any case. */
int view_calls_gather(struct view_context *context, struct view_entities *entities, bool by_image,
                      struct view_calls *calls);
void view_calls_free(struct view_calls *calls);

/* The pair that an edge of the profile was added to; NULL: it has no calls, or the filters leave it out. */
const struct view_pair *view_calls_pair_of(const struct view_context *context, struct view_entities *entities,
                                           bool by_image, const struct view_calls *calls,
                                           const struct profile_edge *edge);

/* Nothing counted: all zero. */
struct view_called view_calls_of(const struct view_calls *calls, uint32_t entity);
/* NULL: no such call was counted. */
const struct view_pair *view_calls_between(const struct view_calls *calls, uint32_t caller, uint32_t callee);
/* Calls that were seen to enter it. */
uint64_t view_calls_entering(const struct view_called *called);
/* Calls to divide time by; 0: how often it was entered is not known, or only in part. */
uint64_t view_calls_divisor(const struct view_called *called);

/* A mean, and the ends of its 95 % interval. */
struct view_mean {
    double value, low, high; /* in the counter's unit */
};
struct view_mean view_calls_mean(const struct view_selection *selection, const struct view_figure *figure,
                                 uint64_t calls);

/* Do the filters leave all the time of the calls that they leave? Then quotients make sense. */
bool view_calls_timed(const struct view_context *context, const struct view_calls *calls);

/* "1,204", recursive calls apart: "1,204+3,000"; "≥" before them when some were not counted; nothing when
 * there are none. */
void view_calls_text(struct base_text *out, const struct view_called *called, bool ascii);
void view_calls_at_least(struct base_text *out, const struct view_called *called, bool ascii); /* that "≥" */
/* "844 ±27 µs"; where nothing was sampled the upper end: "<12 ns". */
void view_calls_mean_text(struct base_text *out, const struct view_mean *mean, bool ascii);
/* "calls", "recursive_calls": of these, those that do not enter it, and "calls_complete". */
void view_calls_json(struct base_json *json, const struct view_called *called);
void view_calls_mean_json(struct base_json *json, const char *key, const struct view_mean *mean);

/* Calls of the whole profile, and the number of its edges as report_edges.c has them: (function, function,
 * kind). False when memory ran out. */
bool view_calls_count(const struct profile *profile, uint64_t *calls, size_t *edges);

#endif
