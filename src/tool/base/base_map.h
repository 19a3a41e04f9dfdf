/* base_map.h - a hash table from a 64-bit key to a 32-bit value, open addressing, no deletion of single
 * entries. The table of choice wherever an id stands for something: intern tables, pid -> process.
 * Keys may be any value.
 * Context: tool. Source: linear probing, Knuth TAOCP 6.4 algorithm L. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BASE_MAP_NONE UINT32_MAX

struct base_map_entry {
    uint64_t key;
    uint32_t value; /* BASE_MAP_NONE: free */
};

struct base_map {
    struct base_map_entry *entries;
    size_t capacity, used;
};

void base_map_free(struct base_map *map);

/* The value of `key`, or BASE_MAP_NONE. */
uint32_t base_map_find(const struct base_map *map, uint64_t key);

/* Adds or replaces; value must not be BASE_MAP_NONE. False only when memory ran out: the map is as before. */
bool base_map_set(struct base_map *map, uint64_t key, uint32_t value);

/* Forgets everything, keeps the memory. */
void base_map_clear(struct base_map *map);

/* A well mixed 64-bit hash (the finaliser of splitmix64, Steele et al. 2014). */
static inline uint64_t base_hash(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* A hash of bytes: eight at a time, each multiplied into what came before (as FNV does with one), mixed. The
 * same for the same bytes on every machine of one byte order: files of caches hold it. */
uint64_t base_hash_bytes(const void *bytes, size_t length);

#endif
