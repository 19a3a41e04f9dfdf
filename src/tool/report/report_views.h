/* report_views.h - the views of this module, the header above them and their parts in JSON. Private to
 * src/tool/report.
 * Context: tool. */
#ifndef REPORT_VIEWS_H
#define REPORT_VIEWS_H

#include "view.h"

/* The views; 0, or a negative code with a message. */
int report_flat(struct view_context *context);
int report_graph(struct view_context *context);
int report_tree(struct view_context *context);
int report_paths(struct view_context *context);
/* The same with further columns, in JSON members of each row: what other counters have at the nodes whose
 * figures a stack has itself. At most VIEW_BESIDE. */
struct view_beside; /* view_merge.h */
int report_paths_beside(struct view_context *context, const struct view_beside *beside, size_t count);
int report_losses(struct view_context *context);
int report_edges(struct view_context *context);
int report_candidates(struct view_context *context);
int report_held(struct view_context *context); /* VIEW_LEAKS and VIEW_PEAK */
int report_latency(struct view_context *context);
int report_descriptors(struct view_context *context);

/* report_losses.c: "lost: ..." in one line (appended without a line break), of so many kinds. `where`: with the
 * command that shows all of them. */
enum { REPORT_LOSSES_KINDS = 4 };
void report_losses_line(struct view_context *context, unsigned most, bool where, struct base_text *out);
/* Is anything lost? */
bool report_losses_any(const struct view_context *context);
void report_losses_json(struct view_context *context);

/* report_json.c: everything about the recording that is not the view itself. */
void report_json_recording(struct view_context *context);

#endif
