/* report_head.c - the lines above a view when nobody asked for more: at most four, each as wide as the
 * terminal. What has no room is in the full header (tally report --header), and a line that leaves something
 * out says so. */
#include <math.h>

#include "base_utf8.h"
#include "profile_extent.h"
#include "profile_statistics.h"
#include "report_cost.h"
#include "report_counted.h"
#include "report_header.h"
#include "report_heap.h"
#include "report_views.h"
#include "view_calls.h"
#include "view_text.h"

enum { MORE_COLUMNS = 4 }; /* of " ..." */

/* --- the program --- */

/* The command, shortened so that the time it was recorded for stands beside it. */
static void head_add_program(struct report_flow *flow, struct base_text *part)
{
    const struct view_context *context = flow->context;
    struct base_text command = {0}, time = {0};
    double duration;
    if (report_meta_number(context, "duration_ns", &duration))
        view_text_time(&time, (int64_t)fmin(fmax(duration, 0), 9e18), context->options->ascii);
    unsigned beside = time.length ? base_utf8_width(base_text_string(&time)) + REPORT_FLOW_BETWEEN : 0;
    report_header_command(context, &command);
    view_text_fit(part, base_text_string(&command), context->width ? context->width - beside : 0,
                  context->options->ascii);
    if (part->length)
        report_flow_add_words(flow, base_text_string(part), VIEW_BOLD);
    base_text_clear(part);
    report_flow_add(flow, &time, VIEW_PLAIN);
    report_flow_end_line(flow);
    context->out->failed |= command.failed;
    base_text_free(&command);
    base_text_free(&time);
}

/* --- what was counted --- */

struct head_counted {
    struct report_flow *flow;
    bool dropped; /* a part had no room */
};

/* The first part of the line, which always has room: what is too long is shortened in its middle. */
static void head_fit(const struct view_context *context, struct base_text *part)
{
    struct base_text fitted = {0};
    unsigned columns = context->width ? context->width - MORE_COLUMNS : 0;
    view_text_fit(&fitted, base_text_string(part), columns, context->options->ascii);
    base_text_clear(part);
    base_text_add(part, base_text_string(&fitted));
    part->failed |= fitted.failed;
    base_text_free(&fitted);
}

/* Adds a part if it fits on the line with the dots behind it, and empties it. */
static void head_add_counted(struct head_counted *counted, struct base_text *part)
{
    struct report_flow *flow = counted->flow;
    unsigned width = base_utf8_width(base_text_string(part));
    if (!flow->column) {
        head_fit(flow->context, part);
    } else if (!report_flow_has_room(flow, width + MORE_COLUMNS)) {
        counted->dropped |= part->length != 0;
        base_text_clear(part);
    }
    report_flow_add(flow, part, VIEW_PLAIN);
}

/* "time.cpu: 1,998 samples, within 2.2 points" */
static void head_counter(const struct view_context *context, struct base_text *part)
{
    const struct view_selection *selection = &context->selection;
    struct profile_extent extent = profile_extent_of(context->profile, selection->counter);
    base_text_addf(part, "%s: ", selection->name);
    if (selection->counter && extent.degree == PROFILE_EXTENT_NONE) {
        profile_extent_not_counted_briefly(&extent, part);
    } else if (selection->peak || selection->exact) {
        view_text_value(part, selection->unit, selection->taken.value, context->options->ascii);
        base_text_addf(part, "%s, %s", selection->peak ? " at most" : "", profile_extent_words(&extent));
    } else {
        view_text_count(part, selection->taken.samples);
        base_text_add(part, selection->taken.samples == 1 ? " sample" : " samples");
        if (selection->taken.samples)
            base_text_addf(part, ", within %.1f points",
                           100 * profile_maximum_margin((uint64_t)selection->effective));
    }
}

/* "1,234,567 calls, exact" */
static void head_calls(const struct view_context *context, struct base_text *part)
{
    struct profile_extent extent = profile_extent_named(context->profile, PROFILE_CALLS);
    uint64_t calls;
    size_t edges;
    if (!profile_counts_calls(context->profile))
        return;
    if (extent.degree == PROFILE_EXTENT_NONE) {
        base_text_add(part, "calls: ");
        profile_extent_not_counted_briefly(&extent, part);
        return;
    }
    if (!view_calls_count(context->profile, &calls, &edges))
        context->out->failed = true;
    view_text_count(part, calls);
    const char *names = profile_meta(context->profile, "calls_names");
    base_text_addf(part, " %s, %s%s", calls == 1 ? "call" : "calls", profile_extent_words(&extent),
                   names && *names ? ", only of those that were named" : "");
}

