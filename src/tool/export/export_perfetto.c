/* export_perfetto.c - a timeline as a trace: a track a thread, on it slices for the functions of its stacks.
 * Source: the document "Trace Event Format" of the Chromium project, whose JSON Perfetto and chrome://tracing
 * read.
 *
 * What a sample saw is drawn until the next sample of the thread, as far as both have it: functions that two
 * samples in a row were in are one slice. That is a guess where the time between them was long; after more
 * than GAP times what a sample stands for the thread was waiting for part of it, and its slices end one
 * sample's worth after the last. Slices are written as begin and end, which nest by their order; complete
 * ones would need to be held back until they end. */
#include <stdio.h>
#include <stdlib.h>

#include "base_array.h"
#include "export_formats.h"
#include "export_moments.h"
#include "export_tree.h"

enum { GAP = 4 }; /* no two samples of a thread that runs are as far apart (perf_time.h) */

struct trace {
    struct export_job *job;
    const struct export_tree *tree;
    const struct export_moments *moments;
    uint32_t thread;
    uint32_t *open,
        *next; /* branches from the outermost one inwards: of slices that run, and of the next sample */
    size_t open_count, next_count, open_capacity, next_capacity;
    bool first; /* no event yet */
};

static void perfetto_put(struct trace *trace, const char *text)
{
    export_output_text(trace->job->output, text);
}

static void put_ids(struct trace *trace, uint32_t thread)
{
    uint32_t process = trace->job->profile->threads[thread].process;
    perfetto_put(trace, ",\"pid\":");
    export_output_integer(trace->job->output, trace->moments->pids[process]);
    perfetto_put(trace, ",\"tid\":");
    export_output_integer(trace->job->output, trace->moments->tids[thread]);
}

static void begin_event(struct trace *trace, const char *phase)
{
    perfetto_put(trace, trace->first ? "\n{\"ph\":\"" : ",\n{\"ph\":\"");
    perfetto_put(trace, phase);
    perfetto_put(trace, "\"");
    trace->first = false;
}

static void put_time(struct trace *trace, uint64_t time_ns)
{
    char text[48];
    snprintf(text, sizeof text, ",\"ts\":%llu.%03u", (unsigned long long)(time_ns / 1000),
             (unsigned)(time_ns % 1000));
    perfetto_put(trace, text);
}

/* --- slices --- */

/* Ends have their names too: readers that do not go by the order of events, as speedscope, find by them what
 * ends. */
static void put_slice(struct trace *trace, const char *phase, uint32_t branch, uint64_t time_ns)
{
    const struct export_frames *frames = trace->tree->frames;
    uint32_t function = frames->frames[trace->tree->branches[branch].frame].function;
    begin_event(trace, phase);
    put_ids(trace, trace->thread);
    put_time(trace, time_ns);
    perfetto_put(trace, ",\"name\":");
    perfetto_put(trace, frames->names[function]);
    perfetto_put(trace, ",\"cat\":");
    export_output_name(trace->job->output, export_frames_image(frames, function), EXPORT_ESCAPE_JSON);
    perfetto_put(trace, "}");
}

static void end_slices(struct trace *trace, size_t down_to, uint64_t time_ns)
{
    while (trace->open_count > down_to)
        put_slice(trace, "E", trace->open[--trace->open_count], time_ns);
}

/* The branches from the outermost one to `branch`, in trace->next. */
static bool find_stack(struct trace *trace, uint32_t branch)
{
    const struct export_branch *branches = trace->tree->branches;
    size_t depth = 0;
    for (uint32_t at = branch; at; at = branches[at].parent)
        depth++;
    for (size_t i = 0; i < depth; i++)
        if (!base_array_room(trace->next, i, trace->next_capacity) ||
            !base_array_room(trace->open, i, trace->open_capacity))
            return false;
    trace->next_count = depth;
    for (uint32_t at = branch; at; at = branches[at].parent)
        trace->next[--depth] = at;
    return true;
}

