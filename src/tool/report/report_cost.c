#include "report_cost.h"

#include <math.h>
#include <string.h>

#include "profile_own.h"
#include "profile_statistics.h"
#include "view_text.h"

#define HOLD_SHOWN_NS 2000000000u /* shorter recordings are traced all the time */

/* --- the figures --- */

uint32_t report_cost_counter(const struct profile *profile)
{
    uint32_t cpu = profile_counter_named(profile, "time.cpu");
    if (cpu && !profile->counters[cpu].exact)
        return cpu;
    for (uint32_t i = 1; i < profile->counter_count; i++) {
        const struct profile_counter *counter = &profile->counters[i];
        if (!counter->exact && counter->combine == PROFILE_SUM &&
            !strcmp(profile_text(profile, counter->unit), "ns"))
            return i;
    }
    return 0;
}

/* Profiles of earlier versions have samples in stubs among the program's, and say how many. */
static void add_stubs_of_old(const struct view_context *context, struct report_cost *cost)
{
    double stubs; /* of the whole recording */
    if (profile_own_has_stubs(context->profile)) {
        cost->stubs_known = true;
        return;
    }
    bool said = !context->selection.period && report_meta_number(context, "overhead_stub_samples", &stubs) &&
                stubs >= 0 && stubs <= (double)cost->samples;
    cost->stubs_known = said;
    if (said) {
        cost->own_samples += (uint64_t)stubs;
        cost->stub_samples = (uint64_t)stubs;
    }
    if (cost->own_samples > cost->samples)
        cost->own_samples = cost->samples;
}

/* What the program would have used alone is what is left when Tally's share of the target's time is not
 * counted. */
static void compare_cpu_times(const struct view_context *context, struct report_cost *cost)
{
    double share = cost->samples ? (double)cost->own_samples / (double)cost->samples : 0;
    cost->tool_known = report_meta_number(context, "overhead_tool_cpu_ns", &cost->tool_ns) &&
                       cost->tool_ns >= 0 && cost->tool_ns < 9e18;
    if (!report_meta_number(context, "target_cpu_ns", &cost->target_ns) || cost->target_ns <= 0 ||
        cost->target_ns > 9e18)
        cost->target_ns = 0;
    double program_ns = cost->target_ns * (1 - share);
    cost->percent_known = cost->tool_known && program_ns > 0 && cost->of_cpu && !context->selection.period;
    if (cost->percent_known)
        cost->percent = 100 * (cost->tool_ns + cost->target_ns * share) / program_ns;
}

/* Other times have waits in them, of which a share is none of the CPU time. Without samples there is no share. */
static bool is_cpu_time(const struct profile *profile, uint32_t counter)
{
    const char *name = profile_text(profile, profile->counters[counter].name);
    return !counter || !strcmp(name, "time.cpu") || !strcmp(name, "time.user");
}

struct report_cost report_cost_of(const struct view_context *context)
{
    const struct profile *profile = context->profile;
    uint32_t counter = report_cost_counter(profile);
    struct profile_own own = profile_own_sum(profile, counter);
    struct profile_own out = profile_own_left_out(profile, counter);
    struct report_cost cost = {.samples = counter ? profile_own_all_samples(profile, counter) : 0,
                               .own_samples = own.samples,
                               .stub_samples = own.stub_samples,
                               .of_cpu = is_cpu_time(profile, counter)};
    add_stubs_of_old(context, &cost);
    cost.left_out = out.samples && out.samples == cost.own_samples;
    compare_cpu_times(context, &cost);
    return cost;
}

/* --- in a line --- */

