/* view_options.h - which view of a profile is asked for, of which part of it, and how it is printed.
 * Context: tool. */
#ifndef VIEW_OPTIONS_H
#define VIEW_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum view_kind {
    VIEW_FLAT,
    VIEW_GRAPH,
    VIEW_TREE,
    VIEW_PATHS,
    VIEW_LOSSES,
    VIEW_EDGES,
    VIEW_CANDIDATES,
    VIEW_LOOPS,
    VIEW_ANNOTATE,
    VIEW_LEAKS,   /* stacks with memory that was not released: the counter is heap.live */
    VIEW_PEAK,    /* stacks with memory at the moment when there was the most of it: heap.peak */
    VIEW_LATENCY, /* how long calls took that were timed */
    VIEW_FDS,     /* stacks that opened what was open at the end, and what that is: fd.live */
};
enum view_by {
    VIEW_BY_FUNCTION,
    VIEW_BY_LINE,
    VIEW_BY_ADDRESS,
    VIEW_BY_IMAGE,
    VIEW_BY_THREAD,
    VIEW_BY_CPU,
    VIEW_BY_PROCESS,
    VIEW_BY_COMMAND, /* all processes of one command name */
    VIEW_BY_CGROUP,  /* all of one control group */
};

/* What of the recording stands above a view: four lines, all that it says of itself, or that and no view. */
enum view_header { VIEW_HEADER_SHORT, VIEW_HEADER_FULL, VIEW_HEADER_ALONE };

/* Of VIEW_ANNOTATE. Strings are the caller's. */
struct view_annotation {
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
struct view_part {
    const char *thread;  /* a tid, or a name (glob) */
    const char *process; /* likewise, pid or name */
    /* Glob on the name of the file that a sample's leaf lies in; of calls the caller or the callee. */
    const char *image;
    const char *cpus; /* "0,2-5" */
    /* The cells are of samples from here to there alone (store_period.h), in ns; both 0: of the whole
     * recording. Calls are always of all of it, and have no time of one then. */
    uint64_t from_ns, to_ns;
    bool overhead; /* with what Tally itself ran in the target (profile_own.h), which is left out otherwise */
};

struct view_options {
    enum view_kind view;
    enum view_by by;      /* of VIEW_FLAT */
    const char *counter;  /* NULL: the first one, time.cpu where there is one, or that of the view */
    double limit_percent; /* rows below are summed up in one line; negative: no limit by share */
    uint64_t limit_rows;  /* 0: no limit by number */
    struct view_part part;
    enum view_header header;
    bool lines;   /* of VIEW_PATHS: lines or addresses of the leaf under each path */
    bool inlines; /* flat and graph: inlined frames count as functions of their own */
    bool json;
    bool color;
    bool ascii;       /* the terminal shows no UTF-8: no box drawing, +- for the plus-minus sign */
    unsigned width;   /* columns of the terminal; 0: do not shorten; under 40 counts as 40 */
    const char *file; /* of the profile, for the header */
    bool debuginfod;  /* of VIEW_LOOPS and VIEW_ANNOTATE, which read images: ask for missing debug files */
    const struct view_annotation *annotation; /* of VIEW_ANNOTATE */
    /* of VIEW_CANDIDATES: what is assumed */
    double speedup;     /* how many times faster a moved call runs; 0: however fast */
    uint64_t invoke_ns; /* what each call costs on top, ns */
    uint64_t parallel;  /* 0, or run the calls on so many threads instead; speedup is then 0 */
};

#endif
