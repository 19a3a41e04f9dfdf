/* profile.h - the model: what a session leaves, in memory.
 *
 *   string   interned text                          image    an ELF file, the kernel, generated code ...
 *   process, thread                                 address  (image, address in it), with what it resolves to
 *   function a name in an image                     node     (parent, address): a calling context
 *   counter  one named column of figures            cell     (node, thread, cpu, counter) -> value, samples
 *   edge     (site, callee, thread, kind) -> calls: counted without exception, apart from the tree
 *   coverage, left, uncovered   what of an image is counted, what was left alone and why
 *   peak     how high a counter ever was in a process, and when
 *   latency, bucket   how long the calls of a function took in a process
 *   descriptor   one that was open at the end, and what it was
 *
 * Everything is an index into one of the arrays below, 0 being "none" (and node 0 the root), so that a node
 * is a few bytes and a file stores the same numbers. Recording adds; flushing (store.h) writes what
 * changed since the last time; a report loads the same structure and only reads. Memory grows with distinct
 * stacks, not with samples.
 *
 * An address in a caller's frame is its return address minus one (so it lies inside the call); in a leaf or
 * an interrupted frame it is the program counter itself.
 *
 * Functions that return an index return 0 when memory ran out or a limit was reached (the loss is counted by
 * this module).
 * Context: tool, one thread. */
#ifndef PROFILE_H
#define PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "base_map.h"

enum profile_image_kind {
    PROFILE_IMAGE_FILE = 1, /* an ELF file */
    PROFILE_IMAGE_VDSO,
    PROFILE_IMAGE_KERNEL,  /* name "[kernel]" or "[module]" */
    PROFILE_IMAGE_JIT,     /* generated code; addresses are run-time ones; one image per process */
    PROFILE_IMAGE_SPECIAL, /* names that are no code: "(folded)", "(unknown)" */
};

/* The names of the images of what Tally itself runs inside a target, where samples meet it: a cost, nothing of
 * the program's (profile_own.h). Stubs have no code of their own in a profile: the image is special. */
#define PROFILE_AGENT_IMAGE "[tally-agent]"
#define PROFILE_STUBS_IMAGE "[tally-stubs]"

struct profile_image {
    uint32_t name;     /* string: what reports show: the file's last component */
    uint32_t path;     /* string: as the target mapped it */
    uint32_t build_id; /* string: hexadecimal, 0 when none */
    uint32_t kind;     /* enum profile_image_kind */
    uint32_t process;  /* of generated code: whose; else 0 */
};

struct profile_process {
    int32_t pid, parent_pid;
    uint32_t name;             /* string: command name */
    uint32_t command;          /* string: command line, words quoted where needed; 0 unknown */
    uint64_t start_ns, end_ns; /* since the start of the recording; end 0: still running at its end */
    uint32_t origin;           /* of merged profiles, from 1: which recording it is of (profile_origin) */
    uint32_t cgroup;           /* string: its control group when it was met last; 0 unknown */
};

struct profile_thread {
    uint32_t process; /* index */
    int32_t tid;
    uint32_t name; /* string */
};

enum profile_resolution {
    PROFILE_UNRESOLVED = 0, /* nobody has looked */
    PROFILE_RESOLVED,       /* function (and lines, where there are any) are final */
    PROFILE_NO_SYMBOL,      /* looked, found nothing */
};

struct profile_address {
    uint64_t address; /* image address */
    uint32_t image;
    uint32_t function;  /* 0: none (yet) */
    uint32_t file;      /* string; of the outermost level; 0 unknown */
    uint32_t line;      /* 0 unknown */
    uint32_t inlined;   /* index of the innermost inlined level, 0 none */
    uint8_t resolution; /* enum profile_resolution */
    bool lines_known;   /* lines were looked for */
};

/* One level of inlining at an address; levels are chained from the innermost outwards. */
struct profile_inlined {
    uint32_t function_name; /* string */
    uint32_t file, line;    /* where execution is inside this level */
    uint32_t outer;         /* index of the next level outwards; 0: the ELF function itself */
};

struct profile_function {
    uint32_t name; /* string, demangled */
    uint32_t image;
    uint64_t start, end; /* image addresses */
};

enum profile_node_flag {
    PROFILE_NODE_SIGNAL = 1,        /* this frame was interrupted by a signal, its child is the handler */
    PROFILE_NODE_FRAME_POINTER = 2, /* reached by frame pointer */
    PROFILE_NODE_KERNEL = 4,
    PROFILE_NODE_CUT = 8, /* the stack above is missing: parent is the root, and this is no outermost frame */
};

