/* collect_agent_functions.h - which functions the agent wraps, by their names.
 * Context: tool. */
#ifndef COLLECT_AGENT_FUNCTIONS_H
#define COLLECT_AGENT_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "collect_agent_named.h"
#include "patch_agent.h"
#include "wire_agent_entry.h"

struct collect_agent_functions_wish {
    bool heap;         /* functions that allocate or release */
    bool passes;       /* most blocks only pass: they are sampled by what was asked for */
    bool maps;         /* functions that map memory or unmap it */
    bool throws;       /* functions that throw C++ exceptions */
    bool descriptors;  /* functions that open descriptors or close them */
    bool instrumented; /* what functions call that tell of themselves */
    const struct patch_function_wish *timed; /* functions that are; outlive the result */
    size_t timed_count;
    const struct collect_agent_named
        *named;  /* functions that allocate or release too; outlives the result. NULL: none */
    bool timers; /* functions that concern the timers of threads */
    bool hosted; /* somebody else tells of objects that are loaded */
    bool ends;   /* functions that end the process */
    bool sizes;  /* what blocks really take is asked for: malloc_usable_size and its kin are to be found */
};

struct collect_agent_functions {
    struct patch_agent_function *items; /* malloc'ed; the names are constants */
    size_t count;
    size_t named;      /* the first ones: those with names of the user's, as they were wished for */
    size_t allocators; /* those and the next ones, which allocate or release */
    size_t throwers;   /* those after them, which throw */
    size_t timed;      /* from here on: those that are timed, as wished for; then what loads an unwinder */
    size_t first_timer, timers; /* the first of those for timers, and how many */
};
int collect_agent_functions_make(struct collect_agent_functions *functions,
                                 const struct patch_agent_image *image,
                                 const struct collect_agent_functions_wish *wish, struct base_error *error);

/* Does it tell unwinders of the agent? It counts nothing. */
bool collect_agent_functions_tells(const struct patch_agent_function *function);

/* Must this one be hooked, where return addresses are replaced? And which unwinders without a name does it
 * answer (enum patch_image_unwinder)? */
bool collect_agent_functions_unwinds(const struct collect_agent_functions *functions, size_t function);
unsigned collect_agent_functions_answers(const struct collect_agent_functions *functions, size_t function);

/* A function that cannot be timed, because it keeps its return address or looks for its caller by it. */
bool collect_agent_functions_is_odd(const char *name);

/* Does a hook of this function see calls of instrumented functions? */
static inline bool collect_agent_functions_instruments(const struct patch_agent_function *function)
{
    uint32_t entry = function->cookie & 255;
    return entry >= WIRE_AGENT_ENTRY_ENTER && entry <= WIRE_AGENT_ENTRY_EXIT_DEFINED;
}

/* Of enum wire_agent_family; NULL: none. */
const char *collect_agent_functions_usable_size(uint32_t family);
/* A function that only glibc has, beside its allocator. */
#define COLLECT_AGENT_GLIBC "malloc_trim"

/* What an allocator has that remembers by which function a block was given, and ends the program when another kind of function takes
 * it: tcmalloc's for debugging. It is only found, with `heap`. */
#define COLLECT_AGENT_REMEMBERS "_ZN25DebugMallocImplementation15VerifyAllMemoryEv"

#endif
