
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profile_extent.h"
#include "profile_statistics.h"
#include "report_cost.h"
#include "report_views.h"

/* Keys of the meta table whose values are numbers; everything else is text even when it looks like one. */
static bool is_numeric_key(const char *key)
{
    static const char *const keys[] = {
        "start_time",           "duration_ns",           "rate_hz",
        "overhead_tool_cpu_ns", "target_cpu_ns",         "complete",
        "stack_copy_bytes",     "overhead_stub_samples", "overhead_signals",
        "overhead_signal_ns",   "overhead_births",       "overhead_stopped_ns",
        "overhead_followed_ns", "overhead_traced_ns",    "overhead_target_memory",
        "agent_memory",         "agent_memory_left",     "calls_setup_ns",
        "calls_memory_left",    "calls_remains",         "calls_attach_stopped_ns",
        "calls_stubs",          "calls_stub_bytes"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(key, keys[i]))
            return true;
    return false;
}

static void meta_value(struct base_json *json, const char *key, const char *value)
{
    char *end;
    errno = 0;
    long long integer = strtoll(value, &end, 10);
    if (is_numeric_key(key) && end != value && !*end && !errno) {
        base_json_integer(json, key, integer);
        return;
    }
    double number = strtod(value, &end);
    if (is_numeric_key(key) && end != value && !*end)
        base_json_number(json, key, number);
    else
        base_json_string(json, key, value);
}

static void write_report_meta(struct view_context *context)
{
    const struct profile *profile = context->profile;
    base_json_begin(context->json, "meta", '{');
    for (size_t i = 0; i < profile->meta_count; i++)
        if (profile->meta[i].key)
            meta_value(context->json, profile_text(profile, profile->meta[i].key),
                       profile_text(profile, profile->meta[i].value));
    base_json_end(context->json, '}');
}

/* These are not in cells. */
static int64_t sum_of_calls(const struct profile *profile)
{
    uint64_t sum = 0;
    for (size_t i = 1; i < profile->edge_count; i++)
        if (__builtin_add_overflow(sum, profile->edges[i].calls, &sum))
            return INT64_MAX;
    return sum < INT64_MAX ? (int64_t)sum : INT64_MAX;
}

static void counter_figures(struct view_context *context, size_t counter)
{
    const struct profile *profile = context->profile;
    struct view_selection plain = {.peak = profile->counters[counter].combine == PROFILE_PEAK};
    struct view_figure sum = {0, 0};
    for (size_t i = 0; i < profile->cell_count; i++)
        if (profile->cells[i].counter == counter)
            view_select_add(&plain, &sum,
                            &(struct view_figure){profile->cells[i].value, profile->cells[i].samples});
    if (counter == profile_counts_calls(profile))
        sum.value = sum_of_calls(profile);
    base_json_integer(context->json, "value", sum.value);
    base_json_unsigned(context->json, "samples", sum.samples);
}

/* "exact": all of it was counted, none of it only sampled. */
static void extent_figures(struct view_context *context, struct profile_extent extent)
{
    static const char *const degrees[] = {"none", "part", "all"};
    base_json_bool(context->json, "exact", profile_extent_is_exact(&extent));
    base_json_bool(context->json, "sampled", extent.sampled);
    base_json_string(context->json, "counted", degrees[extent.degree]);
}

static void write_report_counters(struct view_context *context)
{
    static const char *const combines[] = {NULL, "sum", "peak", "live"};
    const struct profile *profile = context->profile;
    base_json_begin(context->json, "counters", '[');
    for (size_t i = 1; i < profile->counter_count; i++) {
        const struct profile_counter *counter = &profile->counters[i];
        base_json_begin(context->json, NULL, '{');
        base_json_string(context->json, "name", profile_text(profile, counter->name));
        base_json_string(context->json, "unit", profile_text(profile, counter->unit));
        extent_figures(context, profile_extent_of(profile, (uint32_t)i));
        base_json_string(context->json, "combine",
                         counter->combine <= PROFILE_LIVE ? combines[counter->combine] : NULL);
        counter_figures(context, i);
        base_json_end(context->json, '}');
    }
    base_json_end(context->json, ']');
}

static void write_report_selection(struct view_context *context)
{
    const struct view_selection *selection = &context->selection;
    const struct view_options *options = context->options;
    struct base_json *json = context->json;
    base_json_begin(json, "selected", '{');
    base_json_string(json, "counter", selection->name);
    base_json_string(json, "unit", selection->unit);
    extent_figures(context, profile_extent_of(context->profile, selection->counter));
    base_json_integer(json, "value", selection->taken.value);
    base_json_unsigned(json, "samples", selection->taken.samples);
    base_json_integer(json, "recorded_value", selection->all.value);
    base_json_unsigned(json, "recorded_samples", selection->all.samples);
    if (!selection->exact && !selection->peak)
        base_json_number(json, "maximum_margin", profile_maximum_margin((uint64_t)selection->effective));
    base_json_string(json, "thread", options->part.thread);
    base_json_string(json, "process", options->part.process);
    base_json_string(json, "image", options->part.image);
    base_json_string(json, "cpus", options->part.cpus);
    if (selection->period)
        base_json_unsigned(json, "from_ns", options->part.from_ns);
    if (options->part.to_ns)
        base_json_unsigned(json, "to_ns", options->part.to_ns);
    base_json_number(json, "limit_percent", options->limit_percent > 0 ? options->limit_percent : 0);
    base_json_unsigned(json, "limit_rows", options->limit_rows);
    base_json_end(json, '}');
}

void report_json_recording(struct view_context *context)
{
    static const char *const views[] = {"flat",  "graph",      "tree",  "paths",    "losses",
                                        "edges", "candidates", "loops", "annotate", "leaks",
                                        "peak",  "latency",    "fds"};
    struct base_json *json = context->json;
    base_json_string(json, "report", views[context->options->view]);
    base_json_integer(json, "version", 1);
    base_json_string(json, "file", context->options->file);
    base_json_bool(json, "complete", profile_meta(context->profile, "complete") != NULL);
    write_report_meta(context);
    write_report_counters(context);
    write_report_selection(context);
    report_cost_json(context);
    if (context->options->view != VIEW_LOSSES) /* which has them itself */
        report_losses_json(context);
}
