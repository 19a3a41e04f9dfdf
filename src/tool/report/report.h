/* report.h - a loaded profile in, text out. Writes only into the caller's buffer.
 * Context: tool. */
#ifndef REPORT_H
#define REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base_error.h"
#include "base_text.h"
#include "profile.h"

enum report_view { REPORT_FLAT, REPORT_GRAPH, REPORT_TREE, REPORT_PATHS, REPORT_LOSSES };
enum report_by { REPORT_BY_FUNCTION, REPORT_BY_LINE, REPORT_BY_ADDRESS, REPORT_BY_IMAGE, REPORT_BY_THREAD, REPORT_BY_CPU };

struct report_options {
    enum report_view view;
    enum report_by by;      /* of REPORT_FLAT */
    const char *counter;    /* NULL: the first one, time.cpu where there is one */
    double limit_percent;   /* rows below are summed up in one line; negative: no limit by share */
    uint64_t limit_rows;    /* 0: no limit by number */
    const char *thread;     /* NULL, or a tid or a name (glob) */
    const char *process;    /* likewise, pid or name */
    const char *image;      /* glob on the image's name */
    const char *cpus;       /* "0,2-5" */
    bool lines;             /* of REPORT_PATHS: lines or addresses of the leaf under each path */
    bool inlines;           /* flat and graph: inlined frames count as functions of their own */
    bool json;
    bool color;
    unsigned width;         /* columns of the terminal; 0: do not shorten */
    const char *file;       /* of the profile, for the header */
};

/* Appends the whole report. Unknown counters, threads that match nothing and the like are BASE_EUSAGE with a message
 * that lists what there is. */
int report_print(const struct profile *profile, const struct report_options *options, struct base_text *out,
                 struct base_error *error);

#endif
