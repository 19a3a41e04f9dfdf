/* profile_cells.c - the tree's nodes and the figures on them: what runs for every sample. A sample costs one
 * probe a frame and one for its cell. */
#include <limits.h>
#include <string.h>

#include "base_array.h"
#include "profile.h"
#include "profile_private.h"
#include "wire_loss.h"

enum { FOLD_PAUSE = 1024 };

static bool same_node(const struct profile *profile, uint32_t index, const void *key)
{
    const struct profile_node *node = &profile->nodes[index], *wanted = key;
    return node->parent == wanted->parent && node->address == wanted->address && node->flags == wanted->flags;
}

static uint32_t out_of_memory(struct profile *profile, uint64_t samples)
{
    profile_lose(profile, WIRE_LOSS_OUT_OF_MEMORY, samples);
    return 0;
}

/* A free slot, or a new one at the end; room was made. */
static uint32_t take_slot(struct profile *profile)
{
    struct profile_private *self = profile->self;
    uint32_t node = self->free_count ? self->free_nodes[--self->free_count] : (uint32_t)profile->node_count++;
    profile_marks_set(&self->nodes, node);
    profile->live_nodes++;
    return node;
}

/* Finds or makes a node, whatever max_nodes says. */
static uint32_t node_of(struct profile *profile, const struct profile_node *wanted)
{
    struct profile_private *self = profile->self;
    struct profile_table *table = &self->tables[PROFILE_TABLE_NODES];
    if (!profile_table_room(profile, PROFILE_TABLE_NODES) ||
        !base_array_room(profile->nodes, profile->node_count, self->node_capacity))
        return out_of_memory(profile, 1);
    uint32_t *slot = profile_table_slot(profile, table, profile_hash_node(wanted), same_node, wanted);
    if (*slot)
        return *slot - 1;
    uint32_t node = take_slot(profile);
    profile->nodes[node] = *wanted;
    profile_table_put(table, slot, node);
    return node;
}

/* Where everything goes that finds no place: one node past the limit. */
static uint32_t overflow_node(struct profile *profile)
{
    struct profile_node wanted = {.address = profile_folded_address(profile)};
    return wanted.address ? node_of(profile, &wanted) : 0;
}

static bool make_space(struct profile *profile, uint32_t keep)
{
    struct profile_private *self = profile->self;
    if (self->fold_pause) {
        self->fold_pause--;
        return false;
    }
    if (profile_fold(profile, keep))
        return true;
    self->fold_pause = FOLD_PAUSE;
    return false;
}

static bool is_folded(const struct profile *profile, uint32_t node)
{
    return profile->folded_address && profile->nodes[node].address == profile->folded_address;
}

uint32_t profile_node(struct profile *profile, uint32_t parent, uint32_t address, uint32_t flags)
{
    if (!address || address >= profile->address_count || parent >= profile->node_count)
        return 0;
    if (is_folded(profile, parent))
        return parent;
    struct profile_node wanted = {parent, address, flags};
    if (profile->live_nodes < profile->max_nodes)
        return node_of(profile, &wanted);
    struct profile_table *table = &profile->self->tables[PROFILE_TABLE_NODES];
    if (!profile_table_room(profile, PROFILE_TABLE_NODES))
        return out_of_memory(profile, 1);
    uint32_t known = *profile_table_slot(profile, table, profile_hash_node(&wanted), same_node, &wanted);
    if (known)
        return known - 1;
    return make_space(profile, parent) ? node_of(profile, &wanted) : overflow_node(profile);
}

uint64_t profile_folds(const struct profile *profile)
{
    return profile->self->folds;
}

/* Folding spares the node that a child is being made for and all above it, so `node` stays what it is. */
uint32_t profile_stack(struct profile *profile, const uint32_t *addresses, const uint32_t *flags,
                       size_t count)
{
    uint32_t node = 0;
    for (size_t i = 0; i < count; i++) {
        node = profile_node(profile, node, addresses[i], flags ? flags[i] : 0);
        if (!node)
            return 0;
    }
    return node;
}

/* --- cells --- */

static bool same_cell(const struct profile *profile, uint32_t index, const void *key)
{
    const struct profile_cell *cell = &profile->cells[index], *wanted = key;
    return cell->node == wanted->node && cell->thread == wanted->thread && cell->cpu == wanted->cpu &&
           cell->counter == wanted->counter;
}

void profile_cells_dirty(struct profile *profile, uint32_t cell)
{
    struct profile_private *self = profile->self;
    if (profile->cells[cell].dirty)
        return;
    profile->cells[cell].dirty = 1;
    if (base_array_room(self->dirty_cells, self->dirty_count, self->dirty_capacity))
        self->dirty_cells[self->dirty_count++] = cell;
    else
        self->dirty_unlisted = true;
}

static void add_to(const struct profile *profile, struct profile_cell *cell, int64_t value, uint64_t samples)
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

void profile_count(struct profile *profile, uint32_t node, uint32_t thread, uint16_t cpu, uint16_t counter,
                   int64_t value, uint64_t samples)
{
    if (!counter || counter >= profile->counter_count || !cell_room(profile)) {
        out_of_memory(profile, samples ? samples : 1);
        return;
    }
    if (node >= profile->node_count || !profile_node_lives(profile, node))
        node = 0;
    struct profile_cell wanted = {
        .node = node, .thread = thread < profile->thread_count ? thread : 0, .cpu = cpu, .counter = counter};
    struct profile_table *table = &profile->self->tables[PROFILE_TABLE_CELLS];
    uint32_t *slot = profile_table_slot(profile, table, profile_hash_cell(&wanted), same_cell, &wanted);
    if (!*slot) {
        profile->cells[profile->cell_count] = wanted;
        profile_table_put(table, slot, (uint32_t)profile->cell_count++);
    }
    uint32_t cell = *slot - 1;
    add_to(profile, &profile->cells[cell], value, samples);
    profile_cells_dirty(profile, cell);
    if (is_folded(profile, node))
        profile_lose(profile, WIRE_LOSS_FOLDED, samples);
}

/* Samples that lie on real nodes now and on a (folded) one afterwards. */
static uint64_t count_folded(const struct profile *profile, const uint32_t *target)
{
    uint64_t samples = 0;
    for (size_t i = 0; i < profile->cell_count; i++) {
        const struct profile_cell *cell = &profile->cells[i];
        if (target[cell->node] != cell->node && !is_folded(profile, cell->node))
            samples += cell->samples;
    }
    return samples;
}

/* The list of dirty cells names some that are gone now; the marks in the cells are what counts. */
static void list_dirty_again(struct profile *profile)
{
    struct profile_private *self = profile->self;
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
            profile_cells_dirty(profile, i);
        }
        uint32_t *slot = profile_table_slot(profile, table, profile_hash_cell(cell), same_cell, cell);
        if (!*slot) {
            profile_table_put(table, slot, i++);
            continue;
        }
        add_to(profile, &profile->cells[*slot - 1], cell->value, cell->samples);
        profile_cells_dirty(profile, *slot - 1);
        uint32_t listed = cell->dirty;
        *cell = profile->cells[--profile->cell_count];
        cell->dirty = listed;
        if (i < profile->cell_count)
            profile_cells_dirty(profile, i);
    }
    list_dirty_again(profile);
}
