/* shared_counts.h - what the agent counted beside blocks: exceptions thrown, memory mapped, functions
 * called.
 *
 *   function.calls, function.time   calls of functions that are timed, and ns in them but not in other timed
 *                                   ones
 *   call.count, call.time           calls of instrumented functions, and ns in them but not in those that
 *                                   they call
 *   throw.count                     C++ exceptions thrown or thrown again
 *   map.total                       bytes of whole pages that the program mapped, ever
 *   map.live                        those not unmapped at the end
 *   time.cpu                        ns of CPU time, by samples; or time.user, of that the part in user code;
 *                                   or time.real, to which others add what was waited
 *
 * Published again and again, only differences are added. Figures that cannot be become 0 or the largest that
 * can. Context: tool, one thread. */
#ifndef SHARED_COUNTS_H
#define SHARED_COUNTS_H

#include "shared_nodes.h"

enum shared_count {
    SHARED_THROWN,
    SHARED_MAPPED,
    SHARED_STILL_MAPPED,
    SHARED_CALLED,
    SHARED_TIMED,
    SHARED_TIME,
    SHARED_USER_TIME,
    SHARED_REAL_TIME,
    SHARED_ENTERED,
    SHARED_SPENT,
    SHARED_COUNTS,
};

struct shared_counts {
    struct profile *profile;
    uint16_t counters[SHARED_COUNTS]; /* 0: not counted */
    double ns_of_tick;                /* of the agent's clock, as well as it is known */
    uint64_t samples, sampled_ns;     /* of time, in all */
};

/* What was published of a process so far. Zero it first. */
struct shared_counts_published {
    int64_t (*cells)[SHARED_COUNTS + 1]; /* by the number of the agent's cell; the last is how many samples */
    size_t cell_count;
};

/* `which`: bits of 1 << enum wire_agent_collector; `time`: as which of the three samples of time are
 * counted. */
int shared_counts_init(struct shared_counts *counts, struct profile *profile, uint32_t which,
                       enum shared_count time, struct base_error *error);
/* Adds what the nodes' tree has more than was published; `thread` is the profile's for all threads of the
 * process. */
int shared_counts_publish(struct shared_counts *counts, struct shared_nodes *nodes,
                          struct shared_counts_published *published, uint32_t thread,
                          struct base_error *error);
void shared_counts_published_free(struct shared_counts_published *published);

#endif
