/* report_held.c - memory that was held: at the end (leaks) or when there was the most of it. Whole stacks,
 * the largest first; of the peak also when it was, in each process. */
#include "report_held.h"

#include <stdlib.h>
#include <string.h>

#include "profile_extent.h"
#include "profile_heap.h"
#include "report_descriptors.h"
#include "report_merge.h"
#include "report_text.h"

const char *report_held_counter(enum report_view view)
{
    return view == REPORT_LEAKS  ? profile_heap_name(PROFILE_HEAP_LIVE)
           : view == REPORT_PEAK ? profile_heap_name(PROFILE_HEAP_PEAK)
           : view == REPORT_FDS  ? REPORT_DESCRIPTORS_COUNTER
                                 : NULL;
}

/* What a counter that is 0 means when all of it was counted. */
static const char *meaning(const char *counter)
{
    return !strcmp(counter, profile_heap_name(PROFILE_HEAP_LIVE))
               ? "No leaks: every block that was allocated was released"
           : !strcmp(counter, REPORT_DESCRIPTORS_COUNTER)
               ? "Nothing was left open: every descriptor that was opened was closed"
               : "Nothing: this counter is 0 everywhere";
}

void report_held_nothing(const struct report_context *context, struct base_text *out)
{
    struct profile_extent extent = profile_extent_of(context->profile, context->selection.counter);
    if (extent.degree == PROFILE_EXTENT_ALL && !extent.sampled) {
        base_text_add(out, meaning(context->selection.name));
        return;
    }
    base_text_addf(out, "%s: ", context->selection.name);
    if (extent.degree == PROFILE_EXTENT_NONE) {
        profile_extent_not_counted(&extent, out);
        return;
    }
    base_text_addf(out, "0 in what was %s", extent.sampled ? "sampled" : "counted");
    if (extent.degree == PROFILE_EXTENT_ALL)
        return;
    base_text_add(out, ", which is not all (");
    profile_extent_reason(&extent, out);
    base_text_add(out, ")");
}

/* --- peaks of processes --- */

static int by_value(const void *a, const void *b)
{
    const struct profile_peak *x = *(const struct profile_peak *const *)a,
                              *y = *(const struct profile_peak *const *)b;
    if (x->value != y->value)
        return x->value > y->value ? -1 : 1;
    return (x->process > y->process) - (x->process < y->process);
}

/* Those of the counter, the highest first; NULL: memory ran out. */
static const struct profile_peak **peaks_of(const struct report_context *context, size_t *count)
{
    const struct profile *profile = context->profile;
    const struct profile_peak **peaks = calloc(profile->peak_count + 1, sizeof *peaks);
    *count = 0;
    for (size_t i = 1; peaks && i < profile->peak_count; i++)
        if (profile->peaks[i].counter == context->selection.counter)
            peaks[(*count)++] = &profile->peaks[i];
    if (peaks)
        qsort(peaks, *count, sizeof *peaks, by_value);
    return peaks;
}

static int64_t time_of(const struct profile_peak *peak)
{
    return peak->time_ns < INT64_MAX ? (int64_t)peak->time_ns : INT64_MAX;
}

static void add_text_cell(struct report_table *table, struct base_text *text, bool ascii)
{
    table->failed |= text->failed;
    report_table_cell(table, base_text_string(text), ascii);
    base_text_clear(text);
}

static void peak_row(const struct report_context *context, struct report_table *table,
                     const struct profile_peak *peak)
{
    const struct profile *profile = context->profile;
    const struct profile_process *process = &profile->processes[peak->process];
    bool ascii = context->options->ascii;
    struct base_text text = {0};
    report_text_value(&text, context->selection.unit, peak->value, ascii);
    add_text_cell(table, &text, ascii);
    report_text_time(&text, time_of(peak), ascii);
    add_text_cell(table, &text, ascii);
    base_text_addf(&text, "%d", process->pid);
    add_text_cell(table, &text, ascii);
    report_table_cell(table, profile_text(profile, process->name), ascii);
    report_table_row(table, REPORT_PLAIN);
    base_text_free(&text);
}

static void peaks_table(struct report_context *context, const struct profile_peak **peaks, size_t count)
{
    struct report_table table = {0};
    struct report_table_form form = report_view_form(context);
    report_table_add_column(&table, "peak", REPORT_RIGHT, REPORT_FIXED);
    report_table_add_column(&table, "at", REPORT_RIGHT, REPORT_FIXED);
    report_table_add_column(&table, "pid", REPORT_RIGHT, REPORT_FIXED);
    report_table_add_column(&table, "process", REPORT_LEFT, REPORT_FLEXIBLE);
    for (size_t i = 0; i < count; i++)
        peak_row(context, &table, peaks[i]);
    report_table_print(&table, &form, context->out);
    base_text_add(context->out, "\n");
    report_table_free(&table);
}

static void peaks_json(struct report_context *context, const struct profile_peak **peaks, size_t count)
{
    const struct profile *profile = context->profile;
    struct base_json *json = context->json;
    base_json_begin(json, "peaks", '[');
    for (size_t i = 0; i < count; i++) {
        const struct profile_process *process = &profile->processes[peaks[i]->process];
        base_json_begin(json, NULL, '{');
        base_json_integer(json, "pid", process->pid);
        base_json_string(json, "process", profile_text(profile, process->name));
        base_json_integer(json, "value", peaks[i]->value);
        base_json_unsigned(json, "time_ns", peaks[i]->time_ns);
        base_json_end(json, '}');
    }
    base_json_end(json, ']');
}

static int peak(struct report_context *context)
{
    size_t count;
    const struct profile_peak **peaks = peaks_of(context, &count);
    if (!peaks)
        return report_view_memory(context);
    if (context->json)
        peaks_json(context, peaks, count);
    else if (count)
        peaks_table(context, peaks, count);
    free(peaks);
    return report_paths(context);
}

/* --- leaks --- */

/* By node, what the selection has of another counter; NULL: memory ran out. */
static struct report_figure *figures_of(struct report_context *context, uint32_t counter, bool peak)
{
    const struct profile *profile = context->profile;
    struct report_selection selection = context->selection;
    struct report_figure *figures = calloc(profile->node_count + 1, sizeof *figures);
    selection.counter = (uint16_t)counter;
    selection.peak = peak;
    for (size_t i = 0; figures && i < profile->cell_count; i++) {
        const struct profile_cell *cell = &profile->cells[i];
        if (report_select_takes(&selection, profile, cell))
            report_select_add(&selection, &figures[cell->node],
                              &(struct report_figure){cell->value, cell->samples});
    }
    return figures;
}

static int leaks(struct report_context *context)
{
    uint32_t count = profile_heap_find(context->profile, PROFILE_HEAP_LIVE_COUNT),
             age = profile_heap_find(context->profile, PROFILE_HEAP_AGE);
    struct report_figure *blocks = figures_of(context, count, false), *ages = figures_of(context, age, true);
    const struct report_beside beside[REPORT_BESIDE] = {{"blocks", "blocks", "blocks", false, blocks},
                                                        {"age", "age_ns", "ns", true, ages}};
    int code =
        blocks && ages ? report_paths_beside(context, beside, age ? 2 : 1) : report_view_memory(context);
    free(blocks);
    free(ages);
    return code;
}

int report_held(struct report_context *context)
{
    return context->options->view == REPORT_LEAKS ? leaks(context) : peak(context);
}
