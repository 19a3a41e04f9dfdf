/* diff_gather.c - profiles to rows: one walk a run, functions turned into the items that all runs
 * share. */
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "diff_rows.h"
#include "view_entity.h"
#include "view_walk.h"

struct gather {
    struct diff *diff;
    size_t run;
    struct view_entities entities;
    uint32_t *items; /* by entity; 0: not asked yet */
    size_t item_count, item_capacity;
    uint32_t *active; /* by row: frames of it on the stack of the walk */
    size_t active_count, active_capacity;
};

/* --- rows --- */

static bool grow_figures(struct diff *diff)
{
    size_t bytes = diff->run_count * sizeof *diff->figures;
    if (!base_array_reserve((void **)&diff->figures, &diff->figure_capacity, diff->row_count, bytes))
        return false;
    memset(diff->figures + diff->row_count * diff->run_count, 0, bytes);
    return true;
}

/* Made when new; 0 when memory ran out. */
static uint32_t row_of(struct diff *diff, uint32_t other, uint32_t item)
{
    uint64_t key = (uint64_t)other << 32 | item;
    uint32_t known = base_map_find(&diff->map, key), fresh = (uint32_t)diff->row_count;
    if (known != BASE_MAP_NONE)
        return known;
    if (!grow_figures(diff) || !base_array_room(diff->rows, diff->row_count, diff->row_capacity) ||
        !base_map_set(&diff->map, key, fresh))
        return 0;
    diff->rows[diff->row_count++] = (struct diff_row){.item = item, .other = other};
    return fresh;
}

static uint32_t item_of(struct gather *gather, uint32_t entity)
{
    while (gather->item_count <= entity) {
        if (!base_array_room(gather->items, gather->item_count, gather->item_capacity))
            return 0;
        gather->items[gather->item_count++] = 0;
    }
    if (!gather->items[entity])
        gather->items[entity] =
            diff_match_item(&gather->diff->matcher, gather->run, &gather->entities, entity);
    return gather->items[entity];
}

static void gather_add_to(struct gather *gather, uint32_t row, const struct view_figure *figure)
{
    struct diff *diff = gather->diff;
    diff->rows[row].listed = true;
    view_select_add(&diff->selections[gather->run], &diff->figures[row * diff->run_count + gather->run],
                    figure);
}

/* --- functions --- */

static bool begin_row(struct gather *gather, uint32_t row, bool *outermost)
{
    while (gather->active_count <= row) {
        if (!base_array_room(gather->active, gather->active_count, gather->active_capacity))
            return false;
        gather->active[gather->active_count++] = 0;
    }
    *outermost = !gather->active[row]++;
    return true;
}

static bool enter_function(void *context, struct view_frame *frames, size_t depth,
                           const struct view_figure *total)
{
    struct gather *gather = context;
    struct view_frame *frame = &frames[depth - 1];
    uint32_t item = item_of(gather, frame->entity);
    bool outermost;
    frame->slot = item ? row_of(gather->diff, 0, item) : 0;
    if (!frame->slot || !begin_row(gather, frame->slot, &outermost))
        return false;
    if (gather->diff->options->total && outermost)
        gather_add_to(gather, frame->slot, total);
    return true;
}

static void leave_function(void *context, struct view_frame *frames, size_t depth)
{
    struct gather *gather = context;
    gather->active[frames[depth - 1].slot]--;
}

static bool leaf_function(void *context, struct view_frame *frames, size_t depth,
                          const struct view_figure *self)
{
    struct gather *gather = context;
    if (!gather->diff->options->total)
        gather_add_to(gather, frames[depth - 1].slot, self);
    return true;
}

/* --- paths --- */

/* Recursion of any depth is one frame, and so is a function with its cold part. */
static bool enter_path(void *context, struct view_frame *frames, size_t depth,
                       const struct view_figure *total)
{
    (void)total;
    struct gather *gather = context;
    struct diff *diff = gather->diff;
    uint32_t outside = depth > 1 ? frames[depth - 2].slot : 0,
             item = item_of(gather, frames[depth - 1].entity);
    bool same = outside && diff->rows[outside].item == item;
    frames[depth - 1].slot = !item ? 0 : same ? outside : row_of(diff, outside, item);
    return frames[depth - 1].slot != 0;
}

