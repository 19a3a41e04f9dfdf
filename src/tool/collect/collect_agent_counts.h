/* collect_agent_counts.h - what the agent counted beside blocks: exceptions thrown, memory mapped, functions
 * called.
 *
 *   function.calls, function.time   calls of functions that are timed, and ns in them but not in others that
 *                                   are
 *   call.count, call.time   calls of instrumented functions, and ns in them but not in those that they call
 *   throw.count   C++ exceptions thrown or thrown again
 *   map.total     bytes of whole pages that the program mapped, ever        map.live   those not unmapped at
 *                 the end
 *
 *   time.cpu      ns of CPU time, by samples; or time.user, of that the part in user code; or time.real, to
 *                 which others add what was waited
 *
 * Told again and again, only differences are added. Figures that cannot be become 0 or the largest that can.
 * Context: tool, one thread. */
#ifndef COLLECT_AGENT_COUNTS_H
#define COLLECT_AGENT_COUNTS_H

#include "collect_agent_nodes.h"

enum collect_agent_count {
    COLLECT_AGENT_THROWN,
    COLLECT_AGENT_MAPPED,
    COLLECT_AGENT_STILL_MAPPED,
    COLLECT_AGENT_CALLED,
    COLLECT_AGENT_TIMED,
    COLLECT_AGENT_TIME,
    COLLECT_AGENT_USER_TIME,
    COLLECT_AGENT_REAL_TIME,
    COLLECT_AGENT_ENTERED,
    COLLECT_AGENT_SPENT,
    COLLECT_AGENT_COUNTS,
};

struct collect_agent_counts {
    struct profile *profile;
    uint16_t counters[COLLECT_AGENT_COUNTS]; /* 0: not counted */
    double ns_of_tick;                       /* of the agent's clock, as well as it is known */
    uint64_t samples, sampled_ns;            /* of time, in all */
};

/* What was told of a process so far. Zero it first. */
struct collect_agent_counts_told {
    int64_t (*cells)[COLLECT_AGENT_COUNTS +
                     1]; /* by the number of the agent's cell; the last is how many samples */
    size_t cell_count;
};

/* `which`: bits of 1 << enum wire_agent_collector; `time`: as which of the three samples of time are
 * counted. */
int collect_agent_counts_init(struct collect_agent_counts *counts, struct profile *profile, uint32_t which,
                              enum collect_agent_count time, struct base_error *error);
/* Adds what the nodes' tree has more than was told; `thread` is the profile's for all threads of the
 * process. */
int collect_agent_counts_tell(struct collect_agent_counts *counts, struct collect_agent_nodes *nodes,
                              struct collect_agent_counts_told *told, uint32_t thread,
                              struct base_error *error);
void collect_agent_counts_told_free(struct collect_agent_counts_told *told);

#endif
