#include "cli_record_result.h"

#include "base_terminal.h"
#include "cli.h"
#include "cli_record_status.h"
#include "profile_extent.h"
#include "profile_own.h"
#include "report_cost.h"
#include "report_counted.h"
#include "report_heap.h"
#include "report_losses.h"
#include "view_calls.h"
#include "view_text.h"
#include "wire_loss.h"

static void record_result_add_figure(struct base_text *line, const char *before, uint64_t figure,
                                     const char *unit)
{
    base_text_add(line, before);
    view_text_count(line, figure);
    base_text_add(line, unit);
}

static void say_heap(const struct profile *profile, const struct record_status *status)
{
    struct report_heap heap;
    struct base_text line = {0};
    if (!report_heap_gather(profile, &heap))
        return;
    report_heap_text(&line, profile, &heap, !base_terminal_utf8());
    if (status->recorded_ns && heap.sums[PROFILE_HEAP_COUNT] > 0)
        record_result_add_figure(
            &line, ", ",
            (uint64_t)((double)heap.sums[PROFILE_HEAP_COUNT] * 1e9 / (double)status->recorded_ns),
            " allocations/s");
    cli_say("%s", base_text_string(&line));
    base_text_free(&line);
}

static void say_timeline(const struct profile *profile)
{
    uint64_t bytes, samples = profile_timeline_size(profile, &bytes),
                    left = profile->losses[WIRE_LOSS_TIMELINE_FULL];
    struct base_text line = {0};
    if (samples) {
        record_result_add_figure(&line, "timeline: ", samples, " samples, ");
        record_result_add_figure(&line, "", (bytes + 500) / 1000, " kB");
        cli_say("%s", base_text_string(&line));
    }
    base_text_clear(&line);
    if (left) {
        record_result_add_figure(&line, "timeline: full before ", left,
                                 " more samples, which only figures have; --timeline=BYTES is its size");
        cli_say("%s", base_text_string(&line));
    }
    base_text_free(&line);
}

static void say_counted(const struct profile *profile)
{
    struct base_text line = {0};
    report_counted_empty(&line, profile, !base_terminal_utf8());
    if (line.length)
        cli_say("%s", base_text_string(&line));
    base_text_clear(&line);
    report_counted_maps(&line, profile, !base_terminal_utf8());
    if (line.length)
        cli_say("%s", base_text_string(&line));
    base_text_clear(&line);
    report_counted_throws(&line, profile);
    if (line.length)
        cli_say("%s", base_text_string(&line));
    base_text_clear(&line);
    report_counted_descriptors(&line, profile);
    if (line.length)
        cli_say("%s", base_text_string(&line));
    base_text_clear(&line);
    report_counted_instrumented(&line, profile);
    if (line.length)
        cli_say("%s", base_text_string(&line));
    base_text_free(&line);
}

static void say_lost_counts(const struct profile *profile)
{
    struct base_text line = {0};
    base_text_add(&line, "lost: ");
    size_t before = line.length;
    report_losses_of_counts(profile, &line);
    if (line.length > before)
        cli_say("%s (tally report --losses)", base_text_string(&line));
    base_text_free(&line);
}

static void say_lost(const struct profile *profile, const struct record_status *status)
{
    uint64_t stacks = cli_record_lost_stacks(profile);
    uint64_t allocations = cli_record_lost(profile, WIRE_LOSS_AGENT_NO_ROWS, WIRE_LOSS_AGENT_TOO_DEEP);
    uint64_t untimed = profile->losses[WIRE_LOSS_AGENT_UNTIMED];
    struct base_text line = {0};
    if (status->lost || stacks) {
        record_result_add_figure(&line, "lost: ", status->lost, " samples dropped");
        record_result_add_figure(&line, ", ", stacks, "");
        record_result_add_figure(&line, " of ", status->samples,
                                 " stacks incomplete (tally report --losses)");
        cli_say("%s", base_text_string(&line));
    }
    base_text_clear(&line);
    if (allocations) {
        record_result_add_figure(&line, "lost: stacks of ", allocations,
                                 " allocations or calls incomplete (tally report --losses)");
        cli_say("%s", base_text_string(&line));
    }
    base_text_clear(&line);
    if (untimed) {
        record_result_add_figure(&line, "lost: ", untimed,
                                 " ms of CPU time that no timer reached (tally report --losses)");
        cli_say("%s", base_text_string(&line));
    }
    base_text_free(&line);
}

/* Daemons, and children that nobody waited for. Who said how long to record knows that it ends before. */
static void say_left(const struct cli_record_recorder *recorder, size_t left)
{
    if (left && recorder->child_ended)
        cli_say("%zu %s of the command %s on, unrecorded", left, left == 1 ? "process" : "processes",
                left == 1 ? "goes" : "go");
}

static void record_result_add_calls(struct base_text *figures, const struct profile *profile)
{
    uint64_t calls;
    size_t edges;
    if (!profile_extent_has_calls(profile)) {
        base_text_add(figures, ", no calls counted");
        return;
    }
    view_calls_count(profile, &calls, &edges);
    record_result_add_figure(figures, ", ", calls, " calls");
    record_result_add_figure(figures, " on ", edges, " edges");
}

/* "own CPU 7.4 %, in the program 28.1 % of all samples" */
static void record_result_add_cost(struct base_text *cost, const struct profile *profile,
                                   const struct record_status *status)
{
    struct profile_own own = profile_own_sum(profile, report_cost_counter(profile));
    double elapsed = (double)status->recorded_ns;
    base_text_addf(cost, "own CPU %.1f %%", elapsed > 0 ? 100 * (double)status->tool_cpu_ns / elapsed : 0.0);
    if (own.samples && status->samples >= own.samples)
        base_text_addf(cost, ", in the program %.1f %% of all samples",
                       100 * (double)own.samples / (double)status->samples);
}

void cli_record_say_result(struct cli_record_recorder *recorder)
{
    const struct record_status *status = record_session_status(recorder->session);
    const struct profile *profile = record_session_profile(recorder->session);
    const char *why = profile_meta(profile, "no_samples_reason");
    const char *kernel = profile_meta(profile, "kernel_notice");
    const char *privileges = profile_meta(profile, "privileges_notice");
    struct base_text figures = {0}, cost = {0};
    record_result_add_cost(&cost, profile, status);
    if (!recorder->request->no_time)
        record_result_add_figure(&figures, ", ", status->samples, " samples");
    if (recorder->request->calls) {
        record_result_add_calls(&figures, profile);
    }
    cli_say("%.2f s%s -> %s (%llu kB); %s", (double)status->recorded_ns / 1e9, base_text_string(&figures),
            recorder->request->output, (unsigned long long)status->file_bytes / 1000,
            base_text_string(&cost));
    base_text_free(&figures);
    base_text_free(&cost);
    say_timeline(profile);
    say_heap(profile, status);
    say_counted(profile);
    if (why)
        cli_say("no samples: %s", why);
    say_left(recorder, status->left);
    say_lost(profile, status);
    say_lost_counts(profile);
    if (privileges)
        cli_say("%s", privileges);
    cli_record_say_last_notice(recorder); /* what only the end has shown */
    if (kernel)
        cli_say("%s", kernel);
}