static bool switch_stack(struct trace *trace, const struct export_moment *moment)
{
    size_t same = 0;
    if (!find_stack(trace, moment->branch))
        return false;
    while (same < trace->open_count && same < trace->next_count && trace->open[same] == trace->next[same])
        same++;
    end_slices(trace, same, moment->time_ns);
    for (; same < trace->next_count; same++) {
        put_slice(trace, "B", trace->next[same], moment->time_ns);
        trace->open[trace->open_count++] = trace->next[same];
    }
    return true;
}

static uint64_t moment_value(const struct export_moment *moment)
{
    return moment->value > 0 ? (uint64_t)moment->value : 0;
}

/* Of one thread; `count` at least 1. */
static bool write_samples(struct trace *trace, const struct export_moment *moments, size_t count)
{
    trace->thread = moments[0].thread;
    for (size_t i = 0; i < count; i++) {
        const struct export_moment *before = i ? &moments[i - 1] : NULL;
        if (before && moments[i].time_ns - before->time_ns > GAP * moment_value(before))
            end_slices(trace, 0, before->time_ns + moment_value(before));
        if (!switch_stack(trace, &moments[i]))
            return false;
    }
    end_slices(trace, 0, moments[count - 1].time_ns + moment_value(&moments[count - 1]));
    return true;
}

/* --- names --- */

static void write_name(struct trace *trace, const char *what, uint32_t thread, uint32_t name)
{
    begin_event(trace, "M");
    put_ids(trace, thread);
    perfetto_put(trace, ",\"name\":\"");
    perfetto_put(trace, what);
    perfetto_put(trace, "\",\"args\":{\"name\":");
    export_output_name(trace->job->output, profile_text(trace->job->profile, name), EXPORT_ESCAPE_JSON);
    perfetto_put(trace, "}}");
}

static bool write_thread(struct trace *trace, const struct export_moment *moments, size_t count)
{
    const struct profile_thread *thread = &trace->job->profile->threads[moments[0].thread];
    uint32_t process = trace->job->profile->processes[thread->process].name;
    write_name(trace, "process_name", moments[0].thread, process);
    write_name(trace, "thread_name", moments[0].thread, thread->name ? thread->name : process);
    return write_samples(trace, moments, count);
}

static bool perfetto_write_all(struct trace *trace)
{
    const struct export_moments *moments = trace->moments;
    const char *command = profile_meta(trace->job->profile, "command");
    perfetto_put(trace, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"creator\":");
    export_output_name(trace->job->output, trace->job->options->creator, EXPORT_ESCAPE_JSON);
    perfetto_put(trace, ",\"profile\":");
    export_output_name(trace->job->output, trace->job->options->file, EXPORT_ESCAPE_JSON);
    perfetto_put(trace, ",\"command\":");
    export_output_name(trace->job->output, command ? command : "", EXPORT_ESCAPE_JSON);
    perfetto_put(trace, "},\n\"traceEvents\":[");
    for (size_t from = 0, to; from < moments->count; from = to) {
        for (to = from + 1; to < moments->count && moments->items[to].thread == moments->items[from].thread;)
            to++;
        if (!write_thread(trace, &moments->items[from], to - from))
            return false;
    }
    perfetto_put(trace, "]}\n");
    return true;
}

bool export_perfetto(struct export_job *job)
{
    struct export_frames frames;
    struct export_tree tree = {.frames = &frames, .apart = EXPORT_TOGETHER, .marks = true};
    struct export_moments moments = {0};
    struct trace trace = {.job = job, .tree = &tree, .moments = &moments, .first = true};
    bool done = export_frames_init(&frames, job->profile, EXPORT_DETAIL_INLINES) &&
                export_tree_build(&tree, job->options) &&
                export_frames_write_names(&frames, EXPORT_ESCAPE_JSON, false) &&
                export_moments_find(&tree, job->options, job->counters[0], true, &moments) &&
                perfetto_write_all(&trace);
    free(trace.open);
    free(trace.next);
    export_moments_free(&moments);
    export_tree_free(&tree);
    export_frames_free(&frames);
    return done;
}
