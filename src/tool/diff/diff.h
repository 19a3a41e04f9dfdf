/* diff.h - recordings before and after a change, compared; what is change and what is noise.
 *
 * One row a function (or stack, or pair of caller and callee), matched by diff_match.h. Of a sampled
 * counter a row has the change of its share and of its cost, each with a 95 % interval, and a verdict
 * (diff_statistics.h has the statistics):
 *
 *   significance is decided on shares: a machine that ran faster or slower in one recording changes the costs
 *   of all functions alike and their shares not at all. A significant row whose cost changed the same way
 *   costs "more" or "less"; one whose cost did not, beyond its interval, has only a "larger share" or
 *   "smaller share" because others changed. The whole program is judged on its cost, which takes several runs
 *   a side; from one run a side it is not known how much runs of the program differ, and that is said.
 *
 * Exact figures compare exactly. One that differs between runs of one side is not deterministic; it is judged
 * by the spread of the runs where both sides have several, else not at all. Context: tool. */
#ifndef DIFF_H
#define DIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "base_text.h"
#include "profile.h"
#include "view_options.h"

struct diff_run {
    const struct profile *profile;
    const char *file;
};

enum diff_view {
    DIFF_FUNCTIONS,
    DIFF_PATHS, /* whole stacks; a function that recurs directly counts once */
    DIFF_EDGES, /* exact calls, by caller and callee */
};

struct diff_options {
    enum diff_view view;
    /* NULL: time.cpu, or the first that all have; PROFILE_CALLS: exact calls, by function */
    const char *counter;
    struct view_part part; /* of each run: shares are of that part. Of exact calls there is no `cpus` */
    bool total;            /* of functions: with all they call */
    bool significant;      /* only rows that changed beyond noise */
    double fail_above;     /* percent; negative: no gate */
    double limit_percent; /* rows within noise below this share on both sides are summed up; negative: none */
    uint64_t limit_rows;  /* 0: any number */
    bool json, color, ascii;
    unsigned width; /* columns; 0: do not shorten */
};

/* What the gate found: rows whose cost rose significantly and by more than fail_above percent. */
struct diff_gate {
    size_t failed;
    struct base_text names; /* "work (+16.2 %), parse (new)"; the caller frees it */
};

/* runs[0 .. old_count - 1] is the old side, the rest the new one; both have one at least. */
struct diff_sides {
    const struct diff_run *runs;
    size_t count, old_count;
};

/* Appends text, or one JSON document whose members doc/man/tally-diff.1 names; nothing on failure. Sides
 * that cannot be compared (no such counter, other counters, nothing in common) are BASE_EUSAGE with the
 * reason. `gate` may be NULL. */
int diff_print(const struct diff_sides *sides, const struct diff_options *options, struct diff_gate *gate,
               struct base_text *out, struct base_error *error);

#endif
