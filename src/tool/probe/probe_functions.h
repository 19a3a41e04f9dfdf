/* probe_functions.h - which functions the agent wraps, by their names.
 * Context: tool. */
#ifndef PROBE_FUNCTIONS_H
#define PROBE_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "loader.h"
#include "probe_named.h"
#include "wire_agent_entry.h"

struct probe_functions_request {
    bool heap;         /* functions that allocate or release */
    bool passes;       /* most blocks only pass: they are sampled by what was asked for */
    bool maps;         /* functions that map memory or unmap it */
    bool throws;       /* functions that throw C++ exceptions */
    bool descriptors;  /* functions that open descriptors or close them */
    bool instrumented; /* what functions call that report their own calls */
    const struct plan_function_request *timed; /* functions that are; outlive the result */
    size_t timed_count;
    /* functions that allocate or release too; outlives the result. NULL: none */
    const struct probe_named *named;
    bool timers; /* functions that concern the timers of threads */
    bool shared; /* the owner reports objects that are loaded */
    bool ends;   /* functions that end the process */
    bool sizes;  /* what blocks really take is asked for: malloc_usable_size and its kin are to be found */
};

struct probe_functions {
    struct loader_function *items; /* malloc'ed; the names are constants */
    size_t count;
    size_t named;      /* the first ones: those with names of the user's, as they were requested */
    size_t allocators; /* those and the next ones, which allocate or release */
    size_t throwers;   /* those after them, which throw */
    size_t timed;      /* from here on: those that are timed, as requested; then what loads an unwinder */
    size_t first_timer, timers; /* the first of those for timers, and how many */
};
int probe_functions_make(struct probe_functions *functions, const struct loader_image *image,
                         const struct probe_functions_request *request, struct base_error *error);

/* Does it report the agent to unwinders? It counts nothing. */
bool probe_functions_reports(const struct loader_function *function);

/* Must this one be hooked, where return addresses are replaced? And which unwinders without a name does it
 * answer (enum plan_image_unwinder)? */
bool probe_functions_unwinds(const struct probe_functions *functions, size_t function);
unsigned probe_functions_answers(const struct probe_functions *functions, size_t function);

/* A function that cannot be timed, because it keeps its return address or looks for its caller by it. */
bool probe_functions_is_odd(const char *name);

/* Does a hook of this function see calls of instrumented functions? */
static inline bool probe_functions_instruments(const struct loader_function *function)
{
    uint32_t entry = function->cookie & 255;
    return entry >= WIRE_AGENT_ENTRY_ENTER && entry <= WIRE_AGENT_ENTRY_EXIT_DEFINED;
}

/* Of enum wire_agent_family; NULL: none. */
const char *probe_functions_usable_size(uint32_t family);
/* A function that only glibc has, beside its allocator. */
#define PROBE_GLIBC "malloc_trim"

/* What an allocator has that remembers by which function a block was given, and ends the program when
 * another kind of function takes it: tcmalloc's for debugging. It is only found, with `heap`. */
#define PROBE_REMEMBERS "_ZN25DebugMallocImplementation15VerifyAllMemoryEv"

#endif
