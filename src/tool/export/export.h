/* export.h - a loaded profile in, the bytes of another tool's format out. doc/export.md says what becomes of
 * what.
 *
 * Nothing is opened here: bytes go to the caller's function in pieces of some ten kilobytes, so that a
 * document may be larger than memory. The same profile gives the same bytes.
 *
 * Names come from untrusted programs and may hold anything: each format gets them so that its readers still
 * find the ends of fields and lines.
 *
 * Context: tool. */
#ifndef EXPORT_H
#define EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "profile.h"
#include "store_timeline.h"

enum export_format {
    EXPORT_PPROF,      /* profile.proto, gzip */
    EXPORT_CALLGRIND,  /* callgrind_annotate, KCachegrind */
    EXPORT_FOLDED,     /* one line a stack: flamegraph.pl and tools that read its format */
    EXPORT_SPEEDSCOPE, /* JSON, schema of speedscope */
    EXPORT_CSV,        /* RFC 4180 */
    EXPORT_HTML,       /* a page of its own, web/ */
    EXPORT_MASSIF,     /* ms_print; needs the counter heap.peak */
    EXPORT_GPROF,      /* text as gprof's; needs `counter`, one in ns */
    EXPORT_FIREFOX,    /* JSON, processed format of the Firefox Profiler; needs `counter` */
    EXPORT_PERFETTO,   /* JSON, Trace Event Format; needs `counter`, one in ns, and `times` */
};

enum export_table { EXPORT_FLAT, EXPORT_TREE, EXPORT_EDGES, EXPORT_COUNTERS };

/* Which cells and edges; by index of the profile, NULL: all. The image of a cell is that of its leaf; an edge
 * is taken when its caller or its callee lies in one. Calls have no CPU: with `cpus` none are. */
struct export_part {
    const bool *threads, *images;
    const uint8_t *cpus; /* a bit each */
    bool period;         /* the cells are of a part of the time (store_period.h): no calls either */
};

/* A JSON document, such as a report, put into the page as the element "tally-NAME"; names are letters, digits
 * and '-'. */
struct export_document {
    const char *name, *bytes;
    size_t length;
};

struct export_options {
    enum export_format format;
    enum export_table table; /* of EXPORT_CSV */
    struct export_part part;
    uint16_t counter;   /* this one alone; 0: all. EXPORT_FOLDED needs one unless there is none */
    uint16_t preferred; /* what pprof shows first; 0: the last */
    bool samples;       /* EXPORT_FOLDED: how many samples, instead of the counter's value */
    bool threads;       /* EXPORT_FOLDED, EXPORT_SPEEDSCOPE: threads apart, not only processes */
    bool inlines; /* EXPORT_CALLGRIND, EXPORT_GPROF, EXPORT_FLAT: inlined frames are functions of their own */
    bool marks;   /* EXPORT_FOLDED: _[k] behind kernel functions, _[i] behind inlined, _[j] generated ones */
    const char *creator; /* "tally 0.1.0" */
    const char *file;    /* name of the profile */
    /* EXPORT_FIREFOX, EXPORT_PERFETTO: when samples were, as store_timeline_read gives it; NULL or empty:
     * not known */
    const struct store_timeline_list *times;
    /* EXPORT_HTML: what the page has beside the profile itself, as it is */
    const struct export_document *documents;
    size_t document_count;
    const struct profile *against; /* NULL, or an earlier one that differences are drawn to */
    const char *against_file;
    struct export_part against_part; /* of it; its threads, images and counters have other numbers */
    uint16_t against_counter;
    const struct export_timeline *timeline; /* NULL, or when samples were taken (export_timeline.h) */
};

/* Was the page there when this program was built? Without it EXPORT_HTML fails. */
bool export_has_page(void);

/* Takes `length` bytes; false: it could not, and nothing more is to be sent. */
typedef bool export_sink(void *context, const void *bytes, size_t length);

/* BASE_EUNSUPPORTED: this build has no page. BASE_ENOMEM has a message, BASE_EIO none: the sink refused and
 * knows why. What was sent until then is of no use. */
int export_profile(const struct profile *profile, const struct export_options *options, export_sink *sink,
                   void *context, struct base_error *error);

#endif
