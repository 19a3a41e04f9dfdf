#include "view_merge.h"

#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_search.h"

/* --- branches --- */

static uint32_t add_branch(struct view_merge *merge, uint64_t key, const struct view_frame *frame,
                           uint32_t parent)
{
    uint32_t index = (uint32_t)merge->count;
    if (!base_array_room(merge->branches, merge->count, merge->capacity) ||
        !base_map_set(&merge->map, key, index))
        return 0;
    merge->branches[merge->count++] = (struct view_branch){
        .entity = frame->entity, .parent = parent, .depth = merge->branches[parent].depth + 1};
    return index;
}

static bool merge_enter(void *context, struct view_frame *frames, size_t depth,
                        const struct view_figure *total)
{
    struct view_merge *merge = context;
    struct view_frame *frame = &frames[depth - 1];
    uint32_t parent = depth > 1 ? frames[depth - 2].slot : 0;
    uint64_t key = (uint64_t)parent << 32 | frame->entity;
    uint32_t index = base_map_find(&merge->map, key);
    if (index == BASE_MAP_NONE)
        index = add_branch(merge, key, frame, parent);
    if (!index)
        return false;
    frame->slot = index;
    merge->branches[index].node_flags |= frame->node_flags;
    view_select_add(&merge->context->selection, &merge->branches[index].total, total);
    return true;
}

static void merge_leave(void *context, struct view_frame *frames, size_t depth)
{
    (void)context;
    (void)frames;
    (void)depth;
}

/* --- places --- */

/* Where execution was at an address: in the innermost inlined function, if any. */
static struct view_place place_of(const struct profile *profile, uint32_t index)
{
    const struct profile_address *address = &profile->addresses[index];
    struct view_place place = {.file = address->file, .line = address->line};
    if (address->inlined) {
        place.file = profile->inlined[address->inlined].file;
        place.line = profile->inlined[address->inlined].line;
    }
    if (!place.line) {
        place.file = 0;
        place.address = index;
    }
    return place;
}

static bool merge_leaf(void *context, struct view_frame *frames, size_t depth, const struct view_figure *self)
{
    struct view_merge *merge = context;
    const struct profile *profile = merge->context->profile;
    const struct view_frame *frame = &frames[depth - 1];
    view_select_add(&merge->context->selection, &merge->branches[frame->slot].self, self);
    for (size_t i = 0; i < merge->beside_count; i++)
        view_select_combine(merge->beside[i].peak, &merge->branches[frame->slot].beside[i],
                            merge->beside[i].figures[frame->node].value);
    if (!merge->want_places)
        return true;
    if (!base_array_room(merge->places, merge->place_count, merge->place_capacity))
        return false;
    struct view_place place = place_of(profile, profile->nodes[frame->node].address);
    place.branch = frame->slot;
    place.figure = *self;
    merge->places[merge->place_count++] = place;
    return true;
}

static int compare_place(const struct view_merge *merge, const struct view_place *x,
                         const struct view_place *y)
{
    const struct profile *profile = merge->context->profile;
    int order = strcmp(profile_text(profile, x->file), profile_text(profile, y->file));
    if (!order)
        order = (x->line > y->line) - (x->line < y->line);
    return order ? order : (x->address > y->address) - (x->address < y->address);
}

static int merge_by_place(const void *a, const void *b, void *merge)
{
    const struct view_place *x = a, *y = b;
    int order = (x->branch > y->branch) - (x->branch < y->branch);
    return order ? order : compare_place(merge, x, y);
}

static int by_heat(const void *a, const void *b, void *merge)
{
    const struct view_place *x = a, *y = b;
    int order = (x->branch > y->branch) - (x->branch < y->branch);
    if (!order)
        order = (x->figure.value < y->figure.value) - (x->figure.value > y->figure.value);
    return order ? order : compare_place(merge, x, y);
}

/* The same line met at several addresses is one place. */
static void merge_places(struct view_merge *merge)
{
    size_t kept = 0;
    if (!merge->place_count)
        return;
    qsort_r(merge->places, merge->place_count, sizeof *merge->places, merge_by_place, merge);
    for (size_t i = 1; i < merge->place_count; i++) {
        if (merge_by_place(&merge->places[kept], &merge->places[i], merge))
            merge->places[++kept] = merge->places[i];
        else
            view_select_add(&merge->context->selection, &merge->places[kept].figure,
                            &merge->places[i].figure);
    }
    merge->place_count = kept + 1;
    qsort_r(merge->places, merge->place_count, sizeof *merge->places, by_heat, merge);
}

size_t view_merge_places(const struct view_merge *merge, uint32_t branch)
{
    return base_search_below(merge->places, merge->place_count, branch, branch);
}

/* --- order --- */

static int by_parent(const void *a, const void *b, void *context)
{
    const struct view_merge *merge = context;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    const struct view_branch *x = &merge->branches[i], *y = &merge->branches[j];
    if (x->parent != y->parent)
        return x->parent < y->parent ? -1 : 1;
    if (x->total.value != y->total.value)
        return x->total.value > y->total.value ? -1 : 1;
    return view_compare_names(&merge->entities, x->entity, y->entity);
}

static bool merge_sort_children(struct view_merge *merge)
{
    merge->children = calloc(merge->count + 1, sizeof *merge->children);
    merge->first = calloc(merge->count + 2, sizeof *merge->first);
    if (!merge->children || !merge->first)
        return false;
    for (size_t i = 1; i < merge->count; i++) {
        merge->children[i - 1] = (uint32_t)i;
        merge->first[merge->branches[i].parent + 1]++;
    }
    for (size_t i = 1; i <= merge->count; i++)
        merge->first[i] += merge->first[i - 1];
    qsort_r(merge->children, merge->count - 1, sizeof *merge->children, by_parent, merge);
    return true;
}

int view_merge_build(struct view_context *context, struct view_merge *merge)
{
    struct view_visitor visitor = {
        .enter = merge_enter, .leave = merge_leave, .leaf = merge_leaf, .context = merge, .marks = true};
    merge->context = context;
    if (!view_entity_init(&merge->entities, context->profile,
                          merge->plain ? VIEW_DETAIL_FUNCTION : VIEW_DETAIL_INLINED) ||
        !base_array_room(merge->branches, 0, merge->capacity))
        return view_memory(context);
    merge->branches[merge->count++] = (struct view_branch){0};
    int code = view_walk(context->profile, &context->nodes, &merge->entities, &visitor, context->error);
    if (code)
        return code;
    merge_places(merge);
    return merge_sort_children(merge) ? 0 : view_memory(context);
}

void view_merge_free(struct view_merge *merge)
{
    view_entity_free(&merge->entities);
    base_map_free(&merge->map);
    free(merge->branches);
    free(merge->children);
    free(merge->first);
    free(merge->places);
    *merge = (struct view_merge){0};
}
