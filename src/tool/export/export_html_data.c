/* export_html_data.c - a profile as columns of JSON: what is one record in the model is one array a member
 * here, which packs better and is read without an object a record. Numbers that grow are written as
 * differences.
 *
 * Cells of one branch, thread and counter are one; CPUs are not distinguished. So are slots of the
 * timeline. */
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_text.h"
#include "export_html.h"
#include "export_timeline.h"
#include "export_tree.h"
#include "profile_extent.h"
#include "profile_own.h"

struct sum { /* one cell of the page */
    uint32_t branch, thread;
    uint16_t counter;
    struct export_figure figure;
};

struct data {
    struct export_output *output;
    const struct profile *profile;
    const struct export_options *options;
    struct export_frames frames;
    struct export_tree tree;
    struct sum *sums;
    size_t sum_count;
    size_t *edges; /* those to write */
    size_t edge_count;
    struct export_timeline timeline; /* whose nodes are branches here */
};

/* --- gathering --- */

static int html_data_by_place(const void *left, const void *right)
{
    const struct sum *a = left, *b = right;
    if (a->counter != b->counter)
        return a->counter < b->counter ? -1 : 1;
    if (a->thread != b->thread)
        return a->thread < b->thread ? -1 : 1;
    return (a->branch > b->branch) - (a->branch < b->branch);
}

static bool same_place(const struct sum *a, const struct sum *b)
{
    return a->counter == b->counter && a->thread == b->thread && a->branch == b->branch;
}

static bool gather_sums(struct data *data)
{
    const struct profile *profile = data->profile;
    data->sums = calloc(profile->cell_count + 1, sizeof *data->sums);
    if (!data->sums)
        return false;
    size_t count = 0, kept = 0;
    for (size_t i = 0; i < profile->cell_count; i++) {
        const struct profile_cell *cell = &profile->cells[i];
        if (data->tree.leaf[i])
            data->sums[count++] =
                (struct sum){data->tree.leaf[i], cell->thread, cell->counter, {cell->value, cell->samples}};
    }
    qsort(data->sums, count, sizeof *data->sums, html_data_by_place);
    for (size_t i = 0; i < count; i++)
        if (kept && same_place(&data->sums[kept - 1], &data->sums[i]))
            export_tree_add(profile, data->sums[i].counter, &data->sums[kept - 1].figure,
                            &data->sums[i].figure);
        else
            data->sums[kept++] = data->sums[i];
    data->sum_count = kept;
    return true;
}

/* The ELF function at an address, as a number of function; the callee's and the caller's alike. 0: none. */
static uint32_t html_data_function_at(struct data *data, uint32_t address)
{
    size_t count;
    if (!address)
        return 0;
    const uint32_t *chain = export_frames_chain(&data->frames, address, &count);
    return count ? data->frames.frames[chain[count - 1]].function : 0;
}

/* Finds their functions, too, so that all are there when names are made. */
static bool gather_edges(struct data *data)
{
    const struct profile *profile = data->profile;
    data->edges = calloc(profile->edge_count + 1, sizeof *data->edges);
    if (!data->edges)
        return false;
    for (size_t i = 1; i < profile->edge_count; i++) {
        const struct profile_edge *edge = &profile->edges[i];
        if (!export_tree_takes_edge(profile, data->options, edge))
            continue;
        if (!html_data_function_at(data, edge->callee) ||
            (edge->site && !html_data_function_at(data, edge->site)))
            return false;
        data->edges[data->edge_count++] = i;
    }
    return true;
}

/* Slots of what the tree leaves out are none; those of nodes that look alike become one. */
static bool gather_slots(struct data *data)
{
    const struct export_timeline *timeline = data->options->timeline;
    if (!timeline || !timeline->count)
        return true;
    data->timeline.step_ns = timeline->step_ns;
    data->timeline.slots = calloc(timeline->count, sizeof *data->timeline.slots);
    if (!data->timeline.slots)
        return false;
    for (size_t i = 0; i < timeline->count; i++) {
        struct export_slot slot = timeline->slots[i];
        slot.node = export_tree_branch(&data->tree, slot.node, slot.thread);
        if (slot.node)
            data->timeline.slots[data->timeline.count++] = slot;
    }
    export_timeline_sort(&data->timeline);
    return true;
}

