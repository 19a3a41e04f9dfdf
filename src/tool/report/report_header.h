/* report_header.h - what stands above a view: the short head, of four lines in 80 columns (report_head.c), or all
 * that is known of the recording. Private to src/tool/report. Context: tool. */
#ifndef REPORT_HEADER_H
#define REPORT_HEADER_H

#include <stdbool.h>
#include <stddef.h>

#include "base_text.h"
#include "report_flow.h"
#include "view.h"

/* The program and how long it ran; what was counted; what that cost; what was lost, if anything. Then, each in
 * a line of its own, what the reader has left out. */
void report_head(struct view_context *context);
void report_header_full(struct view_context *context);
/* "No samples: ..." and true when there is nothing to show. */
bool report_header_nothing(struct view_context *context);

/* --- what both have --- */

/* The command, or the processes, made harmless to a terminal. */
void report_header_command(const struct view_context *context, struct base_text *out);
/* Recorded with --no-time: calls are all there is, and the selection names a counter that is not in the
 * profile. */
bool report_header_time_is_absent(const struct view_context *context);
/* "the target ended with signal 11", or that the recording has no end; nothing if all is well. `brief`: in as
 * few words as will do. */
void report_header_end(const struct view_context *context, bool brief, struct base_text *out);
/* "other counters (--counter): heap.total, heap.count"; nothing if there is none beside the one that is shown. */
void report_header_others(const struct view_context *context, struct base_text *out);
/* How many notes the recorder left. */
size_t report_header_notes(const struct view_context *context);
/* What part of the time the samples are of, in a line of its own; nothing if they are of all. */
void report_header_period(struct report_flow *flow, struct base_text *part);
/* "only: thread worker*, image libc.so.6 (3 of 8 threads): 812 of 2,304 samples, which shares are of", and its
 * line ends; nothing if nothing was left out. */
void report_header_filters(struct report_flow *flow, struct base_text *part);

#endif
