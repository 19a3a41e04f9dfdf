#include "base_map.h"

#include <stdlib.h>
#include <string.h>

void base_map_free(struct base_map *map)
{
    free(map->entries);
    *map = (struct base_map){0};
}

void base_map_clear(struct base_map *map)
{
    if (map->entries)
        memset(map->entries, 0xff, map->capacity * sizeof *map->entries);
    map->used = 0;
}

static struct base_map_entry *slot_of(struct base_map_entry *entries, size_t capacity, uint64_t key)
{
    size_t at = base_hash(key) & (capacity - 1);
    while (entries[at].value != BASE_MAP_NONE && entries[at].key != key)
        at = (at + 1) & (capacity - 1);
    return &entries[at];
}

uint32_t base_map_find(const struct base_map *map, uint64_t key)
{
    return map->capacity ? slot_of(map->entries, map->capacity, key)->value : BASE_MAP_NONE;
}

static bool grow_map(struct base_map *map)
{
    size_t capacity = map->capacity ? map->capacity * 2 : 64;
    struct base_map_entry *entries = malloc(capacity * sizeof *entries);
    if (!entries)
        return false;
    memset(entries, 0xff, capacity * sizeof *entries);
    for (size_t i = 0; i < map->capacity; i++) {
        if (map->entries[i].value != BASE_MAP_NONE)
            *slot_of(entries, capacity, map->entries[i].key) = map->entries[i];
    }
    free(map->entries);
    map->entries = entries;
    map->capacity = capacity;
    return true;
}

bool base_map_set(struct base_map *map, uint64_t key, uint32_t value)
{
    if ((map->used + 1) * 4 > map->capacity * 3 && !grow_map(map))
        return false;
    struct base_map_entry *slot = slot_of(map->entries, map->capacity, key);
    if (slot->value == BASE_MAP_NONE)
        map->used++;
    *slot = (struct base_map_entry){key, value};
    return true;
}

uint64_t base_hash_bytes(const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    uint64_t hash = 0xcbf29ce484222325u ^ length, word;
    for (; length >= sizeof word; at += sizeof word, length -= sizeof word) {
        memcpy(&word, at, sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32; /* a product carries upwards only */
    }
    word = 0;
    memcpy(&word, at, length);
    return base_hash((hash ^ word) * 0x9e3779b97f4a7c15u);
}
