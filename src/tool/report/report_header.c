/* report_header.c - the lines above every view: what was measured, how, and how far to trust it.
 *
 * The header is a flow of parts (the command; duration and host; samples and margin ...). As many parts as
 * fit share a line, three blanks between them; a part that is wider than the terminal is broken between
 * words. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base_utf8.h"
#include "profile_extent.h"
#include "profile_statistics.h"
#include "report_counted.h"
#include "report_coverage.h"
#include "report_heap.h"
#include "report_held.h"
#include "report_views.h"
#include "view_calls.h"
#include "view_style.h"
#include "view_text.h"

enum { BETWEEN_PARTS = 3, HANGING = 2 };
#define HOLD_SHOWN_NS 2000000000u /* shorter recordings are traced all the time */

struct flow {
    struct view_context *context;
    unsigned column;
};

/* --- the flow --- */

static void header_end_line(struct flow *flow)
{
    if (flow->column)
        base_text_add(flow->context->out, "\n");
    flow->column = 0;
}

/* One word, on the next line when it does not fit. */
static void add_word(struct flow *flow, const char *word, size_t length, bool first)
{
    char *copy = strndup(word, length);
    struct base_text *out = flow->context->out;
    if (!copy) {
        out->failed = true;
        return;
    }
    unsigned width = base_utf8_width(copy), limit = flow->context->width;
    if (!first && limit && flow->column + 1 + width > limit) {
        base_text_add(out, "\n");
        base_text_add_repeated(out, ' ', HANGING);
        flow->column = HANGING;
    } else if (!first) {
        base_text_add(out, " ");
        flow->column++;
    }
    base_text_add(out, copy);
    flow->column += width;
    free(copy);
}

static void add_part(struct flow *flow, const char *text, enum view_style style)
{
    struct base_text *out = flow->context->out;
    unsigned width = base_utf8_width(text), limit = flow->context->width;
    if (flow->column && limit && flow->column + BETWEEN_PARTS + width > limit)
        header_end_line(flow);
    if (flow->column) {
        base_text_add_repeated(out, ' ', BETWEEN_PARTS);
        flow->column += BETWEEN_PARTS;
    }
    view_style_begin(out, style, flow->context->options->color);
    for (bool first = true; *text; first = false) {
        size_t length = strcspn(text, " ");
        add_word(flow, text, length, first);
        text += length + strspn(text + length, " ");
    }
    view_style_end(out, style, flow->context->options->color);
}

/* Adds what `part` holds, cleaned, and empties it. */
static void add_text(struct flow *flow, struct base_text *part, enum view_style style)
{
    struct base_text clean = {0};
    base_utf8_clean(&clean, base_text_string(part), flow->context->options->ascii);
    if (clean.length)
        add_part(flow, base_text_string(&clean), style);
    flow->context->out->failed |= part->failed | clean.failed;
    base_text_free(&clean);
    base_text_clear(part);
}

/* --- the parts --- */

static bool meta_number(const struct view_context *context, const char *key, double *number)
{
    const char *text = profile_meta(context->profile, key);
    char *end = NULL;
    *number = text ? strtod(text, &end) : 0;
    return text && end != text && isfinite(*number);
}

/* Imported ones may have no number. */
static void add_process(struct base_text *part, const struct profile *profile, size_t index)
{
    const struct profile_process *it = &profile->processes[index];
    base_text_addf(part, "%s%s", part->length ? ", " : "", profile_text(profile, it->name));
    if (it->pid)
        base_text_addf(part, " (%d)", it->pid);
}

/* The command; without one, the processes. */
static void add_program(struct flow *flow, struct base_text *part)
{
    const struct profile *profile = flow->context->profile;
    const char *command = profile_meta(profile, "command"), *mode = profile_meta(profile, "mode");
    struct base_text clean = {0};
    if (command && *command) {
        base_text_add(part, command);
    } else if (mode && !strcmp(mode, "system")) {
        base_text_add(part, "the whole machine");
    } else {
        for (size_t i = 1; i < profile->process_count && i <= 3; i++)
            add_process(part, profile, i);
        if (profile->process_count > 4)
            base_text_addf(part, " and %zu more", profile->process_count - 4);
    }
    base_utf8_clean(&clean, base_text_string(part), flow->context->options->ascii);
    base_text_clear(part);
    view_text_fit(part, base_text_string(&clean), flow->context->width, flow->context->options->ascii);
    flow->context->out->failed |= clean.failed;
    base_text_free(&clean);
    if (part->length)
        add_part(flow, base_text_string(part), VIEW_BOLD);
    base_text_clear(part);
}

