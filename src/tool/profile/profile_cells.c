/* profile_cells.c - the figures on the nodes of the tree: one probe a sample. */
#include <limits.h>
#include <string.h>

#include "base_array.h"
#include "profile.h"
#include "profile_model.h"
#include "wire_loss.h"

static bool same_cell(const struct profile *profile, uint32_t index, const void *key)
{
    const struct profile_cell *cell = &profile->cells[index], *wanted = key;
    return cell->node == wanted->node && cell->thread == wanted->thread && cell->cpu == wanted->cpu &&
           cell->counter == wanted->counter;
}

/* --- profile_cells.c --- */
static void mark_cell_dirty(struct profile *profile, uint32_t cell)
{
    struct profile_model *self = profile->self;
    if (profile->cells[cell].dirty)
        return;
    profile->cells[cell].dirty = 1;
    if (base_array_room(self->dirty_cells, self->dirty_count, self->dirty_capacity))
        self->dirty_cells[self->dirty_count++] = cell;
    else
        self->dirty_unlisted = true;
}

static void cells_add_to(const struct profile *profile, struct profile_cell *cell, int64_t value,
                         uint64_t samples)
{
    if (profile->counters[cell->counter].combine == PROFILE_PEAK)
        cell->value = value > cell->value ? value : cell->value;
    else if (__builtin_add_overflow(cell->value, value, &cell->value))
        cell->value = value < 0 ? INT64_MIN : INT64_MAX;
    if (__builtin_add_overflow(cell->samples, samples, &cell->samples))
        cell->samples = UINT64_MAX;
}

static bool cell_room(struct profile *profile)
{
    return profile_table_room(profile, PROFILE_TABLE_CELLS) && profile->cell_count < INT32_MAX &&
           base_array_room(profile->cells, profile->cell_count, profile->self->cell_capacity);
}

void profile_count(struct profile *profile, struct profile_key key, int64_t value, uint64_t samples)
{
    if (!key.counter || key.counter >= profile->counter_count || !cell_room(profile)) {
        profile_lose(profile, WIRE_LOSS_OUT_OF_MEMORY, samples ? samples : 1);
        return;
    }
    uint32_t node = key.node < profile->node_count && profile_node_lives(profile, key.node) ? key.node : 0;
    struct profile_cell wanted = {.node = node,
                                  .thread = key.thread < profile->thread_count ? key.thread : 0,
                                  .cpu = key.cpu,
                                  .counter = key.counter};
    struct profile_table *table = &profile->self->tables[PROFILE_TABLE_CELLS];
    uint32_t *slot = profile_table_slot(profile, table, profile_hash_cell(&wanted), same_cell, &wanted);
    if (!*slot) {
        profile->cells[profile->cell_count] = wanted;
        profile_table_put(table, slot, (uint32_t)profile->cell_count++);
    }
    uint32_t cell = *slot - 1;
    cells_add_to(profile, &profile->cells[cell], value, samples);
    mark_cell_dirty(profile, cell);
    if (profile_node_is_folded(profile, node))
        profile_lose(profile, WIRE_LOSS_FOLDED, samples);
}

/* Samples that lie on real nodes now and on a (folded) one afterwards. */
static uint64_t count_folded(const struct profile *profile, const uint32_t *target)
{
    uint64_t samples = 0;
    for (size_t i = 0; i < profile->cell_count; i++) {
        const struct profile_cell *cell = &profile->cells[i];
        if (target[cell->node] != cell->node && !profile_node_is_folded(profile, cell->node))
            samples += cell->samples;
    }
    return samples;
}

/* The list of dirty cells names some that are gone now; the marks in the cells are what counts. */
static void list_dirty_again(struct profile *profile)
{
    struct profile_model *self = profile->self;
    size_t kept = 0;
    for (size_t i = 0; i < self->dirty_count; i++) {
        if (self->dirty_cells[i] < profile->cell_count)
            self->dirty_cells[kept++] = self->dirty_cells[i];
    }
    self->dirty_count = kept;
}

/* Cells are put back into the emptied table one by one; one that meets another is added to it, and the last
 * cell, not yet looked at, takes its place. So the array stays dense and only what moved is written again. */
void profile_cells_move(struct profile *profile, const uint32_t *target)
{
    struct profile_table *table = &profile->self->tables[PROFILE_TABLE_CELLS];
    profile_lose(profile, WIRE_LOSS_FOLDED, count_folded(profile, target));
    if (!table->capacity)
        return;
    memset(table->slots, 0, table->capacity * sizeof *table->slots);
    table->used = 0;
    for (uint32_t i = 0; i < profile->cell_count;) {
        struct profile_cell *cell = &profile->cells[i];
        if (target[cell->node] != cell->node) {
            cell->node = target[cell->node];
            mark_cell_dirty(profile, i);
        }
        uint32_t *slot = profile_table_slot(profile, table, profile_hash_cell(cell), same_cell, cell);
        if (!*slot) {
            profile_table_put(table, slot, i++);
            continue;
        }
        cells_add_to(profile, &profile->cells[*slot - 1], cell->value, cell->samples);
        mark_cell_dirty(profile, *slot - 1);
        uint32_t listed = cell->dirty;
        *cell = profile->cells[--profile->cell_count];
        cell->dirty = listed;
        if (i < profile->cell_count)
            mark_cell_dirty(profile, i);
    }
    list_dirty_again(profile);
}