static void cost_add_sum(struct report_flow *flow, const struct report_cost *cost, struct base_text *part)
{
    if (cost->percent_known) {
        base_text_addf(part, "cost: %.1f %% more CPU time", cost->percent);
    } else if (cost->tool_known) {
        base_text_add(part, "cost: ");
        view_text_time(part, (int64_t)cost->tool_ns, flow->context->options->ascii);
        base_text_add(part, " of CPU time");
    }
    report_flow_add(flow, part, VIEW_PLAIN);
    view_text_own(part, cost->own_samples, cost->samples, cost->left_out);
    report_flow_add(flow, part, VIEW_PLAIN);
}

void report_cost_line(struct report_flow *flow, struct base_text *part)
{
    struct report_cost cost = report_cost_of(flow->context);
    cost_add_sum(flow, &cost, part);
}

/* --- in parts --- */

/* How much of the time was spent counting: `some` of the samples, with the interval of their share. */
static void cost_add_part_of_samples(const struct view_context *context, struct base_text *part,
                                     uint64_t some, uint64_t samples)
{
    struct profile_interval interval = profile_wilson(some, samples);
    if (some)
        base_text_addf(part, "%.1f %s%.1f %% of samples", 100 * (double)some / (double)samples,
                       context->options->ascii ? "+-" : "±", 50 * (interval.high - interval.low));
    else
        base_text_addf(part, "below %.2g %% of samples", 100 * interval.high);
}

/* Samples that fell into stubs. */
static void cost_add_stubs(struct report_flow *flow, const struct report_cost *cost, struct base_text *part)
{
    if (!cost->samples || !cost->stubs_known)
        return;
    base_text_add(part, "stubs: ");
    cost_add_part_of_samples(flow->context, part, cost->stub_samples, cost->samples);
    report_flow_add(flow, part, VIEW_PLAIN);
}

static void cost_begin_item(struct base_text *part, const char *before)
{
    base_text_add(part, part->length ? ", " : before);
}

/* "64.0 KiB left in it", if it is known. */
static void cost_add_bytes(const struct view_context *context, struct base_text *part, const char *before,
                           const char *key, const char *words)
{
    uint64_t bytes;
    if (!report_meta_count(context, key, &bytes))
        return;
    cost_begin_item(part, before);
    view_text_value(part, "bytes", (int64_t)bytes, context->options->ascii);
    base_text_add(part, words);
}

/* "held for 12 % of the time", or "held throughout (libfoo.so makes ...)": while it is, each signal costs a
 * stop. */
static void cost_add_hold(const struct view_context *context, struct base_text *part, const char *before)
{
    uint64_t followed, traced;
    const char *why = profile_meta(context->profile, "calls_held");
    if (!report_meta_count(context, "overhead_followed_ns", &followed) ||
        !report_meta_count(context, "overhead_traced_ns", &traced) || followed < HOLD_SHOWN_NS)
        return;
    cost_begin_item(part, before);
    if (traced < followed)
        base_text_addf(part, "held for %.0f %% of the time", 100.0 * (double)traced / (double)followed);
    else
        base_text_add(part, "held throughout");
    if (why && *why)
        base_text_addf(part, " (%s)", why);
}

/* What tracing did to the target: "ptrace: 1,200 signals in 54.0 ms, 12 creations, stopped for 2.10 ms in
 * all, held for 12 % of the time". */
static void cost_add_stops(struct report_flow *flow, struct base_text *part)
{
    static const char before[] = "ptrace: ";
    const struct view_context *context = flow->context;
    uint64_t count, time;
    if (report_meta_count(context, "overhead_signals", &count)) {
        cost_begin_item(part, before);
        view_text_count(part, count);
        base_text_add(part, count == 1 ? " signal" : " signals");
        if (report_meta_count(context, "overhead_signal_ns", &time)) {
            base_text_add(part, " in ");
            view_text_time(part, (int64_t)time, context->options->ascii);
        }
    }
    if (report_meta_count(context, "overhead_births", &count)) {
        cost_begin_item(part, before);
        view_text_count(part, count);
        base_text_add(part, count == 1 ? " creation" : " creations");
    }
    if (report_meta_count(context, "overhead_stopped_ns", &time)) {
        cost_begin_item(part, before);
        base_text_add(part, "stopped for ");
        view_text_time(part, (int64_t)time, context->options->ascii);
        base_text_add(part, " in all");
    }
    cost_add_hold(context, part, before);
    report_flow_add(flow, part, VIEW_PLAIN);
}

