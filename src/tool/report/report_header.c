/* report_header.c - all that a recording says of itself: what was measured, how, and how far to trust it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base_utf8.h"
#include "profile_extent.h"
#include "profile_own.h"
#include "profile_statistics.h"
#include "report_cost.h"
#include "report_counted.h"
#include "report_coverage.h"
#include "report_flow.h"
#include "report_header.h"
#include "report_heap.h"
#include "report_held.h"
#include "report_views.h"
#include "view_calls.h"
#include "view_style.h"
#include "view_text.h"

/* --- the parts --- */

/* Imported ones may have no number. */
static void add_process(struct base_text *part, const struct profile *profile, size_t index)
{
    const struct profile_process *it = &profile->processes[index];
    base_text_addf(part, "%s%s", part->length ? ", " : "", profile_text(profile, it->name));
    if (it->pid)
        base_text_addf(part, " (%d)", it->pid);
}

void report_header_command(const struct view_context *context, struct base_text *out)
{
    const struct profile *profile = context->profile;
    const char *command = profile_meta(profile, "command"), *mode = profile_meta(profile, "mode");
    struct base_text text = {0};
    if (command && *command) {
        base_text_add(&text, command);
    } else if (mode && !strcmp(mode, "system")) {
        base_text_add(&text, "the whole machine");
    } else {
        for (size_t i = 1; i < profile->process_count && i <= 3; i++)
            add_process(&text, profile, i);
        if (profile->process_count > 4)
            base_text_addf(&text, " and %zu more", profile->process_count - 4);
    }
    base_utf8_clean(out, base_text_string(&text), context->options->ascii);
    context->out->failed |= text.failed;
    base_text_free(&text);
}

static void add_program(struct report_flow *flow, struct base_text *part)
{
    struct base_text command = {0};
    report_header_command(flow->context, &command);
    view_text_fit(part, base_text_string(&command), flow->context->width, flow->context->options->ascii);
    flow->context->out->failed |= command.failed;
    base_text_free(&command);
    if (part->length)
        report_flow_add_words(flow, base_text_string(part), VIEW_BOLD);
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

static void header_add_place(struct report_flow *flow, struct base_text *part)
{
    const struct view_context *context = flow->context;
    const char *host = profile_meta(context->profile, "hostname"),
               *kernel = profile_meta(context->profile, "kernel");
    const char *origins = profile_meta(context->profile, "origins");
    double duration, start;
    if (origins)
        base_text_addf(part, "%s recordings, ", origins);
    if (report_meta_number(context, "duration_ns", &duration))
        view_text_time(part, (int64_t)fmin(fmax(duration, 0), 9e18), context->options->ascii);
    if (host)
        base_text_addf(part, "%son %s", part->length ? " " : "", host);
    if (kernel)
        base_text_addf(part, "%sLinux %s", part->length ? ", " : "", kernel);
    if (report_meta_number(context, "start_time", &start))
        add_header_date(part, start);
    report_flow_add(flow, part, VIEW_PLAIN);
}

bool report_header_time_is_absent(const struct view_context *context)
{
    return !context->selection.counter && profile_counts_calls(context->profile);
}

static void add_counter(struct report_flow *flow, struct base_text *part)
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
        if (view_select_is_time(selection->name) && report_meta_number(context, "rate_hz", &rate) &&
            rate > 0 && rate < 1e9) {
            base_text_add(part, " at ");
            view_text_count(part, (uint64_t)llround(rate));
            base_text_add(part, " Hz");
        }
        if (!strcmp(selection->name, "time.real") && report_meta_number(context, "waits_apart_ns", &apart))
            base_text_addf(part, ", of waits %.1f ms apart", apart / 1e6);
        if (selection->taken.samples)
            base_text_addf(part, ", any share is within %.1f points (95 %%)",
                           100 * profile_maximum_margin((uint64_t)selection->effective));
    }
    report_flow_add(flow, part, VIEW_PLAIN);
}

static void header_add_calls(struct report_flow *flow, struct base_text *part)
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
        report_flow_add(flow, part, VIEW_PLAIN);
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
    report_flow_add(flow, part, VIEW_PLAIN);
}

/* "heap: 1.20 GiB in 3,400,000 blocks, peak 55.3 MiB at 1.23 s, 12.0 KiB live in 3, 12.3 % temporary" */
static void add_heap(struct report_flow *flow, struct base_text *part)
{
    struct report_heap heap;
    if (flow->context->selection.period || !report_heap_gather(flow->context->profile, &heap))
        return;
    report_heap_text(part, flow->context->profile, &heap, flow->context->options->ascii);
    report_flow_add(flow, part, VIEW_PLAIN);
}

static void add_counted(struct report_flow *flow, struct base_text *part)
{
    if (flow->context->selection.period) /* they are of the whole recording, and not there */
        return;
    report_counted_empty(part, flow->context->profile, flow->context->options->ascii);
    report_flow_add(flow, part, VIEW_PLAIN);
    report_counted_maps(part, flow->context->profile, flow->context->options->ascii);
    report_flow_add(flow, part, VIEW_PLAIN);
    report_counted_throws(part, flow->context->profile);
    report_flow_add(flow, part, VIEW_PLAIN);
    report_counted_descriptors(part, flow->context->profile);
    report_flow_add(flow, part, VIEW_PLAIN);
}

static void add_header_filter(struct base_text *part, const char *kind, const char *pattern)
{
    if (pattern)
        base_text_addf(part, "%s%s %s", part->length > 6 ? ", " : "", kind, pattern);
}

