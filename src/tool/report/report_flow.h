/* report_flow.h - the lines above a view: parts (the command; duration and host; samples and margin ...), of
 * which as many as fit share a line, three blanks between them. A part that is wider than the terminal is
 * broken between words. Private to src/tool/report. Context: tool. */
#ifndef REPORT_FLOW_H
#define REPORT_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base_text.h"
#include "view.h"
#include "view_style.h"

enum { REPORT_FLOW_BETWEEN = 3 };

/* Zero it but for `context`, to whose text everything is appended. */
struct report_flow {
    struct view_context *context;
    unsigned column;
};

/* Adds what `part` holds, made harmless to a terminal, and empties it; nothing if it is empty. */
void report_flow_add(struct report_flow *flow, struct base_text *part, enum view_style style);
/* The same of a text that is harmless and not empty. */
void report_flow_add_words(struct report_flow *flow, const char *text, enum view_style style);
void report_flow_end_line(struct report_flow *flow);
/* Does a part of so many columns fit on the line? */
bool report_flow_has_room(const struct report_flow *flow, unsigned columns);

/* A number from the recording's meta. False: it has none of that name. */
bool report_meta_number(const struct view_context *context, const char *key, double *number);
/* A whole one of at least one. */
bool report_meta_count(const struct view_context *context, const char *key, uint64_t *count);

#endif
