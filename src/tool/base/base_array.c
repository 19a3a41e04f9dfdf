#include "base_array.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

bool base_array_reserve(void **items, size_t *capacity, size_t count, size_t size)
{
    if (count < *capacity)
        return true;
    size_t wanted = *capacity ? *capacity * 2 : 16;
    if (wanted <= count)
        wanted = count + 1;
    if (wanted > SIZE_MAX / size)
        return false;
    void *grown = realloc(*items, wanted * size);
    if (!grown)
        return false;
    *items = grown;
    *capacity = wanted;
    return true;
}

bool base_array_grow_zeroed(void **items, size_t *count, size_t wanted, size_t size)
{
    if (wanted <= *count)
        return true;
    char *more = wanted > SIZE_MAX / size ? NULL : realloc(*items, wanted * size);
    if (!more)
        return false;
    memset(more + *count * size, 0, (wanted - *count) * size);
    *items = more;
    *count = wanted;
    return true;
}
