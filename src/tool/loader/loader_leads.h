/* loader_leads.h - finds the code of a process that jumps into memory of ours.
 *
 * All that is executable there now is searched, whatever mapped it and wherever it was moved to:
 *   text of files       pages that are the process's own copies. A place jumps to us if it differs from the
 *                       file within an instruction (call, jmp, jcc, or a short jump to an island that does)
 *                       whose target is in a range: it can be put back. Another tool's breakpoint on its
 *                       first byte stays
 *   our other memory    hooks and stubs hold instructions that were moved: jumps and addresses in them are
 *                       counted
 *   text without a file which the program has replaced by anonymous memory (huge pages), among or next to
 *                       mappings of a file: counted
 * Anonymous code elsewhere (a JIT's) was never changed by us. Context: tool; the process is held. Source:
 * proc(5), pagemap. */
#ifndef LOADER_LEADS_H
#define LOADER_LEADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"
#include "proc_maps.h"
#include "trace_memory.h"

/* Is it mapped from a file of ours: of exact calls, of the agent, or what is kept (loader_kept.h)? */
bool loader_leads_is_ours(const struct proc_mapping *mapping);
/* Of exact calls (helper_trace_share without a name)? */
bool loader_leads_is_of_calls(const struct proc_mapping *mapping);

struct loader_range {
    uint64_t address, size; /* run-time */
    bool code;
    bool waits; /* code that threads may wait in: they are not stepped */
};

/* The range of code that has the address; NULL: none. */
const struct loader_range *loader_range_of(const struct loader_range *ranges, size_t count, uint64_t address);

struct loader_leads {
    struct trace_memory_change *changes; /* in text of files; before: as it is, after: as in the file */
    size_t count, capacity;
    uint64_t unreadable; /* changed files that could not be read to compare */
    uint64_t others;     /* places that cannot be put back from here */
};

/* Finds what jumps into the ranges of code. `maps` are the process's as they are now. BASE_ENOMEM. */
int loader_leads_find(pid_t pid, const struct proc_maps *maps, const struct loader_range *ranges,
                      size_t count, struct loader_leads *leads, struct base_error *error);
void loader_leads_free(struct loader_leads *leads);

#endif
