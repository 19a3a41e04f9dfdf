/* report_heap.h - what was counted of a program's memory, in one line.
 * Context: tool. */
#ifndef REPORT_HEAP_H
#define REPORT_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base_text.h"
#include "profile_heap.h"

struct report_heap {
    bool exact;
    /* Over all stacks, as each combines; heap.peak: of every process's own peak. */
    int64_t sums[PROFILE_HEAP_COUNTERS];
    const struct profile_peak *highest; /* of the process that held the most at one time; NULL: not known */
    size_t peaks;                       /* of how many processes it is known */
};

/* False: no memory was counted. */
bool report_heap_gather(const struct profile *profile, struct report_heap *heap);

/* Appends "heap: not counted (reason)" when nothing was, else "heap: 1.20 GiB in 3,400,000 blocks, peak
 * 55.3 MiB at 1.23 s, 12.0 KiB live in 3 blocks, 12.3 % temporary", and "; not all was counted" when
 * losses stand against it (profile_extent.h). */
void report_heap_text(struct base_text *out, const struct profile *profile, const struct report_heap *heap,
                      bool ascii);
/* "heap: peak 55.3 MiB, 12.0 KiB live", with the same before and behind it. */
void report_heap_text_briefly(struct base_text *out, const struct profile *profile,
                              const struct report_heap *heap, bool ascii);

#endif
