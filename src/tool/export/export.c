#include "export.h"

#include <stdlib.h>

#include "export_formats.h"

/* Calls are in edges, not in cells: each format has its own way with them. */
static uint16_t *list_counters(const struct profile *profile, uint16_t only, size_t *count)
{
    uint32_t calls = profile_counts_calls(profile);
    uint16_t *list = calloc(profile->counter_count + 1, sizeof *list);
    *count = 0;
    for (uint32_t i = 1; list && i < profile->counter_count; i++)
        if (i != calls && (!only || only == i))
            list[(*count)++] = (uint16_t)i;
    return list;
}

/* The value first: what opens a file shows the first column, or the last. */
static struct export_column *list_columns(const struct profile *profile, const uint16_t *counters,
                                          size_t count, size_t *columns)
{
    struct export_column *list = calloc(2 * count + 1, sizeof *list);
    *columns = 0;
    for (size_t i = 0; list && i < count; i++)
        list[(*columns)++] = (struct export_column){counters[i], false};
    for (size_t i = 0; list && i < count; i++)
        if (!profile->counters[counters[i]].exact)
            list[(*columns)++] = (struct export_column){counters[i], true};
    return list;
}

static bool write_format(struct export_job *job)
{
    switch (job->options->format) {
    case EXPORT_PPROF:
        return export_pprof(job);
    case EXPORT_CALLGRIND:
        return export_callgrind(job);
    case EXPORT_FOLDED:
        return export_folded(job);
    case EXPORT_SPEEDSCOPE:
        return export_speedscope(job);
    case EXPORT_HTML:
        return export_html(job);
    case EXPORT_MASSIF:
        return export_massif(job);
    case EXPORT_GPROF:
        return export_gprof(job);
    case EXPORT_FIREFOX:
        return export_firefox(job);
    case EXPORT_PERFETTO:
        return export_perfetto(job);
    case EXPORT_CSV:
        break;
    }
    return export_csv(job);
}

static bool export_write_all(struct export_job *job)
{
    uint16_t *counters = list_counters(job->profile, job->options->counter, &job->counter_count);
    struct export_column *columns =
        counters ? list_columns(job->profile, counters, job->counter_count, &job->column_count) : NULL;
    job->counters = counters;
    job->columns = columns;
    bool done = columns && write_format(job) && !job->output->no_memory;
    export_output_flush(job->output);
    free(counters);
    free(columns);
    return done;
}

int export_profile(const struct profile *profile, const struct export_options *options, export_sink *sink,
                   void *context, struct base_error *error)
{
    if (options->format == EXPORT_HTML && !export_has_page())
        return base_fail(
            error, BASE_EUNSUPPORTED,
            "this tally has no page in it: it was built where npm was missing; install nodejs and "
            "npm (make setup) and build it anew");
    struct export_output *output = calloc(1, sizeof *output);
    struct export_job job = {.profile = profile, .options = options, .output = output};
    if (output) {
        output->sink = sink;
        output->context = context;
    }
    bool done = output && export_write_all(&job);
    bool refused = output && output->failed;
    free(output);
    if (refused)
        return BASE_EIO;
    return done ? BASE_OK : base_fail(error, BASE_ENOMEM, "out of memory for the export");
}
