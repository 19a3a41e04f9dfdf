/* profile_table.h - finding the index of what is interned already.
 *
 * Open addressing with linear probing over 32-bit slots that hold index + 1 (0 is free); the items stay in
 * the model's arrays, so a table costs about 8 bytes an item and a match is always confirmed on the item
 * itself, never on a hash alone. Single entries are not deleted: folding rebuilds the table of nodes and of
 * cells in place. A table may lag behind its array (a profile that was just loaded has none):
 * profile_table_room catches up. Source: linear probing, Knuth TAOCP 6.4 algorithm L. Context: tool; private
 * to this module. */
#ifndef PROFILE_TABLE_H
#define PROFILE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct profile;

enum profile_table_kind {
    PROFILE_TABLE_STRINGS,
    PROFILE_TABLE_IMAGES,
    PROFILE_TABLE_ADDRESSES,
    PROFILE_TABLE_FUNCTIONS,
    PROFILE_TABLE_INLINED,
    PROFILE_TABLE_NODES,
    PROFILE_TABLE_CELLS,
    PROFILE_TABLE_EDGES,
    PROFILE_TABLES
};

struct profile_table {
    uint32_t *slots;
    size_t capacity, used; /* capacity: 0 or a power of two */
    bool stale;            /* the array was filled without it */
};

/* Room for one more, and up to date. False when memory ran out: nothing changed. */
bool profile_table_room(struct profile *profile, enum profile_table_kind kind);

/* Fills the table again from its array, which must not have grown: no memory is needed. */
void profile_table_refill(struct profile *profile, enum profile_table_kind kind);

/* The slot of an entry with this hash that `equal` confirms, else the free slot where it belongs. The table
 * must have room (profile_table_room). */
static inline uint32_t *profile_table_slot(const struct profile *profile, const struct profile_table *table,
                                           uint64_t hash,
                                           bool (*equal)(const struct profile *, uint32_t, const void *),
                                           const void *key)
{
    size_t mask = table->capacity - 1, at = hash & mask;
    while (table->slots[at] && !equal(profile, table->slots[at] - 1, key))
        at = (at + 1) & mask;
    return &table->slots[at];
}

static inline void profile_table_put(struct profile_table *table, uint32_t *slot, uint32_t index)
{
    *slot = index + 1;
    table->used++;
}

#endif
