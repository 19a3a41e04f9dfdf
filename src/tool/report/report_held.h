/* report_held.h - the views of held memory: --leaks and --peak. Private to src/tool/report.
 * Context: tool. */
#ifndef REPORT_HELD_H
#define REPORT_HELD_H

#include "view.h"

/* What is said when an exact counter is nothing everywhere. */
void report_held_nothing(const struct view_context *context, struct base_text *out);

#endif
