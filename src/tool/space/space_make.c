/* The slabs of all objects that need one, side by side on several processors when there is much to do. First
 * each is made as if other objects had no hooks, so that all hooks get their places; then stubs are bound
 * past them. */
#include "space_make.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base_pool.h"
#include "space_place.h"
#include "space_prepared.h"
#include "space_slots.h"
#include "space_window.h"

#define PAGE          4096ull
#define STUB_LEAST    12   /* bytes: few are shorter */
#define WORTH_THREADS 4000 /* sites: to make their stubs takes longer than to begin a thread */

/* For readers of counters: such a call is not counted by the callee's hook. */
static int list_past(struct space_patch *patch, struct space_slots_resolution *resolution,
                     struct base_error *error)
{
    const struct plan *plan = patch->slab.plan;
    patch->past = calloc(plan->header->site_count + 1u, 1);
    if (!patch->past)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    for (size_t i = 0; i < patch->slab.by_slot_count; i++) {
        uint32_t site = patch->slab.by_slot[i];
        patch->past[site] = space_slots_resolve(resolution, plan->sites[site].slot) != 0;
    }
    return BASE_OK;
}

/* Other slabs have been made, so that it is known where they have put functions. */
static void bind_slab(struct space_patch *patch, struct space_slots_resolution *resolution)
{
    patch->slab.resolve = space_slots_resolve;
    patch->slab.context = resolution;
    slab_stub_bind(&patch->slab);
    patch->slab.resolve = NULL;
    patch->slab.context = NULL;
}

/* In the room that was taken for it, of the largest size that it may have. */
static int begin_patch(struct space *space, struct space_object *object, struct base_error *error)
{
    const struct space_arena *arena = &space->arenas[object->arena];
    struct space_patch *patch = calloc(1, sizeof *patch);
    object->next = patch;
    if (patch)
        patch->owners = 1;
    if (!patch || !(patch->regions = calloc(1 + object->window_count, sizeof *patch->regions)))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    if (!space_place_take_room(space, object))
        return base_fail(error, BASE_EUNSUPPORTED, "the memory for stubs is full");
    patch->regions[0] = (struct slab_region){.address = object->room->address + object->room_at,
                                             .bytes = object->room->bytes + object->room_at,
                                             .size = object->planned->slab_size};
    patch->slab = (struct slab){
        .plan = &object->planned->plan,
        .wanted = object->wanted,
        .quiet = object->planned->quiet,
        .bias = object->bias,
        .counter = {space->form, arena->block.address, (uint32_t)space->gs_offset, object->base},
        .regions = patch->regions,
        .region_count = 1 + object->window_count};
    space_window_regions(space, object, patch->regions + 1);
    return BASE_OK;
}

/* What was not needed is given back if no other room is behind it. */
static void end_patch(struct space *space, struct space_object *object)
{
    struct space_code *code = object->room;
    const struct slab_region *region = &object->next->regions[0];
    if (region->address + region->size == code->address + code->used)
        code->used -= region->size - region->used;
    object->room = NULL;
    space_window_use(space, object, object->next->regions + 1);
}

void space_make_forget(struct space *space)
{
    for (size_t i = 0; i < space->object_count; i++) {
        space_patch_release(space->objects[i].next);
        space->objects[i].next = NULL;
    }
}

struct making {
    struct space *space;
    struct space_object *object;
    struct base_error why;
    int result;
};

struct makings {
    struct making *items;
    size_t count;
    uint64_t sites;
};

/* Pages that stubs of all sites are certain to fill are populated at once, without a fault for each. */
static void populate_pages(const struct space_patch *patch)
{
    size_t least = (size_t)STUB_LEAST * patch->slab.plan->header->site_count;
    uintptr_t from = ((uintptr_t)patch->regions[0].bytes + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
    if (least > PAGE && least < patch->regions[0].size)
        madvise((void *)from, least & ~(size_t)(PAGE - 1), MADV_POPULATE_WRITE);
}

static void make_slab(void *context, size_t number)
{
    struct making *making = &((struct makings *)context)->items[number];
    struct slab *slab = &making->object->next->slab;
    struct space_slots_answer answers[SPACE_SLOTS_ANSWERS] = {0};
    struct space_slots_resolution resolution = {making->space, making->object, answers};
    if (!making->object->planned->wanted)
        populate_pages(making->object->next);
    slab->resolve = space_slots_bound;
    slab->context = &resolution;
    slab->guesses = making->object->guesses;
    slab->guess_count = making->object->guess_count;
    if (slab->guess_count ||
        !space_prepared_place(making->object, making->space->launched && !making->object->patch))
        making->result = slab_make(slab, &making->why);
    slab->resolve = NULL;
    slab->context = NULL;
    slab->guesses = NULL;
    slab->guess_count = 0;
}

static void bind_one(void *context, size_t number)
{
    struct making *making = &((struct makings *)context)->items[number];
    struct space_slots_answer answers[SPACE_SLOTS_ANSWERS] = {0};
    struct space_slots_resolution resolution = {making->space, making->object, answers};
    bind_slab(making->object->next, &resolution);
    making->result = list_past(making->object->next, &resolution, &making->why);
}

/* On several processors when there is much to do. BASE_OK, or the first failure. */
static int run_jobs(struct makings *makings, base_pool_job *job, struct base_error *error)
{
    if (makings->sites >= WORTH_THREADS)
        base_pool(makings->count, job, makings);
    else
        for (size_t i = 0; i < makings->count; i++)
            job(makings, i);
    for (size_t i = 0; i < makings->count; i++)
        if (makings->items[i].result < 0)
            return base_fail(error, makings->items[i].result, "%s", makings->items[i].why.text);
    return BASE_OK;
}

/* The largest first: the others fit in while it is made. */
static int by_sites(const void *a, const void *b)
{
    const struct making *left = a, *right = b;
    uint32_t x = left->object->planned->plan.header->site_count;
    uint32_t y = right->object->planned->plan.header->site_count;
    return (x < y) - (x > y);
}

static int begin_patches(struct space *space, bool all, struct makings *makings, struct base_error *error)
{
    int result = BASE_OK;
    for (size_t i = 0; i < space->object_count && result == BASE_OK; i++) {
        struct space_object *object = &space->objects[i];
        if (!space_place_needs_patch(object, all))
            continue;
        result = begin_patch(space, object, error);
        makings->items[makings->count++] = (struct making){.space = space, .object = object};
        makings->sites += object->planned->plan.header->site_count;
    }
    return result;
}

/* Where hooks lie must be known before other objects' stubs can go past them. */
static int make_slabs(struct makings *makings, struct base_error *error)
{
    if (makings->sites >= WORTH_THREADS)
        qsort(makings->items, makings->count, sizeof *makings->items, by_sites);
    int result = run_jobs(makings, make_slab, error);
    for (size_t i = makings->count; i-- > 0 && result == BASE_OK;)
        end_patch(makings->items[i].space, makings->items[i].object);
    return result < 0 ? result : run_jobs(makings, bind_one, error);
}

int space_make(struct space *space, bool all, struct base_error *error)
{
    struct makings makings = {.items = calloc(space->object_count + 1, sizeof *makings.items)};
    if (!makings.items)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    space_slots_read(space);
    int result = begin_patches(space, all, &makings, error);
    if (result == BASE_OK)
        result = make_slabs(&makings, error);
    free(makings.items);
    if (result < 0)
        space_make_forget(space);
    return result;
}
