/* What linkage slots lead to: as read from the target, and past the hooks that patches put there. */
#include "space_slots.h"

#include <stdlib.h>
#include <string.h>

#include "proc_target.h"

#define SLOTS_APART (64u << 10) /* bytes; slots nearer than that are read together */

static void read_run(struct space *space, struct space_object *object, size_t from, size_t to)
{
    const uint64_t *slots = object->planned->slots;
    size_t size = (size_t)(slots[to - 1] + 8 - slots[from]);
    uint8_t *bytes = malloc(size);
    if (!bytes)
        return;
    if (proc_target_read(space->pid, slots[from] + object->bias, bytes, size) == size)
        for (size_t i = from; i < to; i++)
            memcpy(&object->slots[i], bytes + (slots[i] - slots[from]), sizeof object->slots[i]);
    free(bytes);
}

void space_slots_read(struct space *space)
{
    for (size_t i = 0; i < space->object_count; i++) {
        struct space_object *object = &space->objects[i];
        const struct space_image *image = object->planned;
        for (size_t from = 0, to; object->live && from < image->slot_count; from = to) {
            for (to = from + 1;
                 to < image->slot_count && image->slots[to] - image->slots[to - 1] < SLOTS_APART;)
                to++;
            read_run(space, object, from, to);
        }
    }
}

/* Thousands of sites go through a few hundred slots, which lie side by side. */
static uint64_t answer_once(struct space_slots_resolution *resolution, uint64_t slot, slab_resolve *resolve)
{
    struct space_slots_answer *answer = &resolution->answers[slot / sizeof slot % SPACE_SLOTS_ANSWERS];
    if (answer->slot != slot)
        *answer = (struct space_slots_answer){slot, resolve(resolution, slot)};
    return answer->end;
}

/* Where the patch that will be in force has moved the function at `address` to; the address itself when it
 * has not. */
static uint64_t past_hook(const struct space *space, uint64_t address)
{
    const struct space_object *object = space_object(space, address);
    const struct space_patch *patch = object ? object->next ? object->next : object->patch : NULL;
    if (!patch)
        return address;
    const struct plan *plan = &object->planned->plan;
    uint32_t function = plan_function_at(plan, address - object->bias);
    uint32_t hook = function == PLAN_NONE ? PLAN_NONE : plan->functions[function].hook;
    bool hooked =
        hook != PLAN_NONE && patch->slab.entries[hook] && plan->hooks[hook].address == address - object->bias;
    return hooked ? patch->slab.hooks[hook].body : address;
}

/* What ld.so has bound the slot to; 0: nothing yet. Looks at nothing that is made beside this object's slab,
 * so that stubs know their length while other objects' hooks have no places. */
static uint64_t value_of_slot(void *context, uint64_t slot)
{
    const struct space_slots_resolution *resolution = context;
    const struct space_object *object = resolution->object;
    size_t at = space_image_slot(object->planned, slot);
    uint64_t value = at == SIZE_MAX ? 0 : object->slots[at];
    uint64_t inside = value - object->bias;
    if (!value || (inside >= object->planned->linkage_low && inside < object->planned->linkage_high) ||
        !space_mapping(resolution->space, value))
        return 0;
    return value;
}

static uint64_t resolve_slot(void *context, uint64_t slot)
{
    const struct space_slots_resolution *resolution = context;
    uint64_t value = value_of_slot(context, slot);
    if (!value || space_object(resolution->space, value) == resolution->object)
        return value;
    return past_hook(resolution->space, value);
}

uint64_t space_slots_bound(void *context, uint64_t slot)
{
    return answer_once(context, slot, value_of_slot);
}

uint64_t space_slots_resolve(void *context, uint64_t slot)
{
    return answer_once(context, slot, resolve_slot);
}

bool space_slots_mark_bound(struct space *space)
{
    bool found = false;
    for (size_t i = 0; i < space->object_count; i++) {
        struct space_object *object = &space->objects[i];
        const struct slab *slab = object->live && object->patch ? &object->patch->slab : NULL;
        struct space_slots_resolution resolution = {space, object, NULL};
        for (size_t j = 0; slab && !object->stale && j < slab->by_slot_count; j++) {
            uint64_t slot = slab->plan->sites[slab->by_slot[j]].slot;
            size_t at =
                object->patch->past[slab->by_slot[j]] ? SIZE_MAX : space_image_slot(object->planned, slot);
            uint64_t end = at == SIZE_MAX ? 0 : resolve_slot(&resolution, slot);
            object->stale = end && past_hook(space, object->slots[at]) != object->slots[at];
        }
        found |= object->stale;
    }
    return found;
}
