/* Memory for a slab's lists. */
#include <stdlib.h>
#include <sys/mman.h>

#include "slab_inside.h"

#define LARGE_PAGE (2u << 20)

/* Fresh memory of a large image's lists comes in large pages, if there are any: a fault for each small one
 * would take longer than what is written there. */
static void *in_large_pages(void *memory, size_t size)
{
    uintptr_t from = ((uintptr_t)memory + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    uintptr_t to = ((uintptr_t)memory + size) / LARGE_PAGE * LARGE_PAGE;
    if (memory != NULL && from < to)
        madvise((void *)from, to - from, MADV_HUGEPAGE);
    return memory;
}

void *slab_memory_list(size_t count, size_t size)
{
    return in_large_pages(malloc((count + 1) * size), (count + 1) * size);
}

void *slab_memory_zeroed(size_t count, size_t size)
{
    return in_large_pages(calloc(count + 1, size), (count + 1) * size);
}
