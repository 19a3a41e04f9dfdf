/* Memory for hooks' code, within reach of the objects that they are in. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base_array.h"
#include "loader_inside.h"
#include "proc_commit.h"

#define REACH      0x7fff0000ull /* of a 32-bit displacement, with room for the ends */
#define SIZE_LEAST 65536ull

static bool slab_reaches(uint64_t low, uint64_t high, const struct loader_slab *slab)
{
    uint64_t least = low < slab->address ? low : slab->address, end = slab->address + slab->size;
    return (high > end ? high : end) - least < REACH;
}

static struct loader_slab_head *head_of(const struct loader_slab *slab)
{
    return (struct loader_slab_head *)slab->slots;
}

/* What the code must reach: all of the object, since moved instructions may address its data; but at least
 * its text. */
static void reach_of(const struct loader_object *object, bool all, uint64_t *low, uint64_t *high)
{
    *low = all ? object->bias + object->file->low : object->start;
    *high = all ? object->bias + object->file->high : object->end;
}

static bool has_slot_for(const struct loader_slab *slab, const struct loader_object *object)
{
    uint64_t low, high;
    reach_of(object, true, &low, &high);
    bool all = slab_reaches(low, high, slab);
    reach_of(object, false, &low, &high);
    return (all || slab_reaches(low, high, slab)) &&
           head_of(slab)->used < slab->size / sizeof(struct loader_x86_64_wrap);
}

void loader_slab_release(struct loader_slab *slab)
{
    if (slab == NULL || --slab->owners)
        return;
    if (slab->slots != NULL)
        munmap(slab->slots, slab->size);
    if (slab->file >= 0)
        close(slab->file);
    free(slab);
}

static int map_slab_here(struct loader_slab *slab, struct base_error *error)
{
    void *place = mmap(NULL, slab->size, PROT_READ | PROT_WRITE, MAP_SHARED, slab->file, 0);
    if (place == MAP_FAILED)
        return base_fail(error, BASE_ENOMEM, "memory for hooks cannot be mapped");
    slab->slots = place;
    int result = proc_commit_pages(slab->file, 0, slab->size, error); /* few pages, so always */
    if (result < 0)
        return result;
    *head_of(slab) = (struct loader_slab_head){.magic = LOADER_SLAB,
                                               .version = LOADER_VERSION,
                                               .used = 1,
                                               .address = slab->address,
                                               .size = slab->size};
    return BASE_OK;
}

/* Near all of the object, or at least near its text. */
static int map_slab_there(struct loader_access *access, const struct loader_object *object,
                          struct loader_slab *slab, struct base_error *error)
{
    struct helper_room room = {.size = slab->size, .protection = PROT_READ | PROT_EXEC, .name = LOADER_NAME};
    reach_of(object, true, &room.low, &room.high);
    int result = helper_trace_share(access->helper, access->trace, &room, &slab->address, &slab->file, NULL);
    if (result != BASE_ENOTFOUND)
        return result == BASE_OK ? result : base_fail(error, result, "%s: no memory for hooks", object->path);
    reach_of(object, false, &room.low, &room.high);
    return helper_trace_share(access->helper, access->trace, &room, &slab->address, &slab->file, error);
}

static int add_slab(struct loader_agent *agent, struct loader_access *access,
                    const struct loader_object *object, size_t wanted, struct base_error *error)
{
    struct loader_slab *slab = calloc(1, sizeof *slab);
    uint64_t size = (wanted + 1) * sizeof(struct loader_x86_64_wrap);
    if (slab == NULL || !base_array_room(agent->slabs, agent->slab_count, agent->slab_capacity)) {
        free(slab);
        return base_fail(error, BASE_ENOMEM, "out of memory");
    }
    size = size < SIZE_LEAST ? SIZE_LEAST : (size + LOADER_PAGE - 1) & ~(LOADER_PAGE - 1ull);
    *slab = (struct loader_slab){.owners = 1, .file = -1, .size = size};
    int result = map_slab_there(access, object, slab, error);
    if (result == BASE_OK && (result = map_slab_here(slab, error)) < 0)
        helper_trace_unmap(access->helper, access->trace, slab->address, slab->size, NULL);
    if (result < 0) {
        loader_slab_release(slab);
        return result;
    }
    agent->slabs[agent->slab_count++] = slab;
    return BASE_OK;
}

int loader_slot_take(struct loader_agent *agent, struct loader_access *access,
                     const struct loader_object *object, size_t wanted, struct loader_slot *slot,
                     struct base_error *error)
{
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < agent->slab_count; i++) {
            if (!has_slot_for(agent->slabs[i], object))
                continue;
            *slot = (struct loader_slot){agent->slabs[i], head_of(agent->slabs[i])->used++};
            return BASE_OK;
        }
        if (!access->held) /* memory is mapped by injected calls */
            return 1;
        int result = round ? BASE_EIO : add_slab(agent, access, object, wanted, error);
        if (result < 0)
            return result;
    }
    return base_fail(error, BASE_EIO, "%s: memory for hooks is not where it was to be", object->path);
}

static bool is_thread_in_slab(const struct trace_stop_thread *thread, const struct loader_slab *slab)
{
    return thread->state != TRACE_STOP_GONE && thread->pc - slab->address < slab->size;
}

void loader_unmap_slabs(struct loader_agent *agent, struct loader_access *access)
{
    struct trace_stop_thread *threads;
    size_t count;
    if (helper_trace_threads(access->helper, access->trace, &threads, &count, NULL) < 0)
        return;
    for (size_t i = 0; i < agent->slab_count; i++) {
        const struct loader_slab *slab = agent->slabs[i];
        bool used = false;
        for (size_t j = 0; j < count && !used; j++)
            used = is_thread_in_slab(&threads[j], slab);
        if (!used)
            helper_trace_unmap(access->helper, access->trace, slab->address, slab->size, NULL);
    }
    free(threads);
}
