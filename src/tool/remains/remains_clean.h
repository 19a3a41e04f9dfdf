/* remains_clean.h - removing what a killed tally left in a process.
 *
 * Nothing but the process itself shows what was changed: our memory shows as /memfd:tally among its mappings,
 * and a changed place in its text is one that differs from the file and leads there. Such places are put back
 * as in the file; where somebody else has changed the text, it stays as it is; then our memory is unmapped
 * (remains_drain.h). Gs bases that lead to a block of counters become 0: the fallback block shows what they
 * are relative to, because nothing else of ours below 2 GiB is as large. Before that, nothing can be done for
 * a program that sets gs itself after the kill: stubs count wherever it leads. Context: tool, one thread. */
#ifndef REMAINS_CLEAN_H
#define REMAINS_CLEAN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"
#include "helper.h"

struct remains_cleaned {
    uint64_t places;     /* put back */
    uint64_t mappings;   /* of ours that were found */
    uint64_t bytes_left; /* of ours that stay mapped: a thread may come back there */
    uint64_t bytes_kept; /* of these: for good (loader_kept.h) */
    uint64_t unreadable; /* files that could not be compared with */
};

/* The process is followed; it is held here and released. */
int remains_clean(struct helper *helper, pid_t pid, struct remains_cleaned *cleaned,
                  struct base_error *error);

/* The same with a helper of its own, for `tally detach`. BASE_EBUSY: a living tally, or another tracer, has
 * it. */
int remains_clean_process(pid_t pid, struct remains_cleaned *cleaned, struct base_error *error);

#endif
