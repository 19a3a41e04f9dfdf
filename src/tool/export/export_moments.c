#include "export_moments.h"

#include <stdlib.h>

#include "base_map.h"

static int compare_moment_fields(uint64_t one, uint64_t two)
{
    return (one > two) - (one < two);
}

static int by_thread(const void *left, const void *right)
{
    const struct export_moment *a = left, *b = right;
    int result = compare_moment_fields(a->thread, b->thread);
    if (!result)
        result = compare_moment_fields(a->time_ns, b->time_ns);
    return result ? result : compare_moment_fields(a->branch, b->branch);
}

static size_t count_times(const struct export_options *options)
{
    return options->times ? options->times->count : 0;
}

bool export_moments_timed(const struct export_options *options, uint16_t counter)
{
    for (size_t i = 0; i < count_times(options); i++)
        if (options->times->items[i].counter == counter)
            return true;
    return false;
}

static void take_samples(const struct export_tree *tree, const struct export_options *options,
                         uint16_t counter, struct export_moments *found)
{
    for (size_t i = 0; i < count_times(options); i++) {
        const struct store_timeline_item *item = &options->times->items[i];
        struct profile_cell cell = {
            .node = item->node, .thread = item->thread, .cpu = item->cpu, .counter = item->counter};
        bool taken = item->counter == counter && export_tree_takes(tree->frames->profile, options, &cell);
        uint32_t branch = taken ? export_tree_branch(tree, item->node, item->thread) : 0;
        if (branch)
            found->items[found->count++] =
                (struct export_moment){item->time_ns, item->value, item->thread, branch};
    }
}

static void take_cells(const struct export_tree *tree, uint16_t counter, struct export_moments *found)
{
    const struct profile *profile = tree->frames->profile;
    for (size_t i = 0; i < profile->cell_count; i++) {
        const struct profile_cell *cell = &profile->cells[i];
        if (tree->leaf[i] && cell->counter == counter && cell->value > 0)
            found->items[found->count++] =
                (struct export_moment){0, cell->value, cell->thread, tree->leaf[i]};
    }
}

/* Cells of one branch and thread become one. */
static void moments_join(const struct profile *profile, uint16_t counter, struct export_moments *found)
{
    size_t kept = 0;
    for (size_t i = 0; i < found->count; i++) {
        struct export_moment *item = &found->items[i];
        if (!kept || by_thread(&found->items[kept - 1], item)) {
            found->items[kept++] = *item;
            continue;
        }
        struct export_figure sum = {found->items[kept - 1].value, 0};
        export_tree_add(profile, counter, &sum, &(struct export_figure){item->value, 0});
        found->items[kept - 1].value = sum.value;
    }
    found->count = kept;
}

/* --- numbers --- */

/* How often `number` came before. False when memory ran out. */
static bool count_again(struct base_map *seen, int32_t number, int64_t *unlike)
{
    uint32_t before = base_map_find(seen, (uint32_t)number);
    before = before == BASE_MAP_NONE ? 0 : before;
    *unlike = number + (int64_t)before * EXPORT_MOMENTS_APART;
    return base_map_set(seen, (uint32_t)number, before + 1);
}

static bool number_all(const struct profile *profile, struct export_moments *found)
{
    struct base_map pids = {0}, tids = {0};
    found->pids = calloc(profile->process_count + 1, sizeof *found->pids);
    found->tids = calloc(profile->thread_count + 1, sizeof *found->tids);
    bool done = found->pids && found->tids;
    for (size_t i = 1; done && i < profile->process_count; i++)
        done = count_again(&pids, profile->processes[i].pid, &found->pids[i]);
    for (size_t i = 1; done && i < profile->thread_count; i++)
        done = count_again(&tids, profile->threads[i].tid, &found->tids[i]);
    base_map_free(&pids);
    base_map_free(&tids);
    return done;
}

bool export_moments_find(const struct export_tree *tree, const struct export_options *options,
                         uint16_t counter, bool timed, struct export_moments *found)
{
    const struct profile *profile = tree->frames->profile;
    size_t most = timed ? count_times(options) : profile->cell_count;
    *found = (struct export_moments){.items = calloc(most + 1, sizeof *found->items)};
    if (!found->items || !number_all(profile, found))
        return false;
    if (timed)
        take_samples(tree, options, counter, found);
    else
        take_cells(tree, counter, found);
    if (found->count)
        qsort(found->items, found->count, sizeof *found->items, by_thread);
    if (!timed)
        moments_join(profile, counter, found);
    return true;
}

void export_moments_free(struct export_moments *moments)
{
    free(moments->items);
    free(moments->pids);
    free(moments->tids);
    *moments = (struct export_moments){0};
}
