/* heap_sites_plugin - loaded by heap_sites, allocates. */
#include <stdlib.h>

void *heap_sites_plugin_allocate(size_t size);

__attribute__((noinline)) void *heap_sites_plugin_allocate(size_t size)
{
    void *volatile block = malloc(size);
    return block;
}