struct profile_node {
    uint32_t parent;  /* node; 0 is the root */
    uint32_t address; /* 0 only in the root and in free slots */
    uint32_t flags;
};

/* How figures of two cells become one: of stacks, threads, processes and recordings. */
enum profile_combine {
    PROFILE_SUM = 1, /* added up */
    PROFILE_PEAK,    /* the largest: each is a maximum of its own, and their sum was never there */
    PROFILE_LIVE,    /* added up over stacks: what was there at one moment, not what came in a time */
};

struct profile_counter {
    uint32_t name, unit; /* strings: "time.cpu", "ns" */
    bool exact;          /* else sampled: shares carry an interval */
    uint32_t combine;    /* enum profile_combine */
};

/* Whose value it is; a cell has one of each. */
struct profile_key {
    uint32_t node, thread;
    uint16_t cpu, counter; /* cpu PROFILE_NO_CPU: unknown */
};

struct profile_cell {
    uint32_t node, thread;
    uint16_t cpu, counter; /* cpu PROFILE_NO_CPU: unknown */
    uint32_t dirty;        /* private to the store */
    int64_t value;         /* in the counter's unit */
    uint64_t samples;
};
#define PROFILE_NO_CPU UINT16_MAX

enum profile_call_kind {
    PROFILE_CALL_DIRECT = 1, /* call to a fixed address, also through a PLT */
    PROFILE_CALL_INDIRECT,   /* call through a register or memory */
    PROFILE_CALL_TAIL,       /* jump to another function; the site may be unknown */
    PROFILE_CALL_ENTRY,      /* seen at the callee's entry, the caller unknown */
    PROFILE_CALL_KINDS,
};

/* The figures of the counter PROFILE_CALLS, which is in every profile that has an edge. */
struct profile_edge {
    /* Address of the call instruction plus its length minus one, as of a caller's frame; 0 unknown. */
    uint32_t site;
    uint32_t callee; /* address of the callee's first instruction */
    uint32_t thread; /* 0: unknown, or many */
    uint32_t kind;   /* enum profile_call_kind */
    uint64_t calls;  /* at most INT64_MAX */
};
#define PROFILE_CALLS "calls" /* name and unit of the counter */

/* What of an image's calls is counted: of so many found, so many. */
enum profile_coverage_kind {
    PROFILE_COVERAGE_SITES = 1, /* calls, and jumps to other functions */
    PROFILE_COVERAGE_INDIRECT,  /* of these, those through a register or memory */
    PROFILE_COVERAGE_FUNCTIONS, /* functions that somebody can call; those whose every call is counted */
    PROFILE_COVERAGE_TAKEN,     /* functions called by address; those with a hook at their entry */
    PROFILE_COVERAGE_LISTED,    /* functions given to profile_set_uncovered; those it kept. Set by it alone */
    PROFILE_COVERAGE_KINDS,
};

struct profile_coverage {
    uint32_t image, kind;    /* enum profile_coverage_kind */
    uint64_t found, counted; /* counted <= found <= INT64_MAX */
};

/* Sites or functions of an image that were left alone for one reason. */
struct profile_left {
    uint32_t image, code; /* the reason's number in the collector's table: it is never reused */
    uint32_t reason;      /* string: its sentence, which says what is counted */
    uint64_t count;       /* at most INT64_MAX */
};

/* One function whose calls are not all counted. */
struct profile_uncovered {
    uint64_t address; /* image address of its first instruction */
    uint32_t image;
    uint32_t name, reason; /* strings; name 0: it has none */
};
#define PROFILE_UNCOVERED_MOST 1000 /* kept of one image */

/* The highest that a counter's sum over all stacks of a process ever was. */
struct profile_peak {
    uint32_t process, counter;
    int64_t value;    /* in the counter's unit */
    uint64_t time_ns; /* since the start of the recording */
};

/* How long the calls of a function took in a process (profile_latency.h). */
struct profile_latency {
    uint32_t process, address; /* of the function's first instruction */
    uint64_t sum_ns, min_ns,
        max_ns; /* at most INT64_MAX; min_ns is more than max_ns when there was no call */
};
struct profile_latency_bucket {
    uint32_t latency, bucket; /* index of the former, and a bucket of wire_latency.h */
    uint64_t calls;           /* at most INT64_MAX */
};

enum profile_descriptor_origin {
    PROFILE_DESCRIPTOR_OPENED = 1, /* while it was recorded: node says by whom */
    PROFILE_DESCRIPTOR_BEFORE,     /* it was open when the recording, or the program, began */
    PROFILE_DESCRIPTOR_INHERITED,  /* it was open when the process was forked */
    PROFILE_DESCRIPTOR_UNSEEN,     /* nobody saw it opened: a loss */
    PROFILE_DESCRIPTOR_ORIGINS,
};