static void leave_path(void *context, struct view_frame *frames, size_t depth)
{
    (void)context;
    (void)frames;
    (void)depth;
}

static bool leaf_path(void *context, struct view_frame *frames, size_t depth, const struct view_figure *self)
{
    gather_add_to(context, frames[depth - 1].slot, self);
    return true;
}

/* --- one run --- */

static int gather_cells(struct gather *gather)
{
    struct diff *diff = gather->diff;
    const struct profile *profile = diff->runs[gather->run].profile;
    bool paths = diff->options->view == DIFF_PATHS;
    struct view_visitor visitor = {.enter = paths ? enter_path : enter_function,
                                   .leave = paths ? leave_path : leave_function,
                                   .leaf = paths ? leaf_path : leaf_function,
                                   .context = gather,
                                   .marks = paths};
    struct view_nodes nodes;
    int code = view_walk_prepare(profile, &diff->selections[gather->run], &nodes, diff->error);
    if (code)
        return code;
    code = view_walk(profile, &nodes, &gather->entities, &visitor, diff->error);
    view_walk_free(&nodes);
    diff->whole[gather->run] = diff->selections[gather->run].taken;
    diff->effective[gather->run] = diff->selections[gather->run].effective;
    return code;
}

/* The row of an edge; 0 when memory ran out. The call is made by what lies at its site and reaches a whole
 * function. */
static uint32_t edge_row(struct gather *gather, const struct profile_edge *edge)
{
    size_t count;
    uint32_t caller = 0;
    const uint32_t *chain = view_entity_chain(&gather->entities, edge->callee, &count);
    uint32_t callee = count ? item_of(gather, chain[count - 1]) : 0;
    if (callee && gather->diff->options->view == DIFF_EDGES) {
        chain = view_entity_chain(&gather->entities, edge->site, &count);
        caller = count ? item_of(gather, chain[0]) : 0;
        callee = caller ? callee : 0;
    }
    return callee ? row_of(gather->diff, caller, callee) : 0;
}

static int64_t clamp_calls(uint64_t calls)
{
    return calls < INT64_MAX / 2 ? (int64_t)calls : INT64_MAX / 2;
}

static int gather_edges(struct gather *gather)
{
    struct diff *diff = gather->diff;
    const struct profile *profile = diff->runs[gather->run].profile;
    for (size_t i = 1; i < profile->edge_count; i++) {
        const struct profile_edge *edge = &profile->edges[i];
        if (!edge->calls || !view_select_takes_edge(&diff->selections[gather->run], profile, edge))
            continue;
        uint32_t row = edge_row(gather, edge);
        if (!row)
            return diff_memory(diff);
        struct view_figure *figure = &diff->figures[row * diff->run_count + gather->run];
        diff->rows[row].listed = true;
        figure->value = clamp_calls((uint64_t)figure->value + (uint64_t)clamp_calls(edge->calls));
        diff->whole[gather->run].value =
            clamp_calls((uint64_t)diff->whole[gather->run].value + (uint64_t)clamp_calls(edge->calls));
    }
    return 0;
}

int diff_gather(struct diff *diff)
{
    int code = 0;
    if (!grow_figures(diff) || !base_array_room(diff->rows, 0, diff->row_capacity))
        return diff_memory(diff);
    diff->rows[diff->row_count++] = (struct diff_row){0};
    for (size_t run = 0; run < diff->run_count && !code; run++) {
        struct gather gather = {.diff = diff, .run = run};
        if (!view_entity_init(&gather.entities, diff->runs[run].profile, VIEW_DETAIL_FUNCTION))
            code = diff_memory(diff);
        if (!code)
            code = diff->calls ? gather_edges(&gather) : gather_cells(&gather);
        view_entity_free(&gather.entities);
        free(gather.items);
        free(gather.active);
    }
    return code;
}
