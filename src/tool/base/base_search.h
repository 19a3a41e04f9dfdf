/* base_search.h - where in a sorted array a number belongs: `items` ascend by the uint64_t that each has as
 * `member`.
 *
 *   base_search_below(items, count, member, key)    how many items, all at the beginning, have a member below
 *                                                   the key
 *   base_search_up_to(items, count, member, key)    how many have one that is not above it
 *
 * So the first is the index of the first item at or after the key, and the second, less one, that of the last
 * at or before it. Pure. Context: tool. */
#ifndef BASE_SEARCH_H
#define BASE_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define base_search_below(items, count, member, key)                                                         \
    base_search_count((items), (count), sizeof *(items), base_search_offset(items, member), (key), false)
#define base_search_up_to(items, count, member, key)                                                         \
    base_search_count((items), (count), sizeof *(items), base_search_offset(items, member), (key), true)

/* A member of another type does not compile. */
#define base_search_offset(items, member)                                                                    \
    _Generic((items)->member, uint64_t : offsetof(__typeof__(*(items)), member))

/* Inline: with the layout known it is what one would write by hand. */
static inline size_t base_search_count(const void *items, size_t count, size_t size, size_t offset,
                                       uint64_t key, bool with_equal)
{
    const char *first = (const char *)items;
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint64_t found;
        memcpy(&found, first + middle * size + offset, sizeof found);
        if (found < key || (with_equal && found == key))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

#endif
