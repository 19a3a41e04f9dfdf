/* export_formats.h - one writer a format, and the job they all get. Private to this module.
 *
 * A writer returns false when memory ran out; what the output cannot take shows in output->failed.
 * Context: tool. */
#ifndef EXPORT_FORMATS_H
#define EXPORT_FORMATS_H

#include <stdbool.h>

#include "export.h"
#include "export_output.h"
#include "profile.h"

/* What a format with several figures a stack shows of a counter: its value, or how many samples that is
 * of. */
struct export_column {
    uint16_t counter;
    bool samples;
};

struct export_job {
    const struct profile *profile;
    const struct export_options *options;
    struct export_output *output;
    const uint16_t *counters; /* those to export, without that of calls */
    size_t counter_count;
    const struct export_column *columns; /* the values of `counters`, and samples of those that are sampled */
    size_t column_count;
};

bool export_callgrind(struct export_job *job);
bool export_csv(struct export_job *job);
bool export_firefox(struct export_job *job);
bool export_folded(struct export_job *job);
bool export_gprof(struct export_job *job);
bool export_html(struct export_job *job);
bool export_massif(struct export_job *job);
bool export_perfetto(struct export_job *job);
bool export_pprof(struct export_job *job);
bool export_speedscope(struct export_job *job);

#endif