static void add_header_date(struct base_text *out, double seconds)
{
    time_t when = (time_t)seconds;
    struct tm parts;
    char text[64];
    if (seconds <= 0 || seconds > 1e11 || !gmtime_r(&when, &parts))
        return;
    static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    strftime(text, sizeof text, "%Y %H:%M", &parts);
    base_text_addf(out, ", %d %s %s UTC", parts.tm_mday, months[parts.tm_mon], text);
}

static void header_add_place(struct flow *flow, struct base_text *part)
{
    const struct view_context *context = flow->context;
    const char *host = profile_meta(context->profile, "hostname"),
               *kernel = profile_meta(context->profile, "kernel");
    const char *origins = profile_meta(context->profile, "origins");
    double duration, start;
    if (origins)
        base_text_addf(part, "%s recordings, ", origins);
    if (meta_number(context, "duration_ns", &duration))
        view_text_time(part, (int64_t)fmin(fmax(duration, 0), 9e18), context->options->ascii);
    if (host)
        base_text_addf(part, "%son %s", part->length ? " " : "", host);
    if (kernel)
        base_text_addf(part, "%sLinux %s", part->length ? ", " : "", kernel);
    if (meta_number(context, "start_time", &start))
        add_header_date(part, start);
    add_text(flow, part, VIEW_PLAIN);
}

/* Recorded with --no-time: calls are all there is, and the selection names a counter that is not in the
 * profile. */
static bool time_is_absent(const struct view_context *context)
{
    return !context->selection.counter && profile_counts_calls(context->profile);
}

static void add_counter(struct flow *flow, struct base_text *part)
{
    const struct view_context *context = flow->context;
    const struct view_selection *selection = &context->selection;
    double rate, apart;
    struct profile_extent extent = profile_extent_of(context->profile, selection->counter);
    base_text_addf(part, "%s: ", selection->name);
    if (selection->counter && extent.degree == PROFILE_EXTENT_NONE) {
        profile_extent_not_counted_briefly(&extent, part);
    } else if (selection->peak || selection->exact) {
        bool imported = selection->exact && profile_meta(context->profile, "imported");
        view_text_value(part, selection->unit, selection->taken.value, context->options->ascii);
        base_text_addf(part, "%s, %s", selection->peak ? " at most" : "",
                       imported ? "as imported" : profile_extent_words(&extent));
    } else {
        view_text_count(part, selection->taken.samples);
        base_text_add(part, selection->taken.samples == 1 ? " sample" : " samples");
        if (view_select_is_time(selection->name) && meta_number(context, "rate_hz", &rate) && rate > 0 &&
            rate < 1e9) {
            base_text_add(part, " at ");
            view_text_count(part, (uint64_t)llround(rate));
            base_text_add(part, " Hz");
        }
        if (!strcmp(selection->name, "time.real") && meta_number(context, "waits_apart_ns", &apart))
            base_text_addf(part, ", of waits %.1f ms apart", apart / 1e6);
        if (selection->taken.samples)
            base_text_addf(part, ", any share is within %.1f points (95 %%)",
                           100 * profile_maximum_margin((uint64_t)selection->effective));
    }
    add_text(flow, part, VIEW_PLAIN);
}

static void header_add_calls(struct flow *flow, struct base_text *part)
{
    const struct view_context *context = flow->context;
    uint64_t calls, found, counted;
    size_t edges;
    if (!profile_counts_calls(context->profile))
        return;
    struct profile_extent extent = profile_extent_named(context->profile, PROFILE_CALLS);
    base_text_add(part, "calls: ");
    if (extent.degree == PROFILE_EXTENT_NONE) {
        profile_extent_not_counted_briefly(&extent, part);
        add_text(flow, part, VIEW_PLAIN);
        return;
    }
    if (!view_calls_count(context->profile, &calls, &edges))
        context->out->failed = true;
    view_text_exact(part, calls);
    base_text_add(part, " on ");
    view_text_count(part, edges);
    base_text_addf(part, " %s, %s", edges == 1 ? "edge" : "edges", profile_extent_words(&extent));
    const char *names = profile_meta(context->profile, "calls_names");
    if (names && *names) {
        base_text_addf(part, "; only from or to %s", names);
    } else if (report_coverage_functions(context->profile, &found, &counted)) {
        base_text_add(part, counted < found                       ? "; every call site counted of "
                            : extent.degree == PROFILE_EXTENT_ALL ? "; complete for "
                                                                  : "; complete there for ");
        report_coverage_percent(part, counted, found);
        base_text_add(part, " of functions");
    }
    add_text(flow, part, VIEW_PLAIN);
}

