/* report_held.h - the views of held memory: --leaks and --peak. Private to src/tool/report.
 * Context: tool. */
#ifndef REPORT_HELD_H
#define REPORT_HELD_H

#include "report_view.h"

/* The counter that a view is of; NULL: the reader chooses. */
const char *report_held_counter(enum report_view view);

/* What is said when an exact counter is nothing everywhere. */
void report_held_nothing(const struct report_context *context, struct base_text *out);

#endif
