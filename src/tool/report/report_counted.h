/* report_counted.h - what was counted inside the target beside its blocks of memory, in one line.
 * Context: tool. */
#ifndef REPORT_COUNTED_H
#define REPORT_COUNTED_H

#include <stdbool.h>

#include "base_text.h"
#include "profile.h"

/* Each appends nothing when its kind was not asked for; "mapped: not counted (reason)" when it was and
 * nothing was counted; and "; not all was counted" when losses stand against it (profile_extent.h). */

/* "9,340 exceptions thrown" */
void report_counted_throws(struct base_text *out, const struct profile *profile);
/* "1,204 descriptors opened, 12 still open at the end"; nothing when they were not counted. */
void report_counted_descriptors(struct base_text *out, const struct profile *profile);
/* "12,340 calls of instrumented functions, 1.20 s in them" */
void report_counted_instrumented(struct base_text *out, const struct profile *profile);
/* "mapped: 12.0 MiB, 4.00 MiB of it still at the end" */
void report_counted_maps(struct base_text *out, const struct profile *profile, bool ascii);
/* "empty: 12.0 MiB in pages of zeros alone" (or "that were never used") */
void report_counted_empty(struct base_text *out, const struct profile *profile, bool ascii);

#endif
