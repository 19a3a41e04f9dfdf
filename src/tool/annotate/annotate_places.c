#include "annotate_places.h"

#include <stdlib.h>

#include "base_array.h"

bool annotate_places_init(struct annotate_places *places, const struct profile *profile)
{
    *places = (struct annotate_places){.run_of = calloc(profile->address_count + 1, sizeof *places->run_of)};
    if (!places->run_of || !base_array_room(places->runs, 0, places->run_capacity))
        return false;
    places->runs[places->run_count++] = 0;
    return true;
}

void annotate_places_free(struct annotate_places *places)
{
    free(places->run_of);
    free(places->runs);
    free(places->self);
    free(places->total);
    *places = (struct annotate_places){0};
}

bool annotate_places_add(struct annotate_places *places, uint32_t address, uint32_t place)
{
    if (!places->run_of[address]) {
        if (!base_array_room(places->runs, places->run_count, places->run_capacity))
            return false;
        places->run_of[address] = (uint32_t)places->run_count;
        places->runs[places->run_count++] = 0;
    }
    if (!base_array_room(places->runs, places->run_count, places->run_capacity))
        return false;
    places->runs[places->run_count++] = place;
    places->runs[places->run_of[address]]++;
    if (place > places->last)
        places->last = place;
    return true;
}

const uint32_t *annotate_places_of(const struct annotate_places *places, uint32_t address, size_t *count)
{
    const uint32_t *run = places->runs + places->run_of[address];
    *count = run[0];
    return run + 1;
}

/* --- the walk --- */

struct summing {
    const struct view_context *context;
    struct annotate_places *places;
    uint32_t *open; /* by place: frames on the stack that lie in it */
};

static const uint32_t *run_of(const struct summing *summing, const struct view_frame *frame, size_t *count)
{
    return annotate_places_of(summing->places, summing->context->profile->nodes[frame->node].address, count);
}

static bool places_enter(void *context, struct view_frame *frames, size_t depth,
                         const struct view_figure *total)
{
    struct summing *summing = context;
    size_t count;
    const uint32_t *run = run_of(summing, &frames[depth - 1], &count);
    for (size_t i = 0; i < count; i++)
        if (!summing->open[run[i]]++)
            view_select_add(&summing->context->selection, &summing->places->total[run[i]], total);
    return true;
}

static void places_leave(void *context, struct view_frame *frames, size_t depth)
{
    struct summing *summing = context;
    size_t count;
    const uint32_t *run = run_of(summing, &frames[depth - 1], &count);
    for (size_t i = 0; i < count; i++)
        summing->open[run[i]]--;
}

static bool places_leaf(void *context, struct view_frame *frames, size_t depth,
                        const struct view_figure *self)
{
    struct summing *summing = context;
    size_t count;
    const uint32_t *run = run_of(summing, &frames[depth - 1], &count);
    for (size_t i = 0; i < count; i++)
        view_select_add(&summing->context->selection, &summing->places->self[run[i]], self);
    return true;
}

int annotate_places_sum(struct view_context *context, struct annotate_places *places)
{
    struct summing summing = {.context = context, .places = places};
    struct view_visitor visitor = {
        .enter = places_enter, .leave = places_leave, .leaf = places_leaf, .context = &summing};
    struct view_entities entities = {0};
    size_t count = (size_t)places->last + 1;
    free(places->self);
    free(places->total);
    places->self = calloc(count, sizeof *places->self);
    places->total = calloc(count, sizeof *places->total);
    summing.open = calloc(count, sizeof *summing.open);
    bool room = view_entity_init(&entities, context->profile, VIEW_DETAIL_ADDRESS) && places->self &&
                places->total && summing.open;
    int code = room ? view_walk(context->profile, &context->nodes, &entities, &visitor, context->error)
                    : view_memory(context);
    view_entity_free(&entities);
    free(summing.open);
    return code;
}