/* "heap: 1.20 GiB in 3,400,000 blocks, peak 55.3 MiB at 1.23 s, 12.0 KiB live in 3, 12.3 % temporary" */
static void add_heap(struct flow *flow, struct base_text *part)
{
    struct report_heap heap;
    if (flow->context->selection.period || !report_heap_gather(flow->context->profile, &heap))
        return;
    report_heap_text(part, flow->context->profile, &heap, flow->context->options->ascii);
    add_text(flow, part, VIEW_PLAIN);
}

static void add_counted(struct flow *flow, struct base_text *part)
{
    if (flow->context->selection.period) /* they are of the whole recording, and not there */
        return;
    report_counted_empty(part, flow->context->profile, flow->context->options->ascii);
    add_text(flow, part, VIEW_PLAIN);
    report_counted_maps(part, flow->context->profile, flow->context->options->ascii);
    add_text(flow, part, VIEW_PLAIN);
    report_counted_throws(part, flow->context->profile);
    add_text(flow, part, VIEW_PLAIN);
    report_counted_descriptors(part, flow->context->profile);
    add_text(flow, part, VIEW_PLAIN);
}

/* A whole number of at least one from meta. */
static bool meta_count(const struct view_context *context, const char *key, uint64_t *count)
{
    double number;
    if (!meta_number(context, key, &number) || number < 1 || number > 9e18)
        return false;
    *count = (uint64_t)number;
    return true;
}

struct taken {
    uint64_t samples, agent; /* all; of them, in the agent's code */
};

static bool is_sampled_time(const struct profile *profile, const struct profile_counter *counter)
{
    return !counter->exact && counter->combine == PROFILE_SUM &&
           !strcmp(profile_text(profile, counter->unit), "ns");
}

/* Of time, in the whole recording, whatever is shown of it. */
static struct taken samples_taken(const struct profile *profile)
{
    struct taken taken = {0, 0};
    for (size_t i = 0; i < profile->cell_count; i++) {
        const struct profile_cell *cell = &profile->cells[i];
        if (!is_sampled_time(profile, &profile->counters[cell->counter]))
            continue;
        taken.samples += cell->samples;
        if (profile_image_is_agent(profile, profile->addresses[profile->nodes[cell->node].address].image))
            taken.agent += cell->samples;
    }
    return taken;
}

/* How much of the time was spent counting: `some` of the samples, with the interval of their share. */
static void add_part_of_samples(const struct view_context *context, struct base_text *part, uint64_t some,
                                uint64_t samples)
{
    struct profile_interval interval = profile_wilson(some, samples);
    if (some)
        base_text_addf(part, "%.1f %s%.1f %% of samples", 100 * (double)some / (double)samples,
                       context->options->ascii ? "+-" : "±", 50 * (interval.high - interval.low));
    else
        base_text_addf(part, "below %.2g %% of samples", 100 * interval.high);
}

/* Samples that fell into stubs. */
static void add_stubs(struct flow *flow, struct base_text *part)
{
    const struct view_context *context = flow->context;
    double stubs; /* of the whole recording */
    if (context->selection.period || !meta_number(context, "overhead_stub_samples", &stubs) || stubs < 0)
        return;
    uint64_t samples = samples_taken(context->profile).samples;
    if (!samples || stubs > (double)samples)
        return;
    base_text_add(part, "stubs: ");
    add_part_of_samples(context, part, (uint64_t)stubs, samples);
    add_text(flow, part, VIEW_PLAIN);
}

static void begin_item(struct base_text *part, const char *before)
{
    base_text_add(part, part->length ? ", " : before);
}