/* --- writing --- */

static void put_data_text(struct data *data, const char *string)
{
    export_output_text(data->output, string);
}

static void put_data_name(struct data *data, uint32_t string)
{
    export_output_name(data->output, profile_text(data->profile, string), EXPORT_ESCAPE_JSON);
}

/* Begins a column: what was before it ends. */
static void begin_data_column(struct data *data, const char *title, bool first)
{
    put_data_text(data, first ? "\"" : "],\n\"");
    put_data_text(data, title);
    put_data_text(data, "\":[");
}

static void html_data_number(struct data *data, size_t index, uint64_t value)
{
    if (index)
        export_output_bytes(data->output, ",", 1);
    export_output_unsigned(data->output, value);
}

static void signed_number(struct data *data, size_t index, int64_t value)
{
    if (index)
        export_output_bytes(data->output, ",", 1);
    export_output_integer(data->output, value);
}

static void put_data_comma(struct data *data, size_t index)
{
    if (index)
        export_output_bytes(data->output, ",", 1);
}

static void write_meta(struct data *data)
{
    const struct profile *profile = data->profile;
    put_data_text(data, "\"meta\":{");
    for (size_t i = 0; i < profile->meta_count; i++) {
        put_data_comma(data, i);
        put_data_name(data, profile->meta[i].key);
        put_data_text(data, ":");
        put_data_name(data, profile->meta[i].value);
    }
    put_data_text(data, "},\n");
}

/* "said": what may be said of its figures; "why": what stands against their being all. */
static void write_extent(struct data *data, struct profile_extent extent)
{
    put_data_text(data, extent.degree == PROFILE_EXTENT_NONE ? ",\"counted\":false" : ",\"counted\":true");
    put_data_text(data, ",\"said\":\"");
    put_data_text(data, profile_extent_words(&extent));
    put_data_text(data, "\"");
    if (extent.degree != PROFILE_EXTENT_ALL) {
        struct base_text reason = {0};
        profile_extent_reason(&extent, &reason);
        put_data_text(data, ",\"why\":");
        export_output_name(data->output, base_text_string(&reason), EXPORT_ESCAPE_JSON);
        data->output->no_memory |= reason.failed;
        base_text_free(&reason);
    }
}

/* What was Tally's own is in no figure (profile_own.h). */
static void write_left_out(struct data *data, struct profile_own own)
{
    if (!own.samples)
        return;
    put_data_text(data, ",\"own\":");
    export_output_unsigned(data->output, own.samples);
}

static void write_counters(struct data *data)
{
    static const char *const combines[] = {"", "sum", "peak", "live"};
    const struct profile *profile = data->profile;
    uint16_t only = data->options->counter;
    put_data_text(data, "\"counters\":[");
    for (size_t i = 1; i < profile->counter_count; i++) {
        const struct profile_counter *counter = &profile->counters[i];
        put_data_text(data, i > 1 ? ",\n{\"name\":" : "{\"name\":");
        put_data_name(data, counter->name);
        put_data_text(data, ",\"unit\":");
        put_data_name(data, counter->unit);
        put_data_text(data, counter->exact ? ",\"exact\":true" : ",\"exact\":false");
        write_extent(data, profile_extent_of(profile, (uint32_t)i));
        put_data_text(data, !only || only == i ? ",\"taken\":true" : ",\"taken\":false");
        put_data_text(data, ",\"combine\":\"");
        put_data_text(data, counter->combine <= PROFILE_LIVE ? combines[counter->combine] : "");
        put_data_text(data, "\"");
        write_left_out(data, profile_own_left_out(profile, (uint32_t)i));
        put_data_text(data, "}");
    }
    put_data_text(data, "],\n\"preferred\":");
    export_output_unsigned(data->output, data->options->preferred);
    put_data_text(data, ",\n");
}

static void write_images(struct data *data)
{
    const struct profile *profile = data->profile;
    put_data_text(data, "\"images\":[");
    for (size_t i = 0; i < profile->image_count; i++) {
        const struct profile_image *image = &profile->images[i];
        put_data_text(data, i ? ",\n{\"name\":" : "{\"name\":");
        put_data_name(data, image->name);
        put_data_text(data, ",\"path\":");
        put_data_name(data, image->path);
        put_data_text(data, ",\"build_id\":");
        put_data_name(data, image->build_id);
        put_data_text(data, ",\"kind\":");
        export_output_unsigned(data->output, image->kind);
        put_data_text(data, "}");
    }
    put_data_text(data, "],\n");
}

