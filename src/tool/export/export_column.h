/* export_column.h - what formats with several figures a stack call each of them. Private to this module.
 * Context: tool. */
#ifndef EXPORT_COLUMN_H
#define EXPORT_COLUMN_H

#include "export_formats.h"

/* "time.cpu"; "samples", or "time.cpu.samples" when several counters are sampled. */
void export_column_name(const struct export_job *job, const struct export_column *column,
                        struct base_text *out);

#endif
