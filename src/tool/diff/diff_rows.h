/* diff_rows.h - what the files of the comparison share: rows, with a figure a run, and what they
 * amount to. Private to src/tool/diff.
 *
 * In order: diff_gather fills rows and figures from the profiles, diff_judge computes changes
 * and verdicts, diff_text or diff_json writes them. Context: tool. */
#ifndef DIFF_ROWS_H
#define DIFF_ROWS_H

#include "base_json.h"
#include "diff.h"
#include "diff_match.h"
#include "diff_statistics.h"
#include "view_select.h"

enum diff_verdict {
    DIFF_CHANGE_NONE, /* exact, and the same */
    DIFF_CHANGE_NOISE,
    DIFF_CHANGE_MORE,
    DIFF_CHANGE_LESS,
    DIFF_CHANGE_NEW,
    DIFF_CHANGE_GONE,
    DIFF_CHANGE_LARGER_SHARE,
    DIFF_CHANGE_SMALLER_SHARE,
    DIFF_CHANGE_VARIES, /* exact, and not deterministic */
};

struct diff_row {
    uint32_t item;  /* the function; of a pair the callee, of a path its innermost */
    uint32_t other; /* of a pair the caller's item; of a path the row of what is outside of its innermost */
    bool listed;    /* has a figure in some run */
    bool significant;
    bool varies; /* exact, and not the same in the runs of a side */
    enum diff_verdict verdict;
    double old_share, new_share, old_cost, new_cost; /* means of the runs */
    uint64_t old_samples, new_samples;               /* sums */
    struct diff_range share, cost;
    double probability; /* NAN: not asked */
};

struct diff {
    const struct diff_options *options;
    const struct diff_run *runs;
    size_t run_count, old_count;
    const char *counter, *unit; /* strings of the first profile */
    bool calls;                 /* the figures are edges, not cells */
    bool exact, peak;
    struct view_selection *selections; /* by run */
    struct view_figure *whole;         /* by run */
    double *effective;                 /* by run: samples that carry the evidence */
    struct diff_matcher matcher;
    struct diff_row *rows; /* index 0 is none: the outside of all paths */
    size_t row_count, row_capacity;
    struct view_figure *figures; /* row * run_count + run */
    size_t figure_capacity;      /* in rows */
    struct base_map map;         /* (other, item) -> row */
    struct diff_row sum;         /* of everything */
    size_t listed, changed;      /* rows; of these, significant */
    uint32_t *order;             /* listed rows; the first `shown` are printed */
    size_t shown;
    bool past; /* limit_rows cut some off */
    struct base_text *out;
    struct base_json *json; /* NULL: text */
    struct base_error *error;
};

int diff_gather(struct diff *diff);
int diff_judge(struct diff *diff);
void diff_text(struct diff *diff);
void diff_json(struct diff *diff);

int diff_memory(struct diff *diff); /* the out-of-memory error */

static inline bool diff_several(const struct diff *diff)
{
    return diff->run_count > 2;
}

/* The change of a row's cost, in percent of what it was: INFINITY for something new, 0 for nothing. */
double diff_percent(const struct diff_row *row);

/* Does the gate fail because of it? */
bool diff_fails(const struct diff *diff, const struct diff_row *row);

/* "within noise", "more" ... */
const char *diff_verdict(enum diff_verdict verdict);

/* Appends "+16.2 %" or "new". */
void diff_percent_text(const struct diff_row *row, struct base_text *out);

/* Was all of the counter counted in every run (profile_extent.h)? */
bool diff_all_counted(const struct diff *diff);

struct diff_own {
    uint64_t samples, all_samples; /* whatever the filters take */
    bool left_out;                 /* none of `samples` is in any figure */
};

/* What of the counter is Tally's own, in the runs from `begin` to before `end`; nothing of exact
 * counters and of calls. */
struct diff_own diff_own(const struct diff *diff, size_t begin, size_t end);

/* Notes on what makes the sides hard to compare, a sentence each; `each` is called in order. */
void diff_notes(struct diff *diff, void (*each)(struct diff *diff, const char *note));

#endif
