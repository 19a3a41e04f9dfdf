/* unwind_cache.h - the direct-mapped table between program counters and rules (private to the module).
 *
 * An entry is everything that `find` and the rows had to say about one lookup address, in half a cache line.
 * It is good only under the generation it was made in. What was *not* found is cached as well: a rule of kind
 * WIRE_CFA_NONE, with UNWIND_NO_COOKIE when there is not even a mapping.
 * The slot is taken from the low bits of the address as they are: return addresses fall anywhere in 4 KiB, so
 * hashing them would only lengthen the chain of dependent instructions that a walk is made of.
 * An entry also remembers which slot the frame above it was found in last time. The short loop goes there at
 * once and only then checks that it was right: the check waits for the return address to come from memory,
 * the next frame does not. */
#ifndef UNWIND_CACHE_H
#define UNWIND_CACHE_H

#include "unwind.h"

#define UNWIND_CACHE_SLOTS 4096 /* of 32 bytes: 128 KiB */

/* Rules that the short loop of unwind_walk.c knows: CFA = sp or fp + n, return address saved near the CFA, fp
 * the same or saved near the CFA. 0: none of them. */
enum unwind_form {
    UNWIND_FORM_FAST = 1,
    UNWIND_FORM_BY_FP = 2,
    UNWIND_FORM_FP_SAVED = 4,
    UNWIND_FORM_BASE_SAVED = 8,
    UNWIND_FORM_NEXT = 0xfff0, /* bits 4-15: the slot's distance from the first, in units of two bytes */
};

struct unwind_entry {
    uint64_t key; /* the lookup address; 0 is never looked up, so zeroed memory is an empty cache */
    uint32_t generation;
    uint32_t cookie;
    union {
        struct wire_rule rule;
        struct {
            uint8_t before[offsetof(struct wire_rule, zero)];
            uint16_t form; /* in the place of rule.zero: enum unwind_form, and the next frame's slot */
        };
    };
};
_Static_assert(sizeof(struct unwind_entry) == 32, "two to a cache line");

struct unwind_cache {
    struct unwind_entry entries[UNWIND_CACHE_SLOTS];
};
_Static_assert(sizeof(struct unwind_cache) == UNWIND_FORM_NEXT * 2 + sizeof(struct unwind_entry),
               "a slot in 12 bits");

static inline struct unwind_entry *unwind_cache_slot(struct unwind_cache *cache, uint64_t key)
{
    return &cache->entries[(key >> 2) % UNWIND_CACHE_SLOTS];
}

/* The slot that was next to this one last time. */
static inline struct unwind_entry *unwind_cache_next(struct unwind_cache *cache,
                                                     const struct unwind_entry *entry)
{
    return (struct unwind_entry *)((uint8_t *)cache + (size_t)(entry->form & UNWIND_FORM_NEXT) * 2);
}

static inline void unwind_cache_set_next(struct unwind_cache *cache, struct unwind_entry *entry,
                                         const struct unwind_entry *next)
{
    size_t distance = (size_t)((const uint8_t *)next - (const uint8_t *)cache);
    entry->form = (uint16_t)((entry->form & ~UNWIND_FORM_NEXT) | distance / 2);
}

/* Asks the space and the rows about `key` and fills the entry. */
void unwind_cache_fill(struct unwind_entry *entry, const struct unwind_space *space, uint64_t key);

#endif
