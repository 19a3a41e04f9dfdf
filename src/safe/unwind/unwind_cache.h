/* unwind_cache.h - the direct-mapped table between program counters and rules (inside the room only).
 *
 * An entry is everything that `find` and the rows had to say about one lookup address, in half a cache line.
 * It is good only under the generation it was made in. What was *not* found is cached as well: a rule of kind
 * WIRE_CFA_NONE, with UNWIND_NO_COOKIE when there is not even a mapping.
 * The slot is taken from the low bits of the address as they are: return addresses fall anywhere in 4 KiB, so
 * hashing them would only lengthen the chain of dependent instructions that a walk is made of (return address
 * -> slot -> rule -> CFA -> next return address). */
#ifndef UNWIND_CACHE_H
#define UNWIND_CACHE_H

#include "unwind.h"

#define UNWIND_CACHE_SLOTS 2048 /* of 32 bytes: 64 KiB */

struct unwind_entry {
    uint64_t key; /* the lookup address; 0 is never looked up, so zeroed memory is an empty cache */
    uint32_t generation;
    uint32_t cookie;
    struct wire_rule rule;
};
_Static_assert(sizeof(struct unwind_entry) == 32, "two to a cache line");

struct unwind_cache {
    struct unwind_entry entries[UNWIND_CACHE_SLOTS];
};

static inline struct unwind_entry *unwind_cache_slot(struct unwind_cache *cache, uint64_t key)
{
    return &cache->entries[(key >> 2) % UNWIND_CACHE_SLOTS];
}

/* Asks the space and the rows about `key` and fills the entry. */
void unwind_cache_fill(struct unwind_entry *entry, const struct unwind_space *space, uint64_t key);

#endif
