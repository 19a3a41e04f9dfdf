#include "heap_rig.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

struct agent_rig heap_rig;
malloc_function *heap_hooked_malloc;
calloc_function *heap_hooked_calloc;
realloc_function *heap_hooked_realloc;
reallocarray_function *heap_hooked_reallocarray;
free_function *heap_hooked_free;
aligned_function *heap_hooked_aligned;
posix_function *heap_hooked_posix;

/* Bodies that fail by themselves, since a sanitizer's allocator ends the program instead. */
static void *limited_realloc(void *block, size_t size)
{
    if (size < SIZE_MAX / 8)
        return size == 0 ? (free(block), NULL) : realloc(block, size);
    errno = ENOMEM;
    return NULL;
}

static void *limited_reallocarray(void *block, size_t count, size_t size)
{
    return limited_realloc(block, count > SIZE_MAX / 16 / size ? SIZE_MAX : count * size);
}

static int limited_memalign(void **result, size_t alignment, size_t size)
{
    return alignment < sizeof(void *) ? EINVAL : posix_memalign(result, alignment, size);
}

void heap_begin(const struct agent_rig_options *options)
{
    agent_rig_begin(&heap_rig, options);
    heap_hooked_malloc = (malloc_function *)agent_rig_hook(&heap_rig, "agent_entry_malloc", (void *)malloc);
    heap_hooked_calloc = (calloc_function *)agent_rig_hook(&heap_rig, "agent_entry_calloc", (void *)calloc);
    heap_hooked_realloc =
        (realloc_function *)agent_rig_hook(&heap_rig, "agent_entry_realloc", (void *)limited_realloc);
    heap_hooked_reallocarray = (reallocarray_function *)agent_rig_hook(&heap_rig, "agent_entry_reallocarray",
                                                                       (void *)limited_reallocarray);
    heap_hooked_free = (free_function *)agent_rig_hook(&heap_rig, "agent_entry_free", (void *)free);
    heap_hooked_aligned =
        (aligned_function *)agent_rig_hook(&heap_rig, "agent_entry_aligned", (void *)memalign);
    heap_hooked_posix =
        (posix_function *)agent_rig_hook(&heap_rig, "agent_entry_posix_memalign", (void *)limited_memalign);
}

int heap_set_up(void **state)
{
    (void)state;
    heap_begin(&(struct agent_rig_options){0});
    return 0;
}

int heap_tear_down(void **state)
{
    (void)state;
    agent_rig_end(&heap_rig);
    return 0;
}

struct agent_rig_figures heap_all(void)
{
    return agent_rig_read(&heap_rig, heap_rig.process, 0, 0);
}

uint64_t heap_loss(enum wire_agent_loss number)
{
    return heap_rig.process->losses[number];
}

/* Three places that allocate. */
AWAY void *heap_site_0(size_t size)
{
    void *volatile block = heap_hooked_malloc(size);
    return block;
}
AWAY void *heap_site_1(size_t size)
{
    void *volatile block = heap_hooked_malloc(size);
    return block;
}
AWAY void *heap_site_2(size_t size)
{
    void *volatile block = heap_hooked_malloc(size);
    return block;
}
malloc_function *const heap_sites[SITES] = {heap_site_0, heap_site_1, heap_site_2};