/* "64.0 KiB left in it", if it is known. */
static void add_bytes(const struct view_context *context, struct base_text *part, const char *before,
                      const char *key, const char *words)
{
    uint64_t bytes;
    if (!meta_count(context, key, &bytes))
        return;
    begin_item(part, before);
    view_text_value(part, "bytes", (int64_t)bytes, context->options->ascii);
    base_text_add(part, words);
}

/* "held for 12 % of the time", or "held throughout (libfoo.so makes ...)": while it is, each signal costs a
 * stop. */
static void add_hold(const struct view_context *context, struct base_text *part, const char *before)
{
    uint64_t followed, traced;
    const char *why = profile_meta(context->profile, "calls_held");
    if (!meta_count(context, "overhead_followed_ns", &followed) ||
        !meta_count(context, "overhead_traced_ns", &traced) || followed < HOLD_SHOWN_NS)
        return;
    begin_item(part, before);
    if (traced < followed)
        base_text_addf(part, "held for %.0f %% of the time", 100.0 * (double)traced / (double)followed);
    else
        base_text_add(part, "held throughout");
    if (why && *why)
        base_text_addf(part, " (%s)", why);
}

/* What tracing did to the target: "ptrace: 1,200 signals in 54.0 ms, 12 creations, stopped for 2.10 ms in
 * all, held for 12 % of the time". */
static void add_stops(struct flow *flow, struct base_text *part)
{
    static const char before[] = "ptrace: ";
    const struct view_context *context = flow->context;
    uint64_t count, time;
    if (meta_count(context, "overhead_signals", &count)) {
        begin_item(part, before);
        view_text_count(part, count);
        base_text_add(part, count == 1 ? " signal" : " signals");
        if (meta_count(context, "overhead_signal_ns", &time)) {
            base_text_add(part, " in ");
            view_text_time(part, (int64_t)time, context->options->ascii);
        }
    }
    if (meta_count(context, "overhead_births", &count)) {
        begin_item(part, before);
        view_text_count(part, count);
        base_text_add(part, count == 1 ? " creation" : " creations");
    }
    if (meta_count(context, "overhead_stopped_ns", &time)) {
        begin_item(part, before);
        base_text_add(part, "stopped for ");
        view_text_time(part, (int64_t)time, context->options->ascii);
        base_text_add(part, " in all");
    }
    add_hold(context, part, before);
    add_text(flow, part, VIEW_PLAIN);
}

/* How counters were kept, how long it took to put them in place, and what they took of the target's memory. A
 * locked increment costs more than a plain one, most where several threads meet. */
static void add_counters(struct flow *flow, struct base_text *part)
{
    const struct view_context *context = flow->context;
    const char *form = profile_meta(context->profile, "calls_form");
    uint64_t figure;
    bool locked = form && !strcmp(form, "lock");
    if (form && *form) {
        begin_item(part, "counters: ");
        base_text_add(part, locked                    ? "locked, about 5 ns a call"
                            : !strcmp(form, "thread") ? "by thread"
                                                      : form);
    }
    if (meta_count(context, "calls_setup_ns", &figure)) {
        begin_item(part, "counters: ");
        base_text_add(part, "set up in ");
        view_text_time(part, (int64_t)figure, context->options->ascii);
    }
    add_bytes(context, part, "counters: ", "overhead_target_memory", " in the target");
    add_bytes(context, part, "counters: ", "calls_memory_left", " left in it");
    add_text(flow, part, VIEW_PLAIN);
}

/* What counting inside the target took of time and memory. */
static void add_agent(struct flow *flow, struct base_text *part)
{
    const struct view_context *context = flow->context;
    struct taken taken = {0, 0};
    if (profile_meta(context->profile, "agent_memory"))
        taken = samples_taken(context->profile);
    if (taken.samples) {
        begin_item(part, "agent: ");
        add_part_of_samples(context, part, taken.agent, taken.samples);
    }
    add_bytes(context, part, "agent: ", "agent_memory", " of tables");
    add_bytes(context, part, "agent: ", "agent_memory_left", " left in the target");
    add_text(flow, part, VIEW_PLAIN);
}

