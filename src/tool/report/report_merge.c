#include "report_merge.h"

#include <stdlib.h>
#include <string.h>

#include "base_array.h"

/* --- branches --- */

static uint32_t add_branch(struct report_merge *merge, uint64_t key, const struct report_frame *frame,
                           uint32_t parent)
{
    uint32_t index = (uint32_t)merge->count;
    if (!base_array_room(merge->branches, merge->count, merge->capacity) ||
        !base_map_set(&merge->map, key, index))
        return 0;
    merge->branches[merge->count++] = (struct report_branch){
        .entity = frame->entity, .parent = parent, .depth = merge->branches[parent].depth + 1};
    return index;
}

static bool enter(void *context, struct report_frame *frames, size_t depth, const struct report_figure *total)
{
    struct report_merge *merge = context;
    struct report_frame *frame = &frames[depth - 1];
    uint32_t parent = depth > 1 ? frames[depth - 2].slot : 0;
    uint64_t key = (uint64_t)parent << 32 | frame->entity;
    uint32_t index = base_map_find(&merge->map, key);
    if (index == BASE_MAP_NONE)
        index = add_branch(merge, key, frame, parent);
    if (!index)
        return false;
    frame->slot = index;
    merge->branches[index].node_flags |= frame->node_flags;
    report_select_add(&merge->context->selection, &merge->branches[index].total, total);
    return true;
}

static void leave(void *context, struct report_frame *frames, size_t depth)
{
    (void)context;
    (void)frames;
    (void)depth;
}

/* --- places --- */

/* Where execution was at an address: in the innermost inlined function, if any. */
static struct report_place place_of(const struct profile *profile, uint32_t index)
{
    const struct profile_address *address = &profile->addresses[index];
    struct report_place place = {.file = address->file, .line = address->line};
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

static bool leaf(void *context, struct report_frame *frames, size_t depth, const struct report_figure *self)
{
    struct report_merge *merge = context;
    const struct profile *profile = merge->context->profile;
    const struct report_frame *frame = &frames[depth - 1];
    report_select_add(&merge->context->selection, &merge->branches[frame->slot].self, self);
    for (size_t i = 0; i < merge->beside_count; i++)
        report_select_combine(merge->beside[i].peak, &merge->branches[frame->slot].beside[i],
                              merge->beside[i].figures[frame->node].value);
    if (!merge->want_places)
        return true;
    if (!base_array_room(merge->places, merge->place_count, merge->place_capacity))
        return false;
    struct report_place place = place_of(profile, profile->nodes[frame->node].address);
    place.branch = frame->slot;
    place.figure = *self;
    merge->places[merge->place_count++] = place;
    return true;
}

static int compare_place(const struct report_merge *merge, const struct report_place *x,
                         const struct report_place *y)
{
    const struct profile *profile = merge->context->profile;
    int order = strcmp(profile_text(profile, x->file), profile_text(profile, y->file));
    if (!order)
        order = (x->line > y->line) - (x->line < y->line);
    return order ? order : (x->address > y->address) - (x->address < y->address);
}

static int by_place(const void *a, const void *b, void *merge)
{
    const struct report_place *x = a, *y = b;
    int order = (x->branch > y->branch) - (x->branch < y->branch);
    return order ? order : compare_place(merge, x, y);
}

static int by_heat(const void *a, const void *b, void *merge)
{
    const struct report_place *x = a, *y = b;
    int order = (x->branch > y->branch) - (x->branch < y->branch);
    if (!order)
        order = (x->figure.value < y->figure.value) - (x->figure.value > y->figure.value);
    return order ? order : compare_place(merge, x, y);
}

/* The same line met at several addresses is one place. */
static void merge_places(struct report_merge *merge)
{
    size_t kept = 0;
    if (!merge->place_count)
        return;
    qsort_r(merge->places, merge->place_count, sizeof *merge->places, by_place, merge);
    for (size_t i = 1; i < merge->place_count; i++) {
        if (by_place(&merge->places[kept], &merge->places[i], merge))
            merge->places[++kept] = merge->places[i];
        else
            report_select_add(&merge->context->selection, &merge->places[kept].figure,
                              &merge->places[i].figure);
    }
    merge->place_count = kept + 1;
    qsort_r(merge->places, merge->place_count, sizeof *merge->places, by_heat, merge);
}

size_t report_merge_places(const struct report_merge *merge, uint32_t branch)
{
    size_t low = 0, high = merge->place_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (merge->places[middle].branch < branch)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* --- order --- */

static int by_parent(const void *a, const void *b, void *context)
{
    const struct report_merge *merge = context;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    const struct report_branch *x = &merge->branches[i], *y = &merge->branches[j];
    if (x->parent != y->parent)
        return x->parent < y->parent ? -1 : 1;
    if (x->total.value != y->total.value)
        return x->total.value > y->total.value ? -1 : 1;
    return report_view_compare_names(&merge->entities, x->entity, y->entity);
}

static bool sort_children(struct report_merge *merge)
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

int report_merge_build(struct report_context *context, struct report_merge *merge)
{
    struct report_visitor visitor = {
        .enter = enter, .leave = leave, .leaf = leaf, .context = merge, .marks = true};
    merge->context = context;
    if (!report_entity_init(&merge->entities, context->profile,
                            merge->plain ? REPORT_DETAIL_FUNCTION : REPORT_DETAIL_INLINED) ||
        !base_array_room(merge->branches, 0, merge->capacity))
        return report_view_memory(context);
    merge->branches[merge->count++] = (struct report_branch){0};
    int code = report_walk(context->profile, &context->nodes, &merge->entities, &visitor, context->error);
    if (code)
        return code;
    merge_places(merge);
    return sort_children(merge) ? 0 : report_view_memory(context);
}

void report_merge_free(struct report_merge *merge)
{
    report_entity_free(&merge->entities);
    base_map_free(&merge->map);
    free(merge->branches);
    free(merge->children);
    free(merge->first);
    free(merge->places);
    *merge = (struct report_merge){0};
}