static void head_add_held(struct head_counted *counted, struct base_text *part)
{
    const struct view_context *context = counted->flow->context;
    const struct profile *profile = context->profile;
    bool ascii = context->options->ascii;
    struct report_heap heap;
    if (context->selection.period) /* they are of the whole recording, and not there */
        return;
    if (report_heap_gather(profile, &heap))
        report_heap_text_briefly(part, profile, &heap, ascii);
    head_add_counted(counted, part);
    report_counted_descriptors(part, profile);
    head_add_counted(counted, part);
    report_counted_throws(part, profile);
    head_add_counted(counted, part);
    report_counted_maps(part, profile, ascii);
    head_add_counted(counted, part);
    report_counted_empty(part, profile, ascii);
    head_add_counted(counted, part);
    report_counted_instrumented(part, profile);
    head_add_counted(counted, part);
}

static void head_add_figures(struct report_flow *flow, struct base_text *part)
{
    struct view_context *context = flow->context;
    struct head_counted counted = {.flow = flow};
    if (context->options->view != VIEW_EDGES && !report_header_time_is_absent(context))
        head_counter(context, part);
    head_add_counted(&counted, part);
    head_calls(context, part);
    head_add_counted(&counted, part);
    head_add_held(&counted, part);
    report_header_others(context, part);
    head_add_counted(&counted, part);
    if (counted.dropped)
        base_text_add(context->out, " ...");
    report_flow_end_line(flow);
}

/* --- what is wrong with it --- */

enum { WRONG_PARTS = 3 };

/* How it ended, losses of at most so many kinds, and notes; a part may be empty. `where`: with the options that
 * show the rest. */
static void head_wrong(struct view_context *context, unsigned kinds, bool where,
                       struct base_text parts[WRONG_PARTS])
{
    size_t notes = report_header_notes(context);
    for (size_t i = 0; i < WRONG_PARTS; i++)
        base_text_clear(&parts[i]);
    report_header_end(context, true, &parts[0]);
    if (report_losses_any(context))
        report_losses_line(context, kinds, where, &parts[1]);
    if (notes)
        base_text_addf(&parts[2], "%zu %s%s", notes, notes == 1 ? "note" : "notes",
                       where ? " (tally report --header)" : " (-v)");
}

static unsigned head_width(const struct base_text parts[WRONG_PARTS])
{
    unsigned width = 0;
    for (size_t i = 0; i < WRONG_PARTS; i++)
        width += parts[i].length
                     ? base_utf8_width(base_text_string(&parts[i])) + (width ? REPORT_FLOW_BETWEEN : 0)
                     : 0;
    return width;
}

/* With as many kinds of losses as the line has room for, and where to look if it has. */
static void head_add_wrong(struct report_flow *flow)
{
    struct view_context *context = flow->context;
    struct base_text parts[WRONG_PARTS] = {{0}};
    bool complete = profile_meta(context->profile, "complete") != NULL;
    bool fits = false;
    for (unsigned kinds = REPORT_LOSSES_KINDS + 1; kinds-- > 0 && !fits;) {
        head_wrong(context, kinds, true, parts);
        fits = report_flow_has_room(flow, head_width(parts));
    }
    if (!fits)
        head_wrong(context, 0, false, parts);
    for (size_t i = 0; i < WRONG_PARTS; i++) {
        report_flow_add(flow, &parts[i], i || complete ? VIEW_PLAIN : VIEW_BOLD);
        base_text_free(&parts[i]);
    }
    report_flow_end_line(flow);
}

/* --- all of it --- */

void report_head(struct view_context *context)
{
    struct report_flow flow = {.context = context};
    struct base_text part = {0};
    head_add_program(&flow, &part);
    head_add_figures(&flow, &part);
    report_cost_line(&flow, &part);
    report_flow_end_line(&flow);
    head_add_wrong(&flow);
    report_header_period(&flow, &part);
    report_header_filters(&flow, &part);
    base_text_free(&part);
}
