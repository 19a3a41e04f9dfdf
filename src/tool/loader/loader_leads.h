/* loader_leads.h - which code of a process leads into memory of ours.
 *
 * Looked at is whatever is executable there now, whoever mapped it and wherever it was moved to:
 *   text of files       pages that are the process's own. A place leads to us if it differs from the file within an instruction (call,
 *                       jmp, jcc, or a short jump to an island that does) that ends in a range: it can be put back. A breakpoint of
 *                       others that stands on its first byte stays there
 *   our other memory    hooks and stubs hold instructions that were moved: jumps and addresses in there are told
 *   text without a file of which the program made anonymous memory (huge pages), among or next to mappings of a file: told
 * Anonymous code elsewhere (a JIT's) was never changed by us. Context: tool; the process stands. Source: proc(5), pagemap. */
#ifndef LOADER_LEADS_H
#define LOADER_LEADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"
#include "proc_maps.h"
#include "trace_memory.h"

#define LOADER_LEADS_OURS "/memfd:tally" /* begins the path of every mapping of ours */

struct loader_range {
    uint64_t address, size; /* run-time */
    bool code;
    bool waits; /* code that threads may be waiting in: they are not stepped */
};

/* The range of code that holds the address; NULL: none. */
const struct loader_range *loader_range_of(const struct loader_range *ranges, size_t count, uint64_t address);

struct loader_leads {
    struct trace_memory_change *changes; /* in text of files; before: as it is, after: as in the file */
    size_t count, capacity;
    uint64_t unreadable; /* files that were changed, and could not be compared with */
    uint64_t others;     /* places that cannot be put back from here */
};

/* What leads into the ranges of code. `maps` are the process's as they are now. BASE_ENOMEM. */
int loader_leads_find(pid_t pid, const struct proc_maps *maps, const struct loader_range *ranges,
                      size_t count, struct loader_leads *leads, struct base_error *error);
void loader_leads_free(struct loader_leads *leads);

#endif