static void write_processes(struct data *data)
{
    const struct profile *profile = data->profile;
    put_data_text(data, "\"processes\":[");
    for (size_t i = 0; i < profile->process_count; i++) {
        const struct profile_process *process = &profile->processes[i];
        const char *origin = profile_origin(profile, process->origin, "name");
        put_data_text(data, i ? ",\n{\"pid\":" : "{\"pid\":");
        export_output_integer(data->output, process->pid);
        put_data_text(data, ",\"name\":");
        put_data_name(data, process->name);
        put_data_text(data, ",\"command\":");
        put_data_name(data, process->command);
        put_data_text(data, ",\"origin\":");
        export_output_name(data->output, origin ? origin : "", EXPORT_ESCAPE_JSON);
        put_data_text(data, ",\"start_ns\":");
        export_output_unsigned(data->output, process->start_ns);
        put_data_text(data, ",\"end_ns\":");
        export_output_unsigned(data->output, process->end_ns);
        put_data_text(data, "}");
    }
    put_data_text(data, "],\n");
}

static void write_threads(struct data *data)
{
    const struct profile *profile = data->profile;
    put_data_text(data, "\"threads\":{");
    begin_data_column(data, "process", true);
    for (size_t i = 0; i < profile->thread_count; i++)
        html_data_number(data, i, profile->threads[i].process);
    begin_data_column(data, "tid", false);
    for (size_t i = 0; i < profile->thread_count; i++)
        signed_number(data, i, profile->threads[i].tid);
    begin_data_column(data, "name", false);
    for (size_t i = 0; i < profile->thread_count; i++) {
        put_data_comma(data, i);
        put_data_name(data, profile->threads[i].name);
    }
    put_data_text(data, "]},\n");
}

static void write_functions(struct data *data)
{
    const struct export_frames *frames = &data->frames;
    put_data_text(data, "\"functions\":{");
    begin_data_column(data, "name", true);
    for (size_t i = 0; i < frames->function_count; i++) {
        put_data_comma(data, i);
        put_data_text(data, i ? frames->names[i] : "\"\"");
    }
    begin_data_column(data, "kind", false);
    for (size_t i = 0; i < frames->function_count; i++)
        html_data_number(data, i, frames->functions[i].kind);
    begin_data_column(data, "image", false);
    for (size_t i = 0; i < frames->function_count; i++)
        html_data_number(data, i, frames->functions[i].image);
    begin_data_column(data, "file", false);
    for (size_t i = 0; i < frames->function_count; i++) {
        put_data_comma(data, i);
        put_data_name(data, frames->functions[i].file);
    }
    put_data_text(data, "]},\n");
}

/* A parent as how far before its child it is. */
static void write_tree(struct data *data)
{
    const struct export_tree *tree = &data->tree;
    put_data_text(data, "\"tree\":{");
    begin_data_column(data, "up", true);
    for (size_t i = 0; i < tree->count; i++)
        html_data_number(data, i, i - tree->branches[i].parent);
    begin_data_column(data, "function", false);
    for (size_t i = 0; i < tree->count; i++)
        html_data_number(data, i, data->frames.frames[tree->branches[i].frame].function);
    put_data_text(data, "]},\n");
}

static void write_cells(struct data *data)
{
    put_data_text(data, "\"cells\":{");
    begin_data_column(data, "counter", true);
    for (size_t i = 0; i < data->sum_count; i++)
        html_data_number(data, i, data->sums[i].counter);
    begin_data_column(data, "thread", false);
    for (size_t i = 0; i < data->sum_count; i++)
        html_data_number(data, i, data->sums[i].thread);
    begin_data_column(data, "branch", false);
    for (size_t i = 0; i < data->sum_count; i++)
        signed_number(data, i, (int64_t)data->sums[i].branch - (i ? (int64_t)data->sums[i - 1].branch : 0));
    begin_data_column(data, "value", false);
    for (size_t i = 0; i < data->sum_count; i++)
        signed_number(data, i, data->sums[i].figure.value);
    begin_data_column(data, "samples", false);
    for (size_t i = 0; i < data->sum_count; i++)
        html_data_number(data, i, data->sums[i].figure.samples);
    put_data_text(data, "]},\n");
}

