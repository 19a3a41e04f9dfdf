/* base_array.h - growing the arrays of the tool: `items`, `count`, `capacity` are plain members of the
 * structure that owns them; this makes room for one more, or for so many.
 * Context: tool. */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

/* Makes room for at least `count + 1` items of `size` bytes; doubles. False when memory ran out: the array
 * is as before. */
bool base_array_reserve(void **items, size_t *capacity, size_t count, size_t size);

/* base_array_room(owner->items, owner->count, owner->capacity): the usual spelling. */
#define base_array_room(items, count, capacity)                                                              \
    base_array_reserve((void **)&(items), &(capacity), (count), sizeof *(items))

/* Makes it `wanted` items at least, of which the new ones are zero. False when memory ran out: as before. */
bool base_array_grow_zeroed(void **items, size_t *count, size_t wanted, size_t size);

/* base_array_extend(owner->items, owner->count, wanted): the usual spelling; the count is a size_t. */
#define base_array_extend(items, count, wanted)                                                              \
    base_array_grow_zeroed((void **)&(items), &(count), (wanted), sizeof *(items))

#endif
