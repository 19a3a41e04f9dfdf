/* annotate.h - the views that read the files behind a profile: its hottest loops, and one function line by
 * line. Context: tool. */
#ifndef ANNOTATE_H
#define ANNOTATE_H

#include "report.h"

/* As report_print, of VIEW_LOOPS and VIEW_ANNOTATE. */
int annotate_print(const struct profile *profile, const struct view_options *options, struct base_text *out,
                   struct base_error *error);

#endif
