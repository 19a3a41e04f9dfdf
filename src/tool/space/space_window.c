#include "space_window.h"

#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "proc_maps.h"
#include "space_memory.h"

#define PAGE        4096ull
#define ALIGN       64ull
#define HOOK_BYTES  256ull /* at most, with what alignment costs */
#define FORMS       3      /* slabs of an object that may come to lie there */
#define LOWEST      0x10000ull
#define HIGHEST     (1ull << 47)
#define STACK_GROWS (128ull << 20) /* below the stack nothing of ours may lie */
#define TOPS        256

/* Hooks with the same highest byte, and where code that serves all of them may begin. */
struct group {
    uint64_t low, high, hooks;
};

static uint64_t align_value(uint64_t value, uint64_t to)
{
    return (value + to - 1) / to * to;
}

static uint64_t bytes_for(uint64_t hooks)
{
    return align_value(FORMS * (hooks * HOOK_BYTES + ALIGN), PAGE);
}

/* The first free range of `size` bytes in low..high; 0: there is none. */
static uint64_t find_free(const struct proc_maps *maps, uint64_t low, uint64_t high, uint64_t size)
{
    uint64_t at = align_value(low < LOWEST ? LOWEST : low, PAGE);
    for (size_t i = 0; i < maps->count; i++) {
        const struct proc_mapping *mapping = &maps->items[i];
        bool stack = !strcmp(mapping->path, "[stack]");
        uint64_t start =
            stack && mapping->start > STACK_GROWS ? mapping->start - STACK_GROWS : mapping->start;
        if (at + size <= start)
            break;
        if (mapping->end > at)
            at = mapping->end;
    }
    return at + size <= high && at + size <= HIGHEST ? at : 0;
}

/* No room, or none that can be had: no error. */
static int map_group(struct space *space, struct space_session *session, struct space_object *object,
                     const struct group *group, struct base_error *error)
{
    struct proc_maps maps = {0};
    struct helper_room room = {.size = bytes_for(group->hooks)};
    int result = proc_maps_read(space->pid, &maps, error);
    if (result < 0)
        return result;
    room.low = find_free(&maps, group->low, group->high, room.size);
    proc_maps_free(&maps);
    if (!room.low)
        return BASE_OK;
    if (!base_array_room(space->windows, space->window_count, space->window_capacity))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    struct space_code **code = &space->windows[space->window_count];
    if (space_memory_code(session, space->pid, room, code, NULL) < 0)
        return BASE_OK;
    if (space_memory_commit_code(space, *code, 0, room.size, NULL) < 0)
        (*code)->used = (*code)->size; /* mapped, and none of it is used */
    space->window_count++;
    object->window_count++;
    return BASE_OK;
}

/* Makes the group serve this window too; false: it cannot. */
static bool join_group(struct group *group, uint64_t low, uint64_t high)
{
    uint64_t both_low = group->hooks && group->low > low ? group->low : low;
    uint64_t both_high = group->hooks && group->high < high ? group->high : high;
    if (both_low > both_high || both_high - both_low < bytes_for(group->hooks + 1) + PAGE)
        return false;
    *group = (struct group){both_low, both_high, group->hooks + 1};
    return true;
}

static bool is_wanted_hook(const struct space_object *object, uint32_t hook)
{
    return !object->wanted || object->wanted[object->planned->plan.header->site_count + hook];
}

static int add_hook(struct space *space, struct space_session *session, struct space_object *object,
                    uint32_t hook, struct group *groups, struct base_error *error)
{
    uint64_t low, high;
    const struct plan *plan = &object->planned->plan;
    if (!is_wanted_hook(object, hook) || !slab_hook_window(plan, hook, object->bias, &low, &high))
        return BASE_OK;
    struct group *group = &groups[(low - plan->hooks[hook].address - object->bias) >> 24 & (TOPS - 1)];
    if (join_group(group, low, high))
        return BASE_OK;
    int result = group->hooks ? map_group(space, session, object, group, error) : BASE_OK;
    *group = (struct group){0};
    join_group(group, low, high);
    return result;
}

bool space_window_needed(const struct space_object *object)
{
    const struct plan *plan = &object->planned->plan;
    uint64_t low, high;
    for (uint32_t i = 0; i < plan->header->hook_count; i++)
        if (is_wanted_hook(object, i) && slab_hook_window(plan, i, object->bias, &low, &high))
            return true;
    return false;
}

int space_window_place(struct space *space, struct space_session *session, struct space_object *object,
                       struct base_error *error)
{
    struct group groups[TOPS] = {0};
    int result = BASE_OK;
    object->first_window = space->window_count;
    object->window_count = 0;
    for (uint32_t i = 0; i < object->planned->plan.header->hook_count && result == BASE_OK; i++)
        result = add_hook(space, session, object, i, groups, error);
    for (size_t i = 0; i < TOPS && result == BASE_OK; i++)
        if (groups[i].hooks)
            result = map_group(space, session, object, &groups[i], error);
    return result;
}

void space_window_regions(const struct space *space, const struct space_object *object,
                          struct slab_region *regions)
{
    for (size_t i = 0; i < object->window_count; i++) {
        const struct space_code *code = space->windows[object->first_window + i];
        uint64_t used = align_value(code->used, ALIGN);
        if (used > code->size)
            used = code->size;
        regions[i] = (struct slab_region){
            .address = code->address + used, .bytes = code->bytes + used, .size = code->size - used};
    }
}

void space_window_use(struct space *space, const struct space_object *object,
                      const struct slab_region *regions)
{
    for (size_t i = 0; i < object->window_count; i++) {
        struct space_code *code = space->windows[object->first_window + i];
        code->used = regions[i].address + regions[i].used - code->address;
    }
}
