/* profile_heap.h - the counters of memory: what each is called, counted in, and how it combines (enum profile_combine).
 *
 *   heap.total        bytes of all blocks that were ever allocated     heap.count       how many blocks those were
 *   heap.live         bytes that were not released at the end          heap.live.count  how many blocks those were
 *   heap.peak         what each stack held when the whole process held the most
 *   heap.max          the most that each stack held at any time: for one stack alone, it does not add up
 *   heap.largest      the largest single block
 *   heap.temporary    blocks released before the next allocation of the same thread
 *   heap.live.age     how long each stack has had live blocks without a break, at the end
 *
 * The `samples` of their cells are blocks, of heap.total all of them. A resized block counts as a new one.
 * Context: tool. */
#ifndef PROFILE_HEAP_H
#define PROFILE_HEAP_H

#include "profile.h"

enum profile_heap {
    PROFILE_HEAP_TOTAL,
    PROFILE_HEAP_COUNT,
    PROFILE_HEAP_PEAK,
    PROFILE_HEAP_MAX,
    PROFILE_HEAP_LIVE,
    PROFILE_HEAP_LIVE_COUNT,
    PROFILE_HEAP_LARGEST,
    PROFILE_HEAP_TEMPORARY,
    PROFILE_HEAP_AGE,
    PROFILE_HEAP_COUNTERS,
};

/* The counter, made when new; 0 when memory ran out. `exact`: every block was seen, none was only sampled. */
uint32_t profile_heap_counter(struct profile *profile, enum profile_heap which, bool exact);
/* Is it there? 0: it was not counted. */
uint32_t profile_heap_find(const struct profile *profile, enum profile_heap which);
const char *profile_heap_name(enum profile_heap which);

#endif
