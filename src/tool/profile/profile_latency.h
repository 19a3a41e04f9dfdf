/* profile_latency.h - how long calls took that were timed (tally record --function): written by collectors,
 * read by reports.
 *
 * A histogram for each process and function, in the buckets of wire_latency.h, of whole times: from a call to
 * its return, with all that it called. Of a recursive function each call counts for itself. Beside the
 * buckets the least, the most and the sum are kept. Rows are of no stack: folding the tree changes nothing of
 * them. Context: tool, one thread. */
#ifndef PROFILE_LATENCY_H
#define PROFILE_LATENCY_H

#include "profile.h"
#include "wire_latency.h"

/* The row of a function's first address in a process, made when new: of no call yet. Rows stay. 0: memory ran
 * out, or there is no such process or address. */
uint32_t profile_latency(struct profile *profile, uint32_t process, uint32_t address);
/* Adds what further calls took in all, and the least and the most of all so far (ns). All stop at
 * INT64_MAX. */
void profile_add_latency(struct profile *profile, uint32_t latency, uint64_t sum_ns, uint64_t min_ns,
                         uint64_t max_ns);
/* So many calls more in a bucket. False when memory ran out: the caller still holds them. */
bool profile_add_latency_calls(struct profile *profile, uint32_t latency, uint32_t bucket, uint64_t calls);

/* A function over processes. */
struct profile_latency_sum {
    uint32_t address;
    uint64_t sum_ns, min_ns, max_ns;
    uint64_t buckets[WIRE_LATENCY_BUCKETS]; /* calls */
};
/* Of the processes that are taken (NULL: all), in the order of their addresses; the caller frees them. */
int profile_latency_sums(const struct profile *profile, const bool *processes,
                         struct profile_latency_sum **sums, size_t *count, struct base_error *error);
uint64_t profile_latency_calls(const struct profile_latency_sum *sum);
/* The time that `permille` of 1000 calls did not pass, as far as buckets tell: the end of the one that it is
 * in, or max_ns. */
uint64_t profile_latency_at(const struct profile_latency_sum *sum, unsigned permille);

#endif
