/* report_counted.h - what was counted inside the target beside its blocks of memory, in one line.
 * Context: tool. */
#ifndef REPORT_COUNTED_H
#define REPORT_COUNTED_H

#include <stdbool.h>

#include "base_text.h"
#include "profile.h"

/* Appends "9,340 exceptions thrown"; nothing when nothing of that kind was counted. */
void report_counted_text(struct base_text *out, const struct profile *profile);

#endif
