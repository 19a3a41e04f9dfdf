/* report_diff_rows.h - what the files of the comparison share: rows, with a figure a run, and what they
 * amount to. Private to src/tool/report.
 *
 * In order: report_diff_gather fills rows and figures from the profiles, report_diff_judge computes changes
 * and verdicts, report_diff_text or report_diff_json writes them. Context: tool. */
#ifndef REPORT_DIFF_ROWS_H
#define REPORT_DIFF_ROWS_H

#include "base_json.h"
#include "report_diff.h"
#include "report_difference.h"
#include "report_match.h"
#include "report_select.h"

enum report_verdict_of_change {
    REPORT_CHANGE_NONE, /* exact, and the same */
    REPORT_CHANGE_NOISE,
    REPORT_CHANGE_MORE,
    REPORT_CHANGE_LESS,
    REPORT_CHANGE_NEW,
    REPORT_CHANGE_GONE,
    REPORT_CHANGE_LARGER_SHARE,
    REPORT_CHANGE_SMALLER_SHARE,
    REPORT_CHANGE_VARIES, /* exact, and not deterministic */
};

struct report_diff_row {
    uint32_t item;  /* the function; of a pair the callee, of a path its innermost */
    uint32_t other; /* of a pair the caller's item; of a path the row of what is outside of its innermost */
    bool listed;    /* has a figure in some run */
    bool significant;
    bool varies; /* exact, and not the same in the runs of a side */
    enum report_verdict_of_change verdict;
    double old_share, new_share, old_cost, new_cost; /* means of the runs */
    uint64_t old_samples, new_samples;               /* sums */
    struct report_range share, cost;
    double probability; /* NAN: not asked */
};

struct report_diff {
    const struct report_diff_options *options;
    const struct report_diff_run *runs;
    size_t run_count, old_count;
    const char *counter, *unit; /* strings of the first profile */
    bool calls;                 /* the figures are edges, not cells */
    bool exact, peak;
    struct report_selection *selections; /* by run */
    struct report_figure *whole;         /* by run */
    double *effective;                   /* by run: samples that carry the evidence */
    struct report_matcher matcher;
    struct report_diff_row *rows; /* index 0 is none: the outside of all paths */
    size_t row_count, row_capacity;
    struct report_figure *figures; /* row * run_count + run */
    size_t figure_capacity;        /* in rows */
    struct base_map map;           /* (other, item) -> row */
    struct report_diff_row sum;    /* of everything */
    size_t listed, changed;        /* rows; of these, significant */
    uint32_t *order;               /* listed rows; the first `shown` are printed */
    size_t shown;
    bool past; /* limit_rows cut some off */
    struct base_text *out;
    struct base_json *json; /* NULL: text */
    struct base_error *error;
};

int report_diff_gather(struct report_diff *diff);
int report_diff_judge(struct report_diff *diff);
void report_diff_text(struct report_diff *diff);
void report_diff_json(struct report_diff *diff);

int report_diff_memory(struct report_diff *diff); /* the out-of-memory error */

static inline bool report_diff_several(const struct report_diff *diff)
{
    return diff->run_count > 2;
}

/* The change of a row's cost, in percent of what it was: INFINITY for something new, 0 for nothing. */
double report_diff_percent(const struct report_diff_row *row);

/* Does the gate fail because of it? */
bool report_diff_fails(const struct report_diff *diff, const struct report_diff_row *row);

/* "within noise", "more" ... */
const char *report_diff_verdict(enum report_verdict_of_change verdict);

/* Appends "+16.2 %" or "new". */
void report_diff_percent_text(const struct report_diff_row *row, struct base_text *out);

/* Was all of the counter counted in every run (profile_extent.h)? */
bool report_diff_all_counted(const struct report_diff *diff);

/* Notes on what makes the sides hard to compare, a sentence each; `each` is called in order. */
void report_diff_notes(struct report_diff *diff, void (*each)(struct report_diff *diff, const char *note));

#endif
