/* request.h - what a command line of tally record asks for. Context: tool, one thread. */
#ifndef REQUEST_H
#define REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base_error.h"
#include "base_options.h"
#include "base_text.h"
#include "probe_functions.h"
#include "probe_named.h"
#include "record_session.h"
#include "request_pids.h"

enum { REQUEST_GLOBS = 256 };

enum request_time { REQUEST_TIME_CPU, REQUEST_TIME_USER, REQUEST_TIME_REAL };

/* Globs as typed: texts between commas, cut out of a copy. */
struct request_globs {
    const char *items[REQUEST_GLOBS];
    size_t count;
};

struct request {
    const char *output, *cgroup, *cpus;
    double rate_hz; /* 0: not said */
    uint64_t duration_ns, max_nodes;
    int time_kind; /* enum request_time */
    int engine;    /* enum record_engine */
    int stacks;    /* enum perf_stacks */
    int overhead;  /* enum profile_heap_overhead */
    int empty;     /* enum profile_heap_empty */
    struct probe_named named;
    bool system, kernel, follow, debuginfod, verbose, quiet, calls, no_time, heap, throws, fds, instrumented;
    uint64_t heap_sample_bytes, agent_memory;
    uint64_t timeline_bytes; /* 0: no timeline */
    struct plan_function_request functions[REQUEST_GLOBS];
    size_t function_count;
    struct request_globs call_names, call_images;
    struct request_pids pids;
};

/* tally record, its options read into a struct request. */
extern const struct base_options_command request_command;

/* Do the options go together? `words` is how many the command to run has. Else BASE_EUSAGE with the reason.
 * request_check.c */
int request_check(const struct request *request, int words, struct base_error *error);

/* What is recorded, in words: the command line, or the processes. */
void request_describe(const struct request *request, const struct base_options_rest *rest,
                      struct base_text *line);

/* The same as a session wants it. All strings stay the request's, and `line`. */
struct record_options request_session_options(const struct request *request,
                                              const struct base_options_rest *rest, const char *line);

#endif