/* A file descriptor that was open when its process ended, or when the recording did. */
struct profile_descriptor {
    uint32_t process;
    uint32_t node;       /* the stack that opened it; 0: not known */
    uint32_t number;     /* as the process knows it */
    uint32_t origin;     /* enum profile_descriptor_origin; 0: the row is not used */
    uint32_t kind, name; /* strings: "file", "tcp", "pipe" ...; the path, the addresses; name 0: not known */
    uint64_t opened_ns;  /* since the start of the recording; of OPENED only */
    uint64_t age_ns;     /* from then to the end; likewise */
};

struct profile_meta {
    uint32_t key, value; /* strings */
};

#define PROFILE_LOSSES 96

struct profile {
    /* index 0 of each array is the "none" entry */
    struct profile_image *images;
    struct profile_process *processes;
    struct profile_thread *threads;
    struct profile_address *addresses;
    struct profile_inlined *inlined;
    struct profile_function *functions;
    struct profile_node *nodes;
    struct profile_counter *counters;
    struct profile_cell *cells; /* index 0 is a real cell here */
    struct profile_meta *meta;  /* likewise */
    struct profile_edge *edges; /* index 0 is none; of the next three too */
    struct profile_coverage *coverage;
    struct profile_left *left;
    struct profile_uncovered *uncovered;
    struct profile_peak *peaks; /* index 0 is none; of the next three too */
    struct profile_descriptor *descriptors;
    struct profile_latency *latencies;
    struct profile_latency_bucket *latency_buckets;
    size_t image_count, process_count, thread_count, address_count, inlined_count, function_count, node_count,
        counter_count, cell_count, meta_count, edge_count, coverage_count, left_count, uncovered_count,
        peak_count, descriptor_count, latency_count, latency_bucket_count;
    uint64_t losses[PROFILE_LOSSES];
    uint32_t max_nodes;      /* set before the first node; default 1,000,000 */
    uint32_t live_nodes;     /* nodes in use (freed slots are reused) */
    uint32_t folded_address; /* the special address "(folded)"; 0 until needed */
    /* Interning tables, strings, dirty marks (profile_model.h): for this module, store and merge. */
    struct profile_model *self;
};

struct profile *profile_new(void);
void profile_free(struct profile *profile);

/* --- strings --- */
uint32_t profile_string(struct profile *profile, const char *text); /* "" and NULL give 0 */
const char *profile_text(const struct profile *profile,
                         uint32_t string); /* never NULL; valid until profile_free */

/* --- what was profiled; the same key gives the same index --- */
uint32_t profile_image(struct profile *profile, uint32_t kind, const char *path, const char *build_id,
                       uint32_t process);
uint32_t profile_process(struct profile *profile, int32_t pid,
                         uint64_t start_ns); /* a new one each time (pids are reused) */
uint32_t profile_thread(struct profile *profile, uint32_t process, int32_t tid); /* a new one each time */
uint32_t profile_counter(struct profile *profile, const char *name, const char *unit, bool exact,
                         uint32_t combine);
uint32_t profile_counter_named(const struct profile *profile, const char *name); /* 0: there is none */
uint32_t profile_address(struct profile *profile, uint32_t image, uint64_t address);
uint32_t profile_function(struct profile *profile, uint32_t image, const char *name, uint64_t start,
                          uint64_t end);
uint32_t profile_inlined(struct profile *profile, const char *function, const char *file, uint32_t line,
                         uint32_t outer);

