/* report.h - a loaded profile in, text out. Writes only into the caller's buffer.
 *
 * What the figures mean, in every view:
 *   self     of samples whose innermost frame it is; total: of samples with it anywhere in the stack, counted
 *            once however often it recurs there
 *   share    of the samples that the filters left; the header says of how many
 *   +-       half of the 95 % Wilson interval (profile_statistics.h); none for exact counters, whose value
 *            stands beside the share instead; of peak counters, which do not add up, the value alone
 * Functions are ELF functions; inlined frames count as functions of their own with `inlines`, and always show
 * in the tree and the paths. A frame without a symbol is called image+0xADDRESS, one without an image
 * [unknown]. Two marks stand in stacks like frames: <signal> above a handler, [stack cut] where the outer
 * part of a stack is missing.
 *
 *   calls    exact, never sampled: "entering+recursive", see report_calls.h. The time of a call is total
 *            divided by entering, with the interval of total. Where no call of a function was counted, both
 *            are empty; where some may have gone uncounted (report_complete.h), calls are "≥1,204" and their
 *            time is not known
 *
 * Context: tool. */
#ifndef REPORT_H
#define REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "base_text.h"
#include "profile.h"

enum report_view {
    REPORT_FLAT,
    REPORT_GRAPH,
    REPORT_TREE,
    REPORT_PATHS,
    REPORT_LOSSES,
    REPORT_EDGES,
    REPORT_CANDIDATES,
    REPORT_LOOPS,
    REPORT_ANNOTATE,
    REPORT_LEAKS,   /* stacks with memory that was not released: the counter is heap.live */
    REPORT_PEAK,    /* stacks with memory at the moment when there was the most of it: heap.peak */
    REPORT_LATENCY, /* how long calls took that were timed */
    REPORT_FDS,     /* stacks that opened what was open at the end, and what that is: fd.live */
};
enum report_by {
    REPORT_BY_FUNCTION,
    REPORT_BY_LINE,
    REPORT_BY_ADDRESS,
    REPORT_BY_IMAGE,
    REPORT_BY_THREAD,
    REPORT_BY_CPU
};

/* Of REPORT_ANNOTATE. Strings are the caller's. */
struct report_annotation {
    const char *function;    /* a name, a pattern of one (* and ?), its beginning, or IMAGE+0xADDRESS */
    const char *image;       /* NULL, or glob on the names of images, or the beginning of a build-id */
    bool assembly;           /* instructions under their lines */
    bool intel;              /* in the syntax of Intel, not of AT&T */
    bool whole;              /* all lines, not only those near the hot ones */
    uint64_t around;         /* lines shown before and after one that counts */
    const char *const *maps; /* "FROM=TO": where sources lie now whose paths begin with FROM */
    size_t map_count;
};

/* What of a profile is looked at; NULL: all of it. */
struct report_part {
    const char *thread;  /* a tid, or a name (glob) */
    const char *process; /* likewise, pid or name */
    const char *
        image; /* glob on the name of the file that a sample's leaf lies in; of calls the caller or the callee */
    const char *cpus; /* "0,2-5" */
    /* The cells are of samples from here to there alone (profile_period.h), in ns; both 0: of the whole
     * recording. Calls are always of all of it, and have no time of one then. */
    uint64_t from_ns, to_ns;
};

struct report_options {
    enum report_view view;
    enum report_by by;    /* of REPORT_FLAT */
    const char *counter;  /* NULL: the first one, time.cpu where there is one, or that of the view */
    double limit_percent; /* rows below are summed up in one line; negative: no limit by share */
    uint64_t limit_rows;  /* 0: no limit by number */
    struct report_part part;
    bool lines;   /* of REPORT_PATHS: lines or addresses of the leaf under each path */
    bool inlines; /* flat and graph: inlined frames count as functions of their own */
    bool json;
    bool color;
    bool ascii;       /* the terminal shows no UTF-8: no box drawing, +- for the plus-minus sign */
    unsigned width;   /* columns of the terminal; 0: do not shorten; under 40 counts as 40 */
    const char *file; /* of the profile, for the header */
    bool debuginfod; /* of REPORT_LOOPS and REPORT_ANNOTATE, which read images: ask for missing debug files */
    const struct report_annotation *annotation; /* of REPORT_ANNOTATE */
    /* of REPORT_CANDIDATES: what is assumed */
    double speedup;     /* how many times faster a moved call runs; 0: however fast */
    uint64_t invoke_ns; /* what each call costs on top, ns */
    uint64_t parallel;  /* 0, or run the calls on so many threads instead; speedup is then 0 */
};

/* Appends the whole report, text or (options->json) one JSON document whose members doc/man/tally-report.1
 * and tally-candidates.1 name. The order of rows depends on nothing but the profile. Nothing is appended on
 * failure. Unknown counters, threads that match nothing and the like are BASE_EUSAGE with a message that
 * lists what there is. */
int report_print(const struct profile *profile, const struct report_options *options, struct base_text *out,
                 struct base_error *error);

#endif
