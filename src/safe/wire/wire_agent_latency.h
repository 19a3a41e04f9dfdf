/* wire_agent_latency.h - histograms of how long calls took, in the part `latencies`.
 *
 * Context: anywhere. */
#ifndef WIRE_AGENT_LATENCY_H
#define WIRE_AGENT_LATENCY_H

#include <stdint.h>

#include "wire_latency.h"

/* histograms of a process, and the places (numbers, 0: free) where the agent looks for them */
#define WIRE_AGENT_LATENCIES     1024
#define WIRE_AGENT_LATENCY_SLOTS 4096

/* How long calls took, of one function and group of threads: numbers 1 .. process.latency_count. Times are in
 * ns but for the sum. */
struct wire_agent_latency {
    uint64_t function; /* run-time address of its first instruction */
    uint32_t cookie;   /* of its module */
    uint32_t group;    /* 0: of many, as of cells */
    uint64_t sum;      /* ticks */
    uint64_t least;    /* ~ of the shortest: 0 before there is one */
    uint64_t most;
    uint64_t zero[3];
    uint64_t buckets[WIRE_LATENCY_BUCKETS]; /* calls */
};
_Static_assert(sizeof(struct wire_agent_latency) % 64 == 0, "whole cache lines");

#endif