static void write_edges(struct data *data)
{
    const struct profile_edge *edges = data->profile->edges;
    put_data_text(data, "\"edges\":{");
    begin_data_column(data, "caller", true);
    for (size_t i = 0; i < data->edge_count; i++)
        html_data_number(data, i, html_data_function_at(data, edges[data->edges[i]].site));
    begin_data_column(data, "callee", false);
    for (size_t i = 0; i < data->edge_count; i++)
        html_data_number(data, i, html_data_function_at(data, edges[data->edges[i]].callee));
    begin_data_column(data, "thread", false);
    for (size_t i = 0; i < data->edge_count; i++)
        html_data_number(data, i, edges[data->edges[i]].thread);
    begin_data_column(data, "kind", false);
    for (size_t i = 0; i < data->edge_count; i++)
        html_data_number(data, i, edges[data->edges[i]].kind);
    begin_data_column(data, "calls", false);
    for (size_t i = 0; i < data->edge_count; i++)
        html_data_number(data, i, edges[data->edges[i]].calls);
    put_data_text(data, "]},\n");
}

/* Steps and branches as differences to the slot before. */
static void write_timeline(struct data *data)
{
    const struct export_timeline *timeline = &data->timeline;
    const struct export_slot *slots = timeline->slots;
    put_data_text(data, "\"timeline\":");
    if (!timeline->count) {
        put_data_text(data, "null}\n");
        return;
    }
    put_data_text(data, "{\"step_ns\":");
    export_output_unsigned(data->output, timeline->step_ns);
    put_data_text(data, ",\n");
    begin_data_column(data, "counter", true);
    for (size_t i = 0; i < timeline->count; i++)
        html_data_number(data, i, slots[i].counter);
    begin_data_column(data, "thread", false);
    for (size_t i = 0; i < timeline->count; i++)
        html_data_number(data, i, slots[i].thread);
    begin_data_column(data, "step", false);
    for (size_t i = 0; i < timeline->count; i++)
        signed_number(data, i, (int64_t)slots[i].step - (i ? (int64_t)slots[i - 1].step : 0));
    begin_data_column(data, "branch", false);
    for (size_t i = 0; i < timeline->count; i++)
        signed_number(data, i, (int64_t)slots[i].node - (i ? (int64_t)slots[i - 1].node : 0));
    begin_data_column(data, "samples", false);
    for (size_t i = 0; i < timeline->count; i++)
        html_data_number(data, i, slots[i].samples);
    put_data_text(data, "]}}\n");
}

static void html_data_write_all(struct data *data)
{
    put_data_text(data, "{\"version\":1,\"creator\":");
    export_output_name(data->output, data->options->creator, EXPORT_ESCAPE_JSON);
    put_data_text(data, ",\"file\":");
    export_output_name(data->output, data->options->file, EXPORT_ESCAPE_JSON);
    put_data_text(data, ",\n");
    write_meta(data);
    write_counters(data);
    write_images(data);
    write_processes(data);
    write_threads(data);
    write_functions(data);
    write_tree(data);
    write_cells(data);
    write_edges(data);
    write_timeline(data);
}

bool export_html_data(struct export_output *output, const struct profile *profile,
                      const struct export_options *options)
{
    struct data data = {.output = output, .profile = profile, .options = options};
    data.tree = (struct export_tree){.frames = &data.frames, .apart = EXPORT_TOGETHER, .marks = true};
    bool done = export_frames_init(&data.frames, profile, EXPORT_DETAIL_INLINES) &&
                export_tree_build(&data.tree, options) && gather_sums(&data) && gather_edges(&data) &&
                gather_slots(&data) && export_frames_write_names(&data.frames, EXPORT_ESCAPE_JSON, false);
    if (done)
        html_data_write_all(&data);
    free(data.sums);
    free(data.edges);
    export_timeline_free(&data.timeline);
    export_tree_free(&data.tree);
    export_frames_free(&data.frames);
    return done;
}
