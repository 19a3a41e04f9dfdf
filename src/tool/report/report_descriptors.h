/* report_descriptors.h - the view of open descriptors: --fds. Private to src/tool/report.
 * Context: tool. */
#ifndef REPORT_DESCRIPTORS_H
#define REPORT_DESCRIPTORS_H

#include "view.h"

/* Without the stacks: what there is to say where none was left open. */
int report_descriptors_list(struct view_context *context);

#endif
