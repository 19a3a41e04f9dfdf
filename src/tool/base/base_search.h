/* base_search.h - where in a sorted array a number belongs: `items` ascend by the number that each has as
 * `member`, a uint64_t, a uint32_t, or an int32_t (pid_t) that is not negative.
 *
 *   base_search_below(items, count, member, key)    how many items, all at the beginning, have a member below
 *                                                   the key
 *   base_search_up_to(items, count, member, key)    how many have one that is not above it
 *   base_search_number(numbers, count, key)         how many of an array of numbers are below the key
 *
 * So the first is the index of the first item at or after the key, and the second, less one, that of the last
 * at or before it. Pure. Context: tool. */
#ifndef BASE_SEARCH_H
#define BASE_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct base_search_layout {
    size_t size, offset, width; /* bytes: an item, before its number, its number */
};

/* A number of another type does not compile. */
#define base_search_width(number)                                                                            \
    _Generic((number), uint64_t : sizeof(uint64_t), uint32_t : sizeof(uint32_t), int32_t : sizeof(uint32_t))
#define base_search_member(items, member)                                                                    \
    ((struct base_search_layout){sizeof *(items), offsetof(__typeof__(*(items)), member),                    \
                                 base_search_width((items)->member)})

#define base_search_below(items, count, member, key)                                                         \
    base_search_count((items), (count), base_search_member(items, member), (key), false)
#define base_search_up_to(items, count, member, key)                                                         \
    base_search_count((items), (count), base_search_member(items, member), (key), true)
#define base_search_number(numbers, count, key)                                                              \
    base_search_count((numbers), (count),                                                                    \
                      (struct base_search_layout){sizeof *(numbers), 0, base_search_width(*(numbers))},      \
                      (key), false)

/* Inline: with the layout known it is what one would write by hand. */
static inline size_t base_search_count(const void *items, size_t count, struct base_search_layout layout,
                                       uint64_t key, bool with_equal)
{
    const char *first = (const char *)items + layout.offset;
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint64_t found;
        uint32_t narrow;
        if (layout.width == sizeof narrow) {
            memcpy(&narrow, first + middle * layout.size, sizeof narrow);
            found = narrow;
        } else {
            memcpy(&found, first + middle * layout.size, sizeof found);
        }
        if (found < key || (with_equal && found == key))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

#endif
