/* shared_latency.h - the agent's histograms of how long calls took, into the profile (profile_latency.h).
 *
 * Published again and again, only differences are added; those of several groups of threads become one. The
 * target may have written anything into a histogram: figures that fall are as if they had not, and a sum is
 * between what its calls can have taken. Context: tool, one thread. */
#ifndef SHARED_LATENCY_H
#define SHARED_LATENCY_H

#include "shared_nodes.h"

/* What was published of a process so far. Zero it first. */
struct shared_latency_published {
    struct shared_latency_item *items; /* by the number of the agent's histogram */
    size_t count;
};

/* Adds what the nodes' tree has more than was published; `process` is the profile's. */
int shared_latency_publish(struct shared_nodes *nodes, struct shared_latency_published *published,
                           uint32_t process, double ns_of_tick, struct base_error *error);
void shared_latency_published_free(struct shared_latency_published *published);

#endif