static void add_cost(struct flow *flow, struct base_text *part)
{
    const struct view_context *context = flow->context;
    double tool, target;
    const char *engine = profile_meta(context->profile, "engine");
    if (meta_number(context, "overhead_tool_cpu_ns", &tool) && tool >= 0 && tool < 9e18) {
        base_text_add(part, "cost: ");
        view_text_time(part, (int64_t)tool, context->options->ascii);
        base_text_add(part, " of CPU for tally");
        if (meta_number(context, "target_cpu_ns", &target) && target > 0 && target < 9e18) {
            base_text_addf(part, ", %.1f %% of the target's ", 100 * tool / target);
            view_text_time(part, (int64_t)target, context->options->ascii);
        }
        add_text(flow, part, VIEW_PLAIN);
    }
    add_stubs(flow, part);
    add_stops(flow, part);
    add_counters(flow, part);
    add_agent(flow, part);
    if (engine) {
        base_text_add(part, engine);
        add_text(flow, part, VIEW_PLAIN);
    }
}

static void add_header_filter(struct base_text *part, const char *kind, const char *pattern)
{
    if (pattern)
        base_text_addf(part, "%s%s %s", part->length > 6 ? ", " : "", kind, pattern);
}

/* "only: thread worker*, image libc.so.6 (3 of 8 threads): 812 of 2,304 samples, which shares are of" */
static void add_filters(struct flow *flow, struct base_text *part)
{
    const struct view_context *context = flow->context;
    const struct view_selection *selection = &context->selection;
    const struct view_options *options = context->options;
    if (!view_select_filtered(selection))
        return;
    base_text_add(part, "only: ");
    add_header_filter(part, "thread", options->part.thread);
    add_header_filter(part, "process", options->part.process);
    add_header_filter(part,
                      options->view == VIEW_EDGES     ? "caller or callee in image"
                      : options->view == VIEW_LATENCY ? "function in image"
                                                      : "leaf in image",
                      options->part.image);
    add_header_filter(part, "CPU", options->part.cpus);
    if (selection->threads)
        base_text_addf(part, " (%zu of %zu threads)", selection->threads_taken, selection->thread_total);
    if (options->view == VIEW_EDGES) {
        base_text_add(part, "; shares are of their calls");
        add_text(flow, part, VIEW_PLAIN);
        header_end_line(flow);
        return;
    }
    base_text_add(part, ": ");
    if (selection->exact || selection->peak) {
        view_text_value(part, selection->unit, selection->taken.value, options->ascii);
        base_text_add(part, " of ");
        view_text_value(part, selection->unit, selection->all.value, options->ascii);
    } else {
        view_text_count(part, selection->taken.samples);
        base_text_add(part, " of ");
        view_text_count(part, selection->all.samples);
        base_text_add(part, " samples");
    }
    base_text_add(part, "; shares are of these");
    add_text(flow, part, VIEW_PLAIN);
    header_end_line(flow);
}

/* Tally puts everything back; what somebody else has changed meanwhile it cannot. */
static void add_remains(struct flow *flow, struct base_text *part)
{
    const struct view_context *context = flow->context;
    uint64_t remains;
    if (!meta_count(context, "calls_remains", &remains))
        return;
    base_text_add(part, "note: ");
    view_text_count(part, remains);
    base_text_addf(part, " %s in the target's code could not be put back: somebody else had changed %s",
                   remains == 1 ? "place" : "places", remains == 1 ? "it" : "them");
    add_text(flow, part, VIEW_PLAIN);
    header_end_line(flow);
}

/* Whatever the recorder had to say of itself, and other counters. */
static void add_notes(struct flow *flow, struct base_text *part)
{
    static const char *const keys[] = {
        "rate_notice",  "kernel_notice", "stack_copy_notice", "births_notice", "privileges_notice",
        "calls_notice", "agent_notice",  "import_notice",     "truncation",    "period_notice"};
    const struct view_context *context = flow->context;
    const struct profile *profile = context->profile;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *note = profile_meta(profile, keys[i]);
        if (!note || !*note)
            continue;
        base_text_addf(part, "note: %s", note);
        add_text(flow, part, VIEW_PLAIN);
        header_end_line(flow);
    }
    add_remains(flow, part);
    for (size_t i = 1; i < profile->counter_count && profile->counter_count > 2; i++)
        if (i != context->selection.counter && i != profile_counts_calls(profile))
            base_text_addf(part, "%s%s", part->length ? ", " : "other counters (--counter): ",
                           profile_text(profile, profile->counters[i].name));
    add_text(flow, part, VIEW_PLAIN);
    header_end_line(flow);
}

