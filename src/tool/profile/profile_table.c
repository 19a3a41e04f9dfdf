#include "profile_table.h"

#include <stdlib.h>
#include <string.h>

#include "profile_model.h"

/* The hash of the item at `index`; false when it is not in the table. Each must agree with what the
 * function that interns that kind computes from a key. */
static bool hash_item(const struct profile *profile, enum profile_table_kind kind, uint32_t index,
                      uint64_t *hash)
{
    const char *text;
    switch (kind) {
    case PROFILE_TABLE_STRINGS:
        text = profile->self->strings.texts[index];
        *hash = base_hash_bytes(text, strlen(text));
        return true;
    case PROFILE_TABLE_IMAGES:
        *hash = base_hash(profile->images[index].path);
        return true;
    case PROFILE_TABLE_ADDRESSES:
        *hash = profile_hash_pair(profile->addresses[index].address, profile->addresses[index].image);
        return true;
    case PROFILE_TABLE_FUNCTIONS:
        *hash = profile_hash_pair(profile->functions[index].start, profile->functions[index].name);
        return true;
    case PROFILE_TABLE_INLINED:
        *hash = profile_hash_pair((uint64_t)profile->inlined[index].function_name << 32 |
                                      profile->inlined[index].line,
                                  profile->inlined[index].outer);
        return true;
    case PROFILE_TABLE_NODES:
        *hash = profile_hash_node(&profile->nodes[index]);
        return profile_node_lives(profile, index);
    case PROFILE_TABLE_CELLS:
        *hash = profile_hash_cell(&profile->cells[index]);
        return true;
    case PROFILE_TABLE_EDGES:
        *hash = profile_hash_edge(&profile->edges[index]);
        return true;
    case PROFILE_TABLES:
        break;
    }
    return false;
}

/* Index 0 is "none" everywhere but among the cells. */
static size_t first_item(enum profile_table_kind kind)
{
    return kind == PROFILE_TABLE_CELLS ? 0 : 1;
}

static size_t item_count(const struct profile *profile, enum profile_table_kind kind)
{
    const size_t counts[PROFILE_TABLES] = {
        [PROFILE_TABLE_STRINGS] = profile->self->strings.count,
        [PROFILE_TABLE_IMAGES] = profile->image_count,
        [PROFILE_TABLE_ADDRESSES] = profile->address_count,
        [PROFILE_TABLE_FUNCTIONS] = profile->function_count,
        [PROFILE_TABLE_INLINED] = profile->inlined_count,
        [PROFILE_TABLE_NODES] = profile->node_count,
        [PROFILE_TABLE_CELLS] = profile->cell_count,
        [PROFILE_TABLE_EDGES] = profile->edge_count,
    };
    return counts[kind];
}

void profile_table_refill(struct profile *profile, enum profile_table_kind kind)
{
    struct profile_table *table = &profile->self->tables[kind];
    size_t mask = table->capacity - 1, count = item_count(profile, kind);
    memset(table->slots, 0, table->capacity * sizeof *table->slots);
    table->used = 0;
    table->stale = false;
    for (size_t i = first_item(kind); i < count; i++) {
        uint64_t hash;
        if (!hash_item(profile, kind, (uint32_t)i, &hash))
            continue;
        size_t at = hash & mask;
        while (table->slots[at])
            at = (at + 1) & mask;
        profile_table_put(table, &table->slots[at], (uint32_t)i);
    }
}

bool profile_table_room(struct profile *profile, enum profile_table_kind kind)
{
    struct profile_table *table = &profile->self->tables[kind];
    size_t needed = (table->stale ? item_count(profile, kind) : table->used) + 1;
    if (!table->stale && needed * 4 <= table->capacity * 3)
        return true;
    size_t capacity = table->capacity ? table->capacity : 64;
    while (needed * 4 > capacity * 3)
        capacity *= 2;
    if (capacity != table->capacity) {
        uint32_t *slots = malloc(capacity * sizeof *slots);
        if (!slots)
            return false;
        free(table->slots);
        table->slots = slots;
        table->capacity = capacity;
    }
    profile_table_refill(profile, kind);
    return true;
}
