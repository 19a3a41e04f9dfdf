/* report.h - a loaded profile in, text out. Writes only into the caller's buffer.
 *
 * What the figures mean, in every view:
 *   self     of samples whose innermost frame it is; total: of samples with it anywhere in the stack, counted
 *            once however often it recurs there
 *   share    of the samples that the filters left; the header says of how many
 *   +-       half of the 95 % Wilson interval (profile_statistics.h); none for exact counters, whose value
 *            stands beside the share instead; of peak counters, which do not add up, the value alone
 * Functions are ELF functions; inlined frames count as functions of their own with `inlines`, and always show
 * in the tree and the paths. A frame without a symbol is called image+0xADDRESS, one without an image
 * [unknown]. Two marks stand in stacks like frames: <signal> above a handler, [stack cut] where the outer
 * part of a stack is missing.
 *
 *   calls    exact, never sampled: "entering+recursive", see view_calls.h. The time of a call is total
 *            divided by entering, with the interval of total. Where no call of a function was counted, both
 *            are empty; where some may have gone uncounted (view_complete.h), calls are "≥1,204" and their
 *            time is not known
 *
 * Context: tool. */
#ifndef REPORT_H
#define REPORT_H

#include "base_error.h"
#include "base_text.h"
#include "profile.h"
#include "view.h"

/* Prints one view: 0, or a negative code with a message. Appends to context->out where context->json is NULL,
 * else adds members to the object that context->json has open. */
typedef int report_view(struct view_context *context);

/* Appends the whole report, text or (options->json) one JSON document whose members doc/man/tally-report.1
 * and tally-candidates.1 name. The order of rows depends on nothing but the profile. Nothing is appended on
 * failure. Unknown counters, threads that match nothing and the like are BASE_EUSAGE with a message that
 * lists what there is. Not for VIEW_LOOPS and VIEW_ANNOTATE, which read the files behind the profile
 * (annotate.h). */
int report_print(const struct profile *profile, const struct view_options *options, struct base_text *out,
                 struct base_error *error);

/* The same by the view of a module above this one. */
int report_print_view(const struct profile *profile, const struct view_options *options, report_view *view,
                      struct base_text *out, struct base_error *error);

#endif