static void add_end(struct flow *flow, struct base_text *part)
{
    const struct profile *profile = flow->context->profile;
    const char *status = profile_meta(profile, "exit_status");
    const char *partial = profile_meta(profile, "import_partial");
    if (!profile_meta(profile, "complete")) {
        base_text_addf(part, "unfinished: %s; %s",
                       partial ? partial : "the recording did not come to its end",
                       partial ? "this is what it has" : "this is what was saved until then");
        add_text(flow, part, VIEW_BOLD);
    } else if (status && *status && strcmp(status, "0") && strcmp(status, "success")) {
        base_text_addf(part, "the target ended with %s", status);
        add_text(flow, part, VIEW_PLAIN);
    }
    header_end_line(flow);
}

void report_header(struct view_context *context)
{
    struct flow flow = {.context = context};
    struct base_text part = {0};
    add_program(&flow, &part);
    header_add_place(&flow, &part);
    if (context->options->view != VIEW_EDGES && !time_is_absent(context))
        add_counter(&flow, &part);
    header_add_calls(&flow, &part);
    add_heap(&flow, &part);
    add_counted(&flow, &part);
    header_end_line(&flow);
    add_cost(&flow, &part);
    header_end_line(&flow);
    add_end(&flow, &part);
    report_losses_line(context, &part);
    add_text(&flow, &part, VIEW_PLAIN);
    header_end_line(&flow);
    add_notes(&flow, &part);
    add_filters(&flow, &part);
    base_text_free(&part);
}

/* Without samples: are there calls to look at? */
static void add_calls_instead(const struct view_context *context, struct base_text *part)
{
    struct profile_extent extent = profile_extent_named(context->profile, PROFILE_CALLS);
    if (profile_extent_has_calls(context->profile)) {
        base_text_add(part, ". Calls were counted: tally report --edges shows them");
    } else if (profile_counts_calls(context->profile)) {
        base_text_add(part, ". Calls: ");
        profile_extent_not_counted(&extent, part);
    }
}

/* Only what is known: how much time the target used says nothing of a recording that lacks a part of it. */
static void add_why_no_samples(const struct view_context *context, struct base_text *part)
{
    const char *reason = profile_meta(context->profile, "no_samples_reason");
    struct profile_extent extent = profile_extent_of(context->profile, context->selection.counter);
    double target;
    bool known = meta_number(context, "target_cpu_ns", &target) && target >= 0 && target < 9e18;
    size_t before = part->length;
    if (time_is_absent(context))
        base_text_add(part, "time was not recorded");
    else if (context->selection.counter && extent.degree == PROFILE_EXTENT_NONE)
        profile_extent_not_counted(&extent, part);
    else if (reason && *reason)
        base_text_add(part, reason);
    else if (extent.degree == PROFILE_EXTENT_PART)
        profile_extent_reason(&extent, part);
    else if (known && target > 0) {
        base_text_add(part, "the target used only ");
        view_text_time(part, (int64_t)target, context->options->ascii);
        base_text_add(part, " of CPU time");
    } else if (known)
        base_text_add(part, "the target used no CPU time while it was recorded");
    if (part->length == before)
        base_text_add(part, "the profile does not say why");
}

bool report_header_nothing(struct view_context *context)
{
    const struct view_selection *selection = &context->selection;
    struct flow flow = {.context = context};
    struct base_text part = {0};
    bool counted = selection->counter && (selection->exact || !view_select_is_time(selection->name));
    bool any = selection->all.samples || selection->all.value;
    if (counted ? selection->taken.value || selection->taken.samples : context->nodes.count != 0)
        return false;
    if (!counted)
        base_text_add(&part, "No samples: ");
    if (counted && !any)
        report_held_nothing(context, &part);
    else if (any)
        base_text_add(&part, "the filters leave none");
    else
        add_why_no_samples(context, &part);
    if (!counted)
        add_calls_instead(context, &part);
    add_text(&flow, &part, VIEW_BOLD);
    header_end_line(&flow);
    base_text_free(&part);
    return true;
}