/* Setters that mark what they change for the store. */
void profile_set_process(struct profile *profile, uint32_t process, const struct profile_process *value);
void profile_set_thread_name(struct profile *profile, uint32_t thread, const char *name);
void profile_set_address(struct profile *profile, uint32_t address, const struct profile_address *value);
/* What was counted exactly is not any more. */
void profile_set_sampled(struct profile *profile, uint32_t counter);
void profile_set_meta(struct profile *profile, const char *key, const char *value);
void profile_set_metaf(struct profile *profile, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
const char *profile_meta(const struct profile *profile, const char *key); /* NULL when absent */
/* The same of one of the recordings that a profile was merged from (merge.h); NULL for origin 0,
 * too. */
const char *profile_origin(const struct profile *profile, uint32_t origin, const char *key);

/* --- the tree --- */
/* The child of `parent` at `address`; made when new. At max_nodes the coldest subtrees are folded first (node
 * indices held by the caller are invalid after profile_folds() changed). */
uint32_t profile_node(struct profile *profile, uint32_t parent, uint32_t address, uint32_t flags);
uint64_t profile_folds(const struct profile *profile); /* how often folding happened */
/* A whole stack, outermost first; returns its leaf. Survives folding in between. */
uint32_t profile_stack(struct profile *profile, const uint32_t *addresses, const uint32_t *flags,
                       size_t count);

/* Adds to a cell; of a PROFILE_PEAK counter, the larger value stays. */
void profile_count(struct profile *profile, struct profile_key key, int64_t value, uint64_t samples);
void profile_lose(struct profile *profile, unsigned reason, uint64_t count); /* enum wire_loss */

/* --- exact calls --- */
/* The counter of calls. A collector that counts calls asks for it at its start: a profile that has it and no
 * edge says that there was no call, one without it that none was counted. */
uint32_t profile_calls_counter(struct profile *profile);
/* Is it there? 0: calls were not counted. */
uint32_t profile_counts_calls(const struct profile *profile);
/* The edge with this key; made, with no calls and with the counter, when new. Edges stay: the index is good
 * as long as the profile. 0 when memory ran out or there is no such callee, kind or thread: nothing was lost
 * that the caller does not still hold, it may try again. */
uint32_t profile_edge(struct profile *profile, uint32_t site, uint32_t callee, uint32_t thread,
                      uint32_t kind);
/* Adds to an edge, or sets what it amounts to so far (for whoever reads running totals). Both stop at
 * INT64_MAX; edge 0 is nobody's. */
void profile_add_calls(struct profile *profile, uint32_t edge, uint64_t calls);
void profile_set_calls(struct profile *profile, uint32_t edge, uint64_t calls);

/* --- what of an image is counted --- */
/* Each may be said again, for a second process or a second plan: what was said before of the same thing is
 * replaced. What is no image or no kind is ignored; what memory ran out for is counted as a loss, and what
 * was said before stays. */
/* `counted` past `found`, and either past INT64_MAX, is cut. */
void profile_set_coverage(struct profile *profile, uint32_t image, enum profile_coverage_kind kind,
                          uint64_t found, uint64_t counted);
/* So many sites or functions are left alone for the reason `code`, whose sentence is kept beside it. */
void profile_set_left(struct profile *profile, uint32_t image, uint32_t code, const char *reason,
                      uint64_t count);
/* A function whose calls are not all counted: `address` of the image, `name` as reports show it (NULL: none),
 * `reason` a sentence. The first PROFILE_UNCOVERED_MOST of an image are kept, in the order in which they are
 * given; how many there are in all is PROFILE_COVERAGE_LISTED. */
void profile_set_uncovered(struct profile *profile, uint32_t image, uint64_t address, const char *name,
                           const char *reason);

/* How high `counter` was in `process`, and when; what was said before of the two is replaced, unless it was
 * higher (a process may run several programs, one after the other). Ignored when there is no such process or
 * counter; a loss when memory ran out. */
void profile_set_peak(struct profile *profile, uint32_t process, uint32_t counter, int64_t value,
                      uint64_t time_ns);

/* --- descriptors --- */
/* A row that is complete; its index, or 0: something in it is not there, or memory ran out (a loss). */
uint32_t profile_add_descriptor(struct profile *profile, const struct profile_descriptor *descriptor);
/* What is known of it is replaced; with origin 0 it was closed after all, and the row serves again. */
void profile_set_descriptor(struct profile *profile, uint32_t row,
                            const struct profile_descriptor *descriptor);
const char *profile_descriptor_origin_name(uint32_t origin); /* "opened", "before" ...; "" */

/* --- timeline (only with --timeline): time since start (ns), thread, node, counter --- */
/* One sample, which profile_count has had too. Past the limit it is counted as a loss and nothing else. */
void profile_timeline_add(struct profile *profile, uint64_t time_ns, uint32_t thread, uint32_t node,
                          uint16_t cpu, uint16_t counter);
/* From now on the timeline ends with the block of samples that brings it to `bytes`, compressed; 0, as at
 * first: never. */
void profile_timeline_limit(struct profile *profile, uint64_t bytes);
/* How many samples of it are packed, which is all of them after a flush, and the bytes they take. */
uint64_t profile_timeline_size(const struct profile *profile, uint64_t *bytes);

/* Every invariant of the arrays (parents before use, indices in range, no cycles); for tests and for loaded
 * files. */
int profile_check(const struct profile *profile, struct base_error *error);

#endif
