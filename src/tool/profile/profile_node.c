/* profile_node.c - the nodes of the tree: one probe a frame of each sample. */
#include "base_array.h"
#include "profile.h"
#include "profile_model.h"
#include "wire_loss.h"

enum { FOLD_PAUSE = 1024 };

static bool same_node(const struct profile *profile, uint32_t index, const void *key)
{
    const struct profile_node *node = &profile->nodes[index], *wanted = key;
    return node->parent == wanted->parent && node->address == wanted->address && node->flags == wanted->flags;
}

static uint32_t node_out_of_memory(struct profile *profile)
{
    profile_lose(profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
    return 0;
}

/* A free slot, or a new one at the end; room was made. */
static uint32_t take_slot(struct profile *profile)
{
    struct profile_model *self = profile->self;
    uint32_t node = self->free_count ? self->free_nodes[--self->free_count] : (uint32_t)profile->node_count++;
    profile_marks_set(&self->nodes, node);
    profile->live_nodes++;
    return node;
}

/* Finds or makes a node, whatever max_nodes says. */
static uint32_t node_of(struct profile *profile, const struct profile_node *wanted)
{
    struct profile_model *self = profile->self;
    struct profile_table *table = &self->tables[PROFILE_TABLE_NODES];
    if (!profile_table_room(profile, PROFILE_TABLE_NODES) ||
        !base_array_room(profile->nodes, profile->node_count, self->node_capacity))
        return node_out_of_memory(profile);
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
    struct profile_model *self = profile->self;
    if (self->fold_pause) {
        self->fold_pause--;
        return false;
    }
    if (profile_fold(profile, keep))
        return true;
    self->fold_pause = FOLD_PAUSE;
    return false;
}

uint32_t profile_node(struct profile *profile, uint32_t parent, uint32_t address, uint32_t flags)
{
    if (!address || address >= profile->address_count || parent >= profile->node_count)
        return 0;
    if (profile_node_is_folded(profile, parent))
        return parent;
    struct profile_node wanted = {parent, address, flags};
    if (profile->live_nodes < profile->max_nodes)
        return node_of(profile, &wanted);
    struct profile_table *table = &profile->self->tables[PROFILE_TABLE_NODES];
    if (!profile_table_room(profile, PROFILE_TABLE_NODES))
        return node_out_of_memory(profile);
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
