/* report_paths.c - the hottest whole stacks: each with its share, and its frames from the innermost outwards;
 * with --lines also where in the innermost function the samples lay, with another counter's figures also
 * those. */
#include <stdlib.h>
#include <string.h>

#include "report_views.h"
#include "view_json.h"
#include "view_merge.h"
#include "view_text.h"

struct paths {
    struct view_merge merge;
    uint32_t *order; /* branches with samples of their own, hottest first; the first `shown` are printed */
    size_t count, shown;
    bool past;
    struct view_figure hidden;
    int64_t hidden_beside[VIEW_BESIDE];
};

/* --- which --- */

static int paths_by_self(const void *a, const void *b, void *context)
{
    const struct view_merge *merge = context;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    const struct view_branch *x = &merge->branches[i], *y = &merge->branches[j];
    if (x->self.value != y->self.value)
        return x->self.value > y->self.value ? -1 : 1;
    int order = view_compare_names(&merge->entities, x->entity, y->entity);
    if (!order)
        order = (x->depth > y->depth) - (x->depth < y->depth);
    return order ? order : (i > j) - (i < j);
}

static int paths_choose(struct paths *paths)
{
    struct view_context *context = paths->merge.context;
    const struct view_branch *branches = paths->merge.branches;
    paths->order = calloc(paths->merge.count + 1, sizeof *paths->order);
    if (!paths->order)
        return view_memory(context);
    for (size_t i = 1; i < paths->merge.count; i++)
        if (branches[i].self.samples || branches[i].self.value)
            paths->order[paths->count++] = (uint32_t)i;
    qsort_r(paths->order, paths->count, sizeof *paths->order, paths_by_self, &paths->merge);
    size_t most = context->options->limit_rows ? context->options->limit_rows : paths->count;
    for (size_t i = 0; i < paths->count; i++) {
        const struct view_figure *self = &branches[paths->order[i]].self;
        bool below = view_below(context, self);
        if (!below && i < most) {
            paths->shown++;
            continue;
        }
        paths->past |= !below;
        view_select_add(&context->selection, &paths->hidden, self);
        for (size_t b = 0; b < paths->merge.beside_count; b++)
            view_select_combine(paths->merge.beside[b].peak, &paths->hidden_beside[b],
                                branches[paths->order[i]].beside[b]);
    }
    return 0;
}

/* --- text --- */

/* Columns of figures. */
static unsigned figures_of(const struct paths *paths)
{
    return 1 + view_samples(paths->merge.context) + (unsigned)paths->merge.beside_count;
}

static void paths_add_figures(const struct paths *paths, struct view_table *table,
                              const struct view_figure *figure, const int64_t *beside)
{
    const struct view_context *context = paths->merge.context;
    view_share_cell(context, table, figure);
    if (view_samples(context))
        view_count_cell(context, table, figure->samples);
    for (size_t i = 0; i < paths->merge.beside_count; i++) {
        struct base_text text = {0};
        if (beside)
            view_text_value(&text, paths->merge.beside[i].unit, beside[i], context->options->ascii);
        view_table_cell(table, base_text_string(&text), context->options->ascii);
        table->failed |= text.failed;
        base_text_free(&text);
    }
}

static void empty_cells(struct view_table *table, unsigned count)
{
    while (count-- > 0)
        view_table_cell(table, NULL, false);
}

/* A frame, together with the frames outside it that are the same function; returns the last of them. */
static uint32_t add_frame(const struct paths *paths, struct view_table *table, uint32_t index)
{
    const struct view_branch *branches = paths->merge.branches;
    const struct view_entities *entities = &paths->merge.entities;
    bool ascii = paths->merge.context->options->ascii;
    uint32_t entity = branches[index].entity, flags = branches[index].node_flags, deep = 1;
    struct base_text text = {0}, tail = {0};
    for (; branches[branches[index].parent].entity == entity; deep++) {
        index = branches[index].parent;
        flags |= branches[index].node_flags;
    }
    view_entity_name(entities, entity, &text);
    if (deep > 1)
        base_text_addf(&tail, " (%u deep)", deep);
    if (view_entity_inlined(entities, entity))
        base_text_add(&tail, " (inlined)");
    if (flags & PROFILE_NODE_FRAME_POINTER)
        base_text_add(&tail, " [fp]");
    view_table_cell_tail(table, base_text_string(&text), base_text_string(&tail), ascii);
    view_table_cell(table, view_entity_image(entities, entity), ascii);
    view_table_row(table, VIEW_PLAIN);
    table->failed |= text.failed | tail.failed;
    base_text_free(&text);
    base_text_free(&tail);
    return index;
}

static void paths_add_place(const struct paths *paths, struct view_table *table,
                            const struct view_place *place)
{
    const struct view_context *context = paths->merge.context;
    const struct profile *profile = context->profile;
    struct base_text text = {0};
    const char *file = profile_text(profile, place->file), *slash = strrchr(file, '/');
    if (place->line) {
        base_text_addf(&text, "at %s:%u", *file ? slash ? slash + 1 : file : "?", place->line);
    } else {
        const struct profile_address *address = &profile->addresses[place->address];
        const char *image = profile_text(profile, profile->images[address->image].name);
        base_text_addf(&text, "at %s+0x%llx", *image ? image : "[unknown]",
                       (unsigned long long)address->address);
    }
    paths_add_figures(paths, table, &place->figure, NULL);
    view_table_cell(table, base_text_string(&text), context->options->ascii);
    view_table_cell(table, NULL, false);
    view_table_row(table, VIEW_DIM);
    table->failed |= text.failed;
    base_text_free(&text);
}

