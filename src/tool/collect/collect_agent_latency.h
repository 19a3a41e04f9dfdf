/* collect_agent_latency.h - the agent's histograms of how long calls took, into the profile
 * (profile_latency.h).
 *
 * Told again and again, only differences are added; those of several groups of threads become one. A
 * histogram comes from a stranger's memory: figures that fall are as if they had not, and a sum is between
 * what its calls can have taken. Context: tool, one thread. */
#ifndef COLLECT_AGENT_LATENCY_H
#define COLLECT_AGENT_LATENCY_H

#include "collect_agent_nodes.h"

/* What was told of a process so far. Zero it first. */
struct collect_agent_latency_told {
    struct collect_agent_latency_item *items; /* by the number of the agent's histogram */
    size_t count;
};

/* Adds what the nodes' tree has more than was told; `process` is the profile's. */
int collect_agent_latency_tell(struct collect_agent_nodes *nodes, struct collect_agent_latency_told *told,
                               uint32_t process, double ns_of_tick, struct base_error *error);
void collect_agent_latency_told_free(struct collect_agent_latency_told *told);

#endif