/* How counters were kept, how long it took to put them in place, and what they took of the target's memory. A
 * locked increment costs more than a plain one, most where several threads meet. */
static void cost_add_counters(struct report_flow *flow, struct base_text *part)
{
    const struct view_context *context = flow->context;
    const char *form = profile_meta(context->profile, "calls_form");
    uint64_t figure;
    bool locked = form && !strcmp(form, "lock");
    if (form && *form) {
        cost_begin_item(part, "counters: ");
        base_text_add(part, locked                    ? "locked, about 5 ns a call"
                            : !strcmp(form, "thread") ? "by thread"
                                                      : form);
    }
    if (report_meta_count(context, "calls_setup_ns", &figure)) {
        cost_begin_item(part, "counters: ");
        base_text_add(part, "set up in ");
        view_text_time(part, (int64_t)figure, context->options->ascii);
    }
    cost_add_bytes(context, part, "counters: ", "overhead_target_memory", " in the target");
    cost_add_bytes(context, part, "counters: ", "calls_memory_left", " left in it");
    report_flow_add(flow, part, VIEW_PLAIN);
}

/* What counting inside the target took of time and memory. */
static void cost_add_agent(struct report_flow *flow, const struct report_cost *cost, struct base_text *part)
{
    const struct view_context *context = flow->context;
    if (profile_meta(context->profile, "agent_memory") && cost->samples) {
        cost_begin_item(part, "agent: ");
        cost_add_part_of_samples(context, part, cost->own_samples - cost->stub_samples, cost->samples);
    }
    cost_add_bytes(context, part, "agent: ", "agent_memory", " of tables");
    cost_add_bytes(context, part, "agent: ", "agent_memory_left", " left in the target");
    report_flow_add(flow, part, VIEW_PLAIN);
}

static void cost_add_tool(struct report_flow *flow, const struct report_cost *cost, struct base_text *part)
{
    bool ascii = flow->context->options->ascii;
    if (!cost->tool_known)
        return;
    base_text_add(part, "tally: ");
    view_text_time(part, (int64_t)cost->tool_ns, ascii);
    base_text_add(part, " of CPU time");
    if (cost->target_ns > 0) {
        base_text_addf(part, ", %.1f %% of the target's ", 100 * cost->tool_ns / cost->target_ns);
        view_text_time(part, (int64_t)cost->target_ns, ascii);
    }
    report_flow_add(flow, part, VIEW_PLAIN);
}

void report_cost_parts(struct report_flow *flow, struct base_text *part)
{
    struct report_cost cost = report_cost_of(flow->context);
    const char *engine = profile_meta(flow->context->profile, "engine");
    cost_add_sum(flow, &cost, part);
    cost_add_tool(flow, &cost, part);
    cost_add_stubs(flow, &cost, part);
    cost_add_stops(flow, part);
    cost_add_counters(flow, part);
    cost_add_agent(flow, &cost, part);
    if (engine) {
        base_text_add(part, engine);
        report_flow_add(flow, part, VIEW_PLAIN);
    }
}

void report_cost_json(struct view_context *context)
{
    struct report_cost cost = report_cost_of(context);
    base_json_begin(context->json, "cost", '{');
    base_json_number(context->json, "cpu_percent", cost.percent_known ? cost.percent : NAN);
    base_json_unsigned(context->json, "samples", cost.samples);
    base_json_unsigned(context->json, "own_samples", cost.own_samples);
    base_json_unsigned(context->json, "stub_samples", cost.stub_samples);
    base_json_bool(context->json, "left_out", cost.left_out);
    base_json_end(context->json, '}');
}