void report_header_filters(struct report_flow *flow, struct base_text *part)
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
        report_flow_add(flow, part, VIEW_PLAIN);
        report_flow_end_line(flow);
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
    report_flow_add(flow, part, VIEW_PLAIN);
    report_flow_end_line(flow);
}

/* Tally puts everything back; what somebody else has changed meanwhile it cannot. */
static void add_remains(struct report_flow *flow, struct base_text *part)
{
    const struct view_context *context = flow->context;
    uint64_t remains;
    if (!report_meta_count(context, "calls_remains", &remains))
        return;
    base_text_add(part, "note: ");
    view_text_count(part, remains);
    base_text_addf(part, " %s in the target's code could not be put back: somebody else had changed %s",
                   remains == 1 ? "place" : "places", remains == 1 ? "it" : "them");
    report_flow_add(flow, part, VIEW_PLAIN);
    report_flow_end_line(flow);
}

static const char *const note_keys[] = {"rate_notice",   "kernel_notice",     "stack_copy_notice",
                                        "births_notice", "privileges_notice", "calls_notice",
                                        "agent_notice",  "import_notice",     "truncation"};

size_t report_header_notes(const struct view_context *context)
{
    uint64_t remains;
    size_t count = report_meta_count(context, "calls_remains", &remains);
    for (size_t i = 0; i < sizeof note_keys / sizeof *note_keys; i++) {
        const char *note = profile_meta(context->profile, note_keys[i]);
        count += note && *note;
    }
    return count;
}

void report_header_period(struct report_flow *flow, struct base_text *part)
{
    const char *note = profile_meta(flow->context->profile, "period_notice");
    if (note && *note)
        base_text_addf(part, "note: %s", note);
    report_flow_add(flow, part, VIEW_PLAIN);
    report_flow_end_line(flow);
}

void report_header_others(const struct view_context *context, struct base_text *out)
{
    const struct profile *profile = context->profile;
    for (size_t i = 1; i < profile->counter_count && profile->counter_count > 2; i++)
        if (i != context->selection.counter && i != profile_counts_calls(profile))
            base_text_addf(out, "%s%s", out->length ? ", " : "other counters (--counter): ",
                           profile_text(profile, profile->counters[i].name));
}

/* Whatever the recorder had to say of itself, and other counters. */
static void add_notes(struct report_flow *flow, struct base_text *part)
{
    const struct view_context *context = flow->context;
    const struct profile *profile = context->profile;
    for (size_t i = 0; i < sizeof note_keys / sizeof *note_keys; i++) {
        const char *note = profile_meta(profile, note_keys[i]);
        if (!note || !*note)
            continue;
        base_text_addf(part, "note: %s", note);
        report_flow_add(flow, part, VIEW_PLAIN);
        report_flow_end_line(flow);
    }
    add_remains(flow, part);
    report_header_period(flow, part);
    report_header_others(context, part);
    report_flow_add(flow, part, VIEW_PLAIN);
    report_flow_end_line(flow);
}

void report_header_end(const struct view_context *context, bool brief, struct base_text *out)
{
    const char *status = profile_meta(context->profile, "exit_status");
    const char *partial = profile_meta(context->profile, "import_partial");
    bool complete = profile_meta(context->profile, "complete");
    if (!complete && brief)
        base_text_addf(out, "unfinished%s%s", partial ? ": " : " recording", partial ? partial : "");
    else if (!complete)
        base_text_addf(out, "unfinished: %s; %s", partial ? partial : "the recording did not come to its end",
                       partial ? "this is what it has" : "this is what was saved until then");
    else if (status && *status && strcmp(status, "0") && strcmp(status, "success"))
        base_text_addf(out, "%sended with %s", brief ? "" : "the target ", status);
}

static void add_end(struct report_flow *flow, struct base_text *part)
{
    report_header_end(flow->context, false, part);
    report_flow_add(flow, part, profile_meta(flow->context->profile, "complete") ? VIEW_PLAIN : VIEW_BOLD);
    report_flow_end_line(flow);
}

void report_header_full(struct view_context *context)
{
    struct report_flow flow = {.context = context};
    struct base_text part = {0};
    add_program(&flow, &part);
    header_add_place(&flow, &part);
    if (context->options->view != VIEW_EDGES && !report_header_time_is_absent(context))
        add_counter(&flow, &part);
    header_add_calls(&flow, &part);
    add_heap(&flow, &part);
    add_counted(&flow, &part);
    report_flow_end_line(&flow);
    report_cost_parts(&flow, &part);
    report_flow_end_line(&flow);
    add_end(&flow, &part);
    report_losses_line(context, REPORT_LOSSES_KINDS, true, &part);
    report_flow_add(&flow, &part, VIEW_PLAIN);
    report_flow_end_line(&flow);
    add_notes(&flow, &part);
    report_header_filters(&flow, &part);
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
    bool known = report_meta_number(context, "target_cpu_ns", &target) && target >= 0 && target < 9e18;
    size_t before = part->length;
    if (report_header_time_is_absent(context))
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
    struct report_flow flow = {.context = context};
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
    else if (profile_own_left_out(context->profile, selection->counter).samples)
        base_text_add(&part, "all lie in Tally's own code (--with-overhead shows them)");
    else
        add_why_no_samples(context, &part);
    if (!counted)
        add_calls_instead(context, &part);
    report_flow_add(&flow, &part, VIEW_BOLD);
    report_flow_end_line(&flow);
    base_text_free(&part);
    return true;
}
