/* view_select.h - which cells a report is about, and what their figures amount to.
 * Context: tool. */
#ifndef VIEW_SELECT_H
#define VIEW_SELECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base_error.h"
#include "profile.h"
#include "view_options.h"

/* The counters of the views of open descriptors and of how long calls took: they are there where these were
 * recorded. */
#define VIEW_DESCRIPTORS_COUNTER "fd.live"
#define VIEW_LATENCY_COUNTER     "function.time"

struct view_figure {
    int64_t value; /* in the counter's unit */
    uint64_t samples;
};

struct view_share {
    double share, low, high; /* 0..1; low and high are share itself for exact counters */
};

struct view_selection {
    uint16_t counter;
    bool exact, peak;
    bool period; /* of the time */
    const char *name, *unit;
    bool *threads, *images; /* by index, whether taken; NULL: all */
    uint8_t *cpus;          /* a bit each; NULL: all */
    size_t thread_total, threads_taken;
    struct view_figure all, taken; /* of the counter: before and after the filters */
    double effective;              /* samples that carry the evidence of `taken` when weights differ (Kish) */
};

/* Chooses the counter and applies the filters of the options. On success the caller frees. */
int view_select(const struct profile *profile, const struct view_options *options,
                struct view_selection *selection, struct base_error *error);
void view_select_free(struct view_selection *selection);

bool view_select_takes(const struct view_selection *selection, const struct profile *profile,
                       const struct profile_cell *cell);
/* By its thread, and by image when its caller or its callee lies in one. */
bool view_select_takes_edge(const struct view_selection *selection, const struct profile *profile,
                            const struct profile_edge *edge);
/* By process, whether a thread of it is taken; of all when threads were not chosen. The caller frees; NULL:
 * memory ran out. */
bool *view_select_processes(const struct view_selection *selection, const struct profile *profile);
bool view_select_filtered(const struct view_selection *selection);
/* CPU time: what the rate of a recording is of, whatever else was sampled. */
bool view_select_is_time(const char *counter);

/* Adds as the counter combines: a sum, which stops at the ends of what numbers can hold, or the largest of
 * peaks. */
void view_select_combine(bool peak, int64_t *sum, int64_t more);
void view_select_add(const struct view_selection *selection, struct view_figure *sum,
                     const struct view_figure *more);

/* The share of a figure in what was taken. Of a peak counter: in the largest value. */
struct view_share view_select_share(const struct view_selection *selection, const struct view_figure *figure);

#endif
