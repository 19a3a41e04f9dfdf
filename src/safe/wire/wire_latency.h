/* wire_latency.h - how long calls took, as a histogram: what the agent counts in, and what a profile keeps.
 *
 * The buckets are those of an HDR histogram, log-linear: each power of two is cut into 32 of equal width, so
 * that none is wider than a 32nd of what is in it (3.1 %); below 64 ns each nanosecond has its own. The last
 * one begins at 38.5 hours and has no end.
 *
 * Context: anywhere. Source: G. Tene, HdrHistogram (the layout of its counts, by sub-buckets). */
#ifndef WIRE_LATENCY_H
#define WIRE_LATENCY_H

#include <stdint.h>

#define WIRE_LATENCY_BITS    5  /* of a value that choose its bucket, beside the first that is set */
#define WIRE_LATENCY_HIGHEST 46 /* the power of two that the last buckets are of */
#define WIRE_LATENCY_BUCKETS ((WIRE_LATENCY_HIGHEST - WIRE_LATENCY_BITS + 2) << WIRE_LATENCY_BITS)

static inline uint32_t wire_latency_bucket(uint64_t ns)
{
    if (ns >> (WIRE_LATENCY_HIGHEST + 1) != 0)
        return WIRE_LATENCY_BUCKETS - 1;
    uint32_t highest = 63 - (uint32_t)__builtin_clzll(ns | 1);
    uint32_t shift = highest > WIRE_LATENCY_BITS ? highest - WIRE_LATENCY_BITS : 0;
    return (shift << WIRE_LATENCY_BITS) + (uint32_t)(ns >> shift);
}

/* The least time that is in a bucket; that of the one behind the last is where that would end. */
static inline uint64_t wire_latency_low(uint32_t bucket)
{
    uint32_t each = 1u << WIRE_LATENCY_BITS;
    if (bucket < 2 * each)
        return bucket;
    return (uint64_t)(each + bucket % each) << (bucket / each - 1);
}

#endif
