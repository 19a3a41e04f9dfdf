/* profile_heap.h - the counters of memory: what each is called, counted in, and how it combines (enum
 * profile_combine).
 *
 *   heap.total        bytes of all blocks that were ever allocated
 *   heap.count        how many blocks those were
 *   heap.live         bytes that were not released at the end
 *   heap.live.count   how many blocks those were
 *   heap.peak         what each stack held when the whole process held the most
 *   heap.max          the most that each stack held at any time: for one stack alone, it does not add up
 *   heap.largest      the largest single block
 *   heap.temporary    blocks released before the next allocation of the same thread
 *   heap.live.age     how long each stack has had live blocks without a break, at the end
 *
 *   empty.bytes       whole pages of blocks that nobody made use of (enum profile_heap_empty): when they were
 *                     released, or at the end
 *
 * Bytes are what the profile's meta heap_overhead says (enum profile_heap_overhead); without it, what was
 * asked for.
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

/* What of a block is counted. */
enum profile_heap_overhead {
    PROFILE_HEAP_REQUESTED, /* what was asked for */
    PROFILE_HEAP_INCLUDE,   /* what the allocator took for it: its usable size and its header */
    PROFILE_HEAP_DELTA,     /* what it took beyond what was asked for */
    PROFILE_HEAP_MIXED,     /* not the same in the recordings that were merged */
};
/* As --heap-overhead and meta have it: "none", "include", "delta"; "mixed". */
const char *profile_heap_overhead_name(enum profile_heap_overhead overhead);
enum profile_heap_overhead profile_heap_overhead(const struct profile *profile);

/* Which pages empty.bytes are of, by meta empty_pages. */
enum profile_heap_empty {
    PROFILE_HEAP_EMPTY_NONE,   /* not looked for */
    PROFILE_HEAP_EMPTY_ZERO,   /* only zeros are in them */
    PROFILE_HEAP_EMPTY_INIT,   /* only zeros, which the program wrote or had calloc write */
    PROFILE_HEAP_EMPTY_UNUSED, /* nothing was ever written to them */
    PROFILE_HEAP_EMPTY_MIXED,  /* not the same in the recordings that were merged */
};
/* "none", "zero", "init", "unused"; "mixed". */
const char *profile_heap_empty_name(enum profile_heap_empty which);
enum profile_heap_empty profile_heap_empty(const struct profile *profile);

/* The counter, made when new; 0 when memory ran out. `exact`: every block was seen, none was only sampled. */
uint32_t profile_heap_counter(struct profile *profile, enum profile_heap which, bool exact);
/* Is it there? 0: it was not counted. */
uint32_t profile_heap_find(const struct profile *profile, enum profile_heap which);
const char *profile_heap_name(enum profile_heap which);

/* Of the process that held the most at one time; NULL: that is not known. *count: of how many processes it
 * is. */
const struct profile_peak *profile_heap_highest(const struct profile *profile, size_t *count);

#endif
