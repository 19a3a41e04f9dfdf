/* report_coverage.h - what of the calls was counted, and what was left alone and why: the part "calls" of
 * --losses.
 *
 * A site is a call or a jump to another function; a function is covered when every way into it is counted.
 * Percentages are cut, never rounded up: 100.0 % means all of them. Context: tool. */
#ifndef REPORT_COVERAGE_H
#define REPORT_COVERAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base_text.h"
#include "profile.h"
#include "view.h"

/* Names of uncovered functions an image, unless --limit says otherwise. */
enum { REPORT_COVERAGE_NAMES = 20 };

/* Text below what was lost, or members of the open object; nothing in text when no calls were counted. */
int report_coverage(struct view_context *context);

/* Functions of all images that can be called, and those of them that are covered. False: the profile does not
 * say. */
bool report_coverage_functions(const struct profile *profile, uint64_t *found, uint64_t *counted);

/* "99.9 %"; nothing when nothing was found. */
void report_coverage_percent(struct base_text *out, uint64_t counted, uint64_t found);

#endif
