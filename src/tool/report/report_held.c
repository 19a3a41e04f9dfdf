/* report_held.c - memory that was held: at the end (leaks) or when there was the most of it. Whole stacks,
 * the largest first; of the peak also when it was, in each process. */
#include "report_held.h"
#include "report_views.h"

#include <stdlib.h>
#include <string.h>

#include "profile_extent.h"
#include "profile_heap.h"
#include "report_descriptors.h"
#include "view_merge.h"
#include "view_text.h"

/* What a counter that is 0 means when all of it was counted. */
static const char *meaning_of_zero(const char *counter)
{
    return !strcmp(counter, profile_heap_name(PROFILE_HEAP_LIVE))
               ? "No leaks: every block that was allocated was released"
           : !strcmp(counter, VIEW_DESCRIPTORS_COUNTER)
               ? "Nothing was left open: every descriptor that was opened was closed"
               : "Nothing: this counter is 0 everywhere";
}

void report_held_nothing(const struct view_context *context, struct base_text *out)
{
    struct profile_extent extent = profile_extent_of(context->profile, context->selection.counter);
    if (extent.degree == PROFILE_EXTENT_ALL && !extent.sampled) {
        base_text_add(out, meaning_of_zero(context->selection.name));
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
static const struct profile_peak **peaks_of(const struct view_context *context, size_t *count)
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

static void add_text_cell(struct view_table *table, struct base_text *text, bool ascii)
{
    table->failed |= text->failed;
    view_table_cell(table, base_text_string(text), ascii);
    base_text_clear(text);
}

static void peak_row(const struct view_context *context, struct view_table *table,
                     const struct profile_peak *peak)
{
    const struct profile *profile = context->profile;
    const struct profile_process *process = &profile->processes[peak->process];
    bool ascii = context->options->ascii;
    struct base_text text = {0};
    view_text_value(&text, context->selection.unit, peak->value, ascii);
    add_text_cell(table, &text, ascii);
    view_text_time(&text, time_of(peak), ascii);
    add_text_cell(table, &text, ascii);
    base_text_addf(&text, "%d", process->pid);
    add_text_cell(table, &text, ascii);
    view_table_cell(table, profile_text(profile, process->name), ascii);
    view_table_row(table, VIEW_PLAIN);
    base_text_free(&text);
}

static void peaks_table(struct view_context *context, const struct profile_peak **peaks, size_t count)
{
    struct view_table table = {0};
    struct view_table_form form = view_form(context);
    view_table_add_column(&table, "peak", VIEW_RIGHT, VIEW_FIXED);
    view_table_add_column(&table, "at", VIEW_RIGHT, VIEW_FIXED);
    view_table_add_column(&table, "pid", VIEW_RIGHT, VIEW_FIXED);
    view_table_add_column(&table, "process", VIEW_LEFT, VIEW_FLEXIBLE);
    for (size_t i = 0; i < count; i++)
        peak_row(context, &table, peaks[i]);
    view_table_print(&table, &form, context->out);
    base_text_add(context->out, "\n");
    view_table_free(&table);
}

static void peaks_json(struct view_context *context, const struct profile_peak **peaks, size_t count)
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

static int show_peak(struct view_context *context)
{
    size_t count;
    const struct profile_peak **peaks = peaks_of(context, &count);
    if (!peaks)
        return view_memory(context);
    if (context->json)
        peaks_json(context, peaks, count);
    else if (count)
        peaks_table(context, peaks, count);
    free(peaks);
    return report_paths(context);
}

/* --- leaks --- */

/* By node, what the selection has of another counter; NULL: memory ran out. */
static struct view_figure *figures_of(struct view_context *context, uint32_t counter, bool peak)
{
    const struct profile *profile = context->profile;
    struct view_selection selection = context->selection;
    struct view_figure *figures = calloc(profile->node_count + 1, sizeof *figures);
    selection.counter = (uint16_t)counter;
    selection.peak = peak;
    for (size_t i = 0; figures && i < profile->cell_count; i++) {
        const struct profile_cell *cell = &profile->cells[i];
        if (view_select_takes(&selection, profile, cell))
            view_select_add(&selection, &figures[cell->node],
                            &(struct view_figure){cell->value, cell->samples});
    }
    return figures;
}

static int show_leaks(struct view_context *context)
{
    uint32_t count = profile_heap_find(context->profile, PROFILE_HEAP_LIVE_COUNT),
             age = profile_heap_find(context->profile, PROFILE_HEAP_AGE);
    struct view_figure *blocks = figures_of(context, count, false), *ages = figures_of(context, age, true);
    const struct view_beside beside[VIEW_BESIDE] = {{"blocks", "blocks", "blocks", false, blocks},
                                                    {"age", "age_ns", "ns", true, ages}};
    int code = blocks && ages ? report_paths_beside(context, beside, age ? 2 : 1) : view_memory(context);
    free(blocks);
    free(ages);
    return code;
}

int report_held(struct view_context *context)
{
    return context->options->view == VIEW_LEAKS ? show_leaks(context) : show_peak(context);
}
