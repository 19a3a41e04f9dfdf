/* The timeline as a list with figures. A sample has none of its own in the file: each of a thread stands for
 * the same, so the mean of the thread's cells says what. */
#include <stdlib.h>

#include "base_array.h"
#include "profile_own.h"
#include "store_timeline.h"

struct reading {
    const struct profile *profile;
    struct store_timeline_list *list;
    bool no_memory;
};

static bool timeline_list_take(void *context, const struct store_timeline_sample *sample)
{
    struct reading *reading = context;
    const struct profile *profile = reading->profile;
    struct store_timeline_list *list = reading->list;
    uint32_t node = sample->node;
    if (sample->thread >= profile->thread_count || sample->node >= profile->node_count ||
        sample->counter >= profile->counter_count ||
        !profile_own_program_node(profile, &node, sample->counter))
        return true;
    if (!base_array_room(list->items, list->count, list->capacity)) {
        reading->no_memory = true;
        return false;
    }
    list->items[list->count++] = (struct store_timeline_item){.time_ns = sample->time_ns,
                                                              .thread = sample->thread,
                                                              .node = node,
                                                              .cpu = sample->cpu,
                                                              .counter = sample->counter};
    return true;
}

static int compare_sample_fields(uint64_t one, uint64_t two)
{
    return (one > two) - (one < two);
}

static int timeline_list_by_time(const void *left, const void *right)
{
    const struct store_timeline_item *a = left, *b = right;
    int result = compare_sample_fields(a->time_ns, b->time_ns);
    if (!result)
        result = compare_sample_fields(a->thread, b->thread);
    if (!result)
        result = compare_sample_fields(a->node, b->node);
    if (!result)
        result = compare_sample_fields(a->counter, b->counter);
    return result ? result : compare_sample_fields(a->cpu, b->cpu);
}

struct sum {
    int64_t value;
    uint64_t samples;
};

/* Of every thread and counter, what its cells amount to; NULL when memory ran out. */
static struct sum *sum_threads(const struct profile *profile)
{
    struct sum *sums = calloc(profile->thread_count * profile->counter_count + 1, sizeof *sums);
    for (size_t i = 0; sums && i < profile->cell_count; i++) {
        const struct profile_cell *cell = &profile->cells[i];
        struct sum *sum = &sums[cell->thread * profile->counter_count + cell->counter];
        if (__builtin_add_overflow(sum->value, cell->value, &sum->value))
            sum->value = INT64_MAX;
        sum->samples += cell->samples;
    }
    return sums;
}

static bool timeline_list_weigh(const struct profile *profile, struct store_timeline_list *list)
{
    struct sum *sums = sum_threads(profile);
    for (size_t i = 0; sums && i < list->count; i++) {
        struct store_timeline_item *item = &list->items[i];
        const struct sum *sum = &sums[item->thread * profile->counter_count + item->counter];
        item->value = sum->samples && sum->samples <= INT64_MAX ? sum->value / (int64_t)sum->samples : 0;
    }
    free(sums);
    return sums != NULL;
}

int store_timeline_read(const char *path, const struct profile *profile, struct store_timeline_list *list,
                        struct base_error *error)
{
    struct reading reading = {.profile = profile, .list = list};
    *list = (struct store_timeline_list){0};
    int result = store_timeline_each(path, timeline_list_take, &reading, error);
    if (result >= 0 && (reading.no_memory || !timeline_list_weigh(profile, list)))
        result = base_fail(error, BASE_ENOMEM, "out of memory for the timeline");
    if (result < 0) {
        store_timeline_list_free(list);
        return result;
    }
    if (list->count)
        qsort(list->items, list->count, sizeof *list->items, timeline_list_by_time);
    return BASE_OK;
}

void store_timeline_list_free(struct store_timeline_list *list)
{
    free(list->items);
    *list = (struct store_timeline_list){0};
}
