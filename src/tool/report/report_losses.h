/* report_losses.h - the losses of what was counted, in a line.
 * Context: tool. */
#ifndef REPORT_LOSSES_H
#define REPORT_LOSSES_H

#include "base_text.h"
#include "profile.h"

/* Appends "1 program without the agent, 2 functions not hooked": the losses that stand against a counter
 * of the profile that is not of time (profile_extent.h), and programs that ran without their privileges;
 * nothing when there is none. */
void report_losses_of_counts(const struct profile *profile, struct base_text *out);

#endif
