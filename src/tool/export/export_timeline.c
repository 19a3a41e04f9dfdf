/* export_timeline.c - samples are counted in slots while they are read, so that memory holds slots and not
 * samples: whenever many more are there than may stay, those of one place are put together, and if that was
 * not enough, steps become twice as long. */
#include "export_timeline.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base_array.h"
#include "export_tree.h"
#include "profile_own.h"
#include "store_timeline.h"

static int timeline_by_place(const void *left, const void *right)
{
    const struct export_slot *a = left, *b = right;
    if (a->counter != b->counter)
        return a->counter < b->counter ? -1 : 1;
    if (a->thread != b->thread)
        return a->thread < b->thread ? -1 : 1;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    return (a->node > b->node) - (a->node < b->node);
}

void export_timeline_sort(struct export_timeline *timeline)
{
    struct export_slot *slots = timeline->slots;
    size_t kept = 0;
    if (timeline->count)
        qsort(slots, timeline->count, sizeof *slots, timeline_by_place);
    for (size_t i = 0; i < timeline->count; i++)
        if (kept && !timeline_by_place(&slots[kept - 1], &slots[i]) &&
            slots[i].samples <= UINT32_MAX - slots[kept - 1].samples)
            slots[kept - 1].samples += slots[i].samples;
        else
            slots[kept++] = slots[i];
    timeline->count = kept;
}

void export_timeline_free(struct export_timeline *timeline)
{
    free(timeline->slots);
    *timeline = (struct export_timeline){0};
}

/* --- reading --- */

struct timeline_filling {
    struct export_timeline *timeline;
    const struct profile *profile;
    const struct export_options *options;
    size_t most;
    bool no_memory;
};

static void double_step(struct export_timeline *timeline)
{
    timeline->step_ns *= 2;
    for (size_t i = 0; i < timeline->count; i++)
        timeline->slots[i].step /= 2;
}

static uint32_t last_step(const struct export_timeline *timeline)
{
    uint32_t last = 0;
    for (size_t i = 0; i < timeline->count; i++)
        last = timeline->slots[i].step > last ? timeline->slots[i].step : last;
    return last;
}

static size_t allowed_slots(size_t most, uint32_t last)
{
    return last / 2 < EXPORT_TIMELINE_STEPS ? most * 5 / 2 : most;
}

/* No further than to one step, in which a slot is a node of a thread. */
static void reduce_slots(struct timeline_filling *filling)
{
    struct export_timeline *timeline = filling->timeline;
    export_timeline_sort(timeline);
    for (uint32_t last = last_step(timeline); last && timeline->count > allowed_slots(filling->most, last);
         last /= 2) {
        double_step(timeline);
        export_timeline_sort(timeline);
    }
}

/* The node that a sample is drawn at. The file may have grown since the profile was loaded: what is newer is
 * left out. */
static bool timeline_is_taken(const struct timeline_filling *filling,
                              const struct store_timeline_sample *sample, uint32_t *node)
{
    const struct profile *profile = filling->profile;
    struct profile_cell cell = {
        .node = sample->node, .thread = sample->thread, .cpu = sample->cpu, .counter = sample->counter};
    bool taken = sample->node < profile->node_count && sample->thread < profile->thread_count &&
                 sample->counter < profile->counter_count &&
                 profile_own_program_node(profile, &cell.node, sample->counter) &&
                 export_tree_takes(profile, filling->options, &cell);
    *node = cell.node;
    return taken;
}

static bool timeline_fill(void *context, const struct store_timeline_sample *sample)
{
    struct timeline_filling *filling = context;
    struct export_timeline *timeline = filling->timeline;
    uint32_t node;
    if (!timeline_is_taken(filling, sample, &node))
        return true;
    while (sample->time_ns / timeline->step_ns > UINT32_MAX)
        double_step(timeline);
    if (!base_array_room(timeline->slots, timeline->count, timeline->capacity)) {
        filling->no_memory = true;
        return false;
    }
    timeline->slots[timeline->count++] =
        (struct export_slot){.step = (uint32_t)(sample->time_ns / timeline->step_ns),
                             .thread = sample->thread,
                             .node = node,
                             .counter = sample->counter,
                             .samples = 1};
    if (timeline->count == timeline->capacity && timeline->count > 5 * filling->most)
        reduce_slots(filling);
    return true;
}

int export_timeline_read(struct export_timeline *timeline, const char *path, const struct profile *profile,
                         const struct export_options *options, size_t most, struct base_error *error)
{
    struct timeline_filling filling = {timeline, profile, options, most, false};
    *timeline = (struct export_timeline){.step_ns = EXPORT_TIMELINE_STEP_NS};
    int code = store_timeline_each(path, timeline_fill, &filling, error);
    if (filling.no_memory)
        return base_fail(error, BASE_ENOMEM, "out of memory for the timeline");
    if (code >= 0)
        reduce_slots(&filling);
    return code;
}