static void add_path(const struct paths *paths, struct view_table *table, uint32_t index)
{
    const struct view_merge *merge = &paths->merge;
    const struct view_branch *branch = &merge->branches[index];
    paths_add_figures(paths, table, &branch->self, branch->beside);
    for (uint32_t frame = index; frame; frame = merge->branches[frame].parent) {
        if (frame != index)
            empty_cells(table, figures_of(paths));
        frame = add_frame(paths, table, frame);
    }
    for (size_t i = view_merge_places(merge, index);
         i < merge->place_count && merge->places[i].branch == index; i++)
        paths_add_place(paths, table, &merge->places[i]);
}

static void paths_add_hidden(const struct paths *paths, struct view_table *table)
{
    const struct view_context *context = paths->merge.context;
    size_t count = paths->count - paths->shown;
    struct base_text text = {0};
    if (!count)
        return;
    base_text_add(&text, "(");
    view_below_text(context, count, "stack", "stacks", paths->past, &text);
    base_text_add(&text, ")");
    paths_add_figures(paths, table, &paths->hidden, paths->hidden_beside);
    view_table_cell(table, base_text_string(&text), false);
    view_table_cell(table, NULL, false);
    view_table_row(table, VIEW_DIM);
    table->failed |= text.failed;
    base_text_free(&text);
}

static void paths_print_text(struct paths *paths)
{
    struct view_context *context = paths->merge.context;
    struct view_table table = {0};
    struct view_table_form form = view_form(context);
    view_table_add_column(&table, "stack", VIEW_RIGHT_TITLE_LEFT, VIEW_FIXED);
    if (view_samples(context))
        view_table_add_column(&table, "samples", VIEW_RIGHT, VIEW_FIXED);
    for (size_t i = 0; i < paths->merge.beside_count; i++)
        view_table_add_column(&table, paths->merge.beside[i].title, VIEW_RIGHT, VIEW_FIXED);
    view_table_add_column(&table, "functions, the innermost first", VIEW_LEFT, VIEW_FLEXIBLE_NAME);
    view_table_add_column(&table, "image", VIEW_LEFT, VIEW_FLEXIBLE);
    for (size_t i = 0; i < paths->shown; i++) {
        add_path(paths, &table, paths->order[i]);
        if (i + 1 < paths->count) {
            empty_cells(&table, figures_of(paths) + 2);
            view_table_row(&table, VIEW_PLAIN);
        }
    }
    paths_add_hidden(paths, &table);
    view_table_print(&table, &form, context->out);
    view_table_free(&table);
}

/* --- JSON --- */

static void json_places(const struct paths *paths, uint32_t index)
{
    const struct view_merge *merge = &paths->merge;
    const struct profile *profile = merge->context->profile;
    struct base_json *json = merge->context->json;
    base_json_begin(json, "lines", '[');
    for (size_t i = view_merge_places(merge, index);
         i < merge->place_count && merge->places[i].branch == index; i++) {
        const struct view_place *place = &merge->places[i];
        base_json_begin(json, NULL, '{');
        if (place->line) {
            base_json_string(json, "file", profile_text(profile, place->file));
            base_json_unsigned(json, "line", place->line);
        } else {
            base_json_unsigned(json, "address", profile->addresses[place->address].address);
        }
        view_json_figure(merge->context, "self", &place->figure);
        base_json_end(json, '}');
    }
    base_json_end(json, ']');
}

static void json_path(const struct paths *paths, uint32_t index)
{
    const struct view_merge *merge = &paths->merge;
    struct base_json *json = merge->context->json;
    base_json_begin(json, NULL, '{');
    view_json_figure(merge->context, "self", &merge->branches[index].self);
    for (size_t i = 0; i < merge->beside_count; i++)
        base_json_integer(json, merge->beside[i].key, merge->branches[index].beside[i]);
    base_json_begin(json, "frames", '[');
    for (uint32_t frame = index; frame; frame = merge->branches[frame].parent) {
        base_json_begin(json, NULL, '{');
        view_json_entity(merge->context, &merge->entities, merge->branches[frame].entity);
        if (merge->branches[frame].node_flags & PROFILE_NODE_FRAME_POINTER)
            base_json_bool(json, "frame_pointer", true);
        base_json_end(json, '}');
    }
    base_json_end(json, ']');
    if (merge->want_places)
        json_places(paths, index);
    base_json_end(json, '}');
}

static void paths_print_json(struct paths *paths)
{
    struct view_context *context = paths->merge.context;
    base_json_begin(context->json, "rows", '[');
    for (size_t i = 0; i < paths->shown; i++)
        json_path(paths, paths->order[i]);
    base_json_end(context->json, ']');
    view_json_below(context, "below_limit", paths->count - paths->shown, &paths->hidden);
}

int report_paths(struct view_context *context)
{
    return report_paths_beside(context, NULL, 0);
}

int report_paths_beside(struct view_context *context, const struct view_beside *beside, size_t count)
{
    struct paths paths = {
        .merge = {.want_places = context->options->lines, .beside = beside, .beside_count = count}};
    int code = view_merge_build(context, &paths.merge);
    if (!code)
        code = paths_choose(&paths);
    if (!code && context->json)
        paths_print_json(&paths);
    else if (!code)
        paths_print_text(&paths);
    view_merge_free(&paths.merge);
    free(paths.order);
    return code;
}
