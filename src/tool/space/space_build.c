#include "space_build.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base_array.h"
#include "base_pool.h"
#include "proc_maps.h"
#include "proc_target.h"
#include "space_prepared.h"
#include "space_text.h"
#include "space_window.h"
#include "trace_frames.h"
#include "wire_loss.h"

#define REACH            (0x7fffffffull - (128ull << 20)) /* of a 32-bit displacement, with room for the ends */
#define CODE_LEAST       (4ull << 20)
#define CODE_FORMS       8 /* so many slabs of each object an arena has room for, */
#define CODE_FORMS_LARGE 2 /* and so many when they are large: what more they need is mapped then */
#define CODE_LARGE       (8ull << 20)
#define PAGE             4096ull
#define STUB_LEAST       12 /* bytes: few are shorter */
#define CODE_ALIGN       64ull
#define STEP_ROUNDS      4
#define WORTH_THREADS    4000        /* sites: to make their stubs takes longer than to begin a thread */
#define LOOK_ROUNDS      4           /* of text that differs */
#define NEAR_BITS        24          /* of an address: see place_patch */
#define ANSWERS          1024        /* what slots lead to, kept at a time */
#define SLOTS_APART      (64u << 10) /* bytes; slots nearer than that are read together */

static uint64_t aligned(uint64_t value, uint64_t to)
{
    return (value + to - 1) / to * to;
}

/* --- place --- */

static bool reaches(uint64_t low, uint64_t high, uint64_t start, uint64_t end)
{
    uint64_t least = low < start ? low : start, most = high > end ? high : end;
    return most - least < REACH;
}

static bool serves(const struct space_arena *arena, const struct space_object *object)
{
    const struct space_code *code = arena->code;
    return reaches(object->low, object->high, code->address, code->address + code->size) &&
           reaches(object->low, object->high, arena->block.address, arena->block.address + SLAB_BLOCK_SIZE) &&
           code->top - code->used >= object->planned->slab_size + CODE_ALIGN;
}

static uint64_t slab_room(const struct space_object *object)
{
    return object->planned->slab_size + CODE_ALIGN;
}

/* Bytes of code for `object` and for those near it that have no place either. */
static uint64_t code_wanted(const struct space *space, const struct space_object *object)
{
    uint64_t size = 0;
    for (size_t i = 0; i < space->object_count; i++) {
        const struct space_object *other = &space->objects[i];
        if (other->live && !other->placed && !other->refused &&
            reaches(object->low, object->high, other->low, other->high))
            size += slab_room(other);
    }
    return aligned(CODE_LEAST + size * (size > CODE_LARGE ? CODE_FORMS_LARGE : CODE_FORMS), PAGE);
}

/* Memory near low..high. Its counters are begun when the first object needs them. */
static int add_arena(struct space *space, struct space_rig *rig, uint64_t low, uint64_t high, uint64_t size,
                     struct base_error *error)
{
    struct space_arena arena = {0};
    struct space_memory memory;
    struct helper_room room = {
        .low = low, .high = high, .size = size, .data = SPACE_ARENA_DATA, .data_first = true};
    if (!base_array_room(space->arenas, space->arena_count, space->arena_capacity))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    int result = space_both(space, rig, room, &arena.code, &memory, error);
    if (result < 0)
        return result;
    arena.block =
        (struct slab_block){.file = memory.file, .offset = memory.offset, .address = memory.address};
    space->arenas[space->arena_count++] = arena;
    return result;
}

/* What all would like, or what this object needs where there is no room for more. */
static int add_arena_for(struct space *space, struct space_rig *rig, const struct space_object *object,
                         struct base_error *error)
{
    int result = add_arena(space, rig, object->low, object->high, code_wanted(space, object), NULL);
    return result == BASE_OK
               ? result
               : add_arena(space, rig, object->low, object->high, aligned(slab_room(object), PAGE), error);
}

static size_t find_arena(const struct space *space, const struct space_object *object)
{
    for (size_t i = 0; i < space->arena_count; i++)
        if (serves(&space->arenas[i], object))
            return i;
    return SIZE_MAX;
}

/* --- room for the next patch --- */

/* Where in the code a patch of `size` bytes goes; UINT64_MAX: it is full. On Zen 5 a taken branch costs a
 * cycle more when its target's address differs from its own above the low 24 bits. Counting takes two
 * branches more, to the stub and back: a loop that calls one function took 1.50 times as long with them, and
 * 1.00 to 1.02 times in the same 16 MiB, wherever the counter lay. So a patch goes to that end of the code,
 * if any, that has it in the same 16 MiB as the text. */
static uint64_t place_patch(struct space_code *code, const struct space_object *object, uint64_t size)
{
    uint64_t used = aligned(code->used, CODE_ALIGN);
    if (size > code->top || used > code->top - size)
        return UINT64_MAX;
    uint64_t high = (code->top - size) / CODE_ALIGN * CODE_ALIGN;
    bool near_low = (code->address + used) >> NEAR_BITS == object->low >> NEAR_BITS;
    if (!near_low && high >= used && (code->address + high) >> NEAR_BITS == object->low >> NEAR_BITS)
        return code->top = high;
    code->used = used + size;
    return used;
}

/* Spare code must reach the text, and the counters of the object's arena. */
static bool spare_serves(const struct space *space, const struct space_code *code,
                         const struct space_object *object)
{
    const struct slab_block *block = &space->arenas[object->arena].block;
    uint64_t end = code->address + code->size;
    return code->spare && reaches(object->low, object->high, code->address, end) &&
           reaches(block->address, block->address + SLAB_BLOCK_SIZE, code->address, end);
}

static bool take_room_in(const struct space *space, struct space_object *object, struct space_code *code)
{
    uint64_t size = object->planned->slab_size, at = place_patch(code, object, size);
    if (at == UINT64_MAX || space_commit_code(space, code, at, size, NULL) < 0)
        return false;
    object->room = code;
    object->room_at = at;
    return true;
}

/* False: all that is mapped is full. */
static bool take_room(struct space *space, struct space_object *object)
{
    bool taken = object->room || take_room_in(space, object, space->arenas[object->arena].code);
    for (size_t i = 0; i < space->window_count && !taken; i++)
        taken =
            spare_serves(space, space->windows[i], object) && take_room_in(space, object, space->windows[i]);
    return taken;
}

static bool needs_patch(const struct space_object *object, bool all)
{
    return object->live && object->placed && !object->refused && !object->next &&
           (all || object->stale || !object->patch);
}

static int add_spare(struct space *space, struct space_rig *rig, const struct space_object *object,
                     uint64_t size, struct base_error *error)
{
    const struct slab_block *block = &space->arenas[object->arena].block;
    uint64_t block_end = block->address + SLAB_BLOCK_SIZE;
    struct helper_room room = {.low = object->low < block->address ? object->low : block->address,
                               .high = object->high > block_end ? object->high : block_end,
                               .size = aligned(size, PAGE)};
    if (!base_array_room(space->windows, space->window_count, space->window_capacity))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    int result = space_code(rig, space->pid, room, &space->windows[space->window_count], error);
    if (result == BASE_OK)
        space->windows[space->window_count++]->spare = true;
    return result;
}

/* For this object and all others of its arena that have no room either. */
static int grow(struct space *space, struct space_rig *rig, const struct space_object *object, bool all,
                struct base_error *error)
{
    uint64_t size = CODE_LEAST;
    for (size_t i = 0; i < space->object_count; i++) {
        const struct space_object *other = &space->objects[i];
        if (needs_patch(other, all) && !other->room && other->arena == object->arena)
            size += slab_room(other);
    }
    int result = add_spare(space, rig, object, size, NULL);
    return result == BASE_OK ? result : add_spare(space, rig, object, slab_room(object), error);
}

/* Is the process still there? What cannot be mapped in it is then for want of room. */
static bool is_there(const struct space *space)
{
    struct proc_maps maps = {0};
    bool there = proc_maps_read(space->pid, &maps, NULL) == BASE_OK && maps.count;
    proc_maps_free(&maps);
    return there;
}

/* It costs this image, and no other: told once, and not tried again. */
static void refuse_object(struct space_rig *rig, struct space_object *object)
{
    object->refused = true;
    profile_lose(rig->profile, WIRE_LOSS_NOT_PLANNED, 1);
}

/* What `result` means for an object that has no room. One that is counted already stays as it is, unless it
 * must be led to another form. */
static int without_room(struct space *space, struct space_rig *rig, struct space_object *object, bool all,
                        int result)
{
    if (result == BASE_OK || (all && object->patch) || !is_there(space))
        return result;
    if (object->patch)
        object->stale = false;
    else
        refuse_object(rig, object);
    return BASE_OK;
}

static int give_room(struct space *space, struct space_rig *rig, struct space_object *object, bool all,
                     struct base_error *error)
{
    if (take_room(space, object))
        return BASE_OK;
    int result = grow(space, rig, object, all, error);
    if (result == BASE_OK && !take_room(space, object))
        result = base_fail(error, BASE_EUNSUPPORTED, "the memory for stubs is full");
    return without_room(space, rig, object, all, result);
}

static int give_rooms(struct space *space, struct space_rig *rig, bool all, struct base_error *error)
{
    int result = BASE_OK;
    for (size_t i = 0; i < space->object_count && result == BASE_OK; i++)
        if (needs_patch(&space->objects[i], all))
            result = give_room(space, rig, &space->objects[i], all, error);
    return result;
}

static int place_object(struct space *space, struct space_rig *rig, struct space_object *object,
                        struct base_error *error)
{
    size_t arena = object->room ? object->arena : find_arena(space, object);
    int result = BASE_OK;
    if (arena == SIZE_MAX) {
        result = add_arena_for(space, rig, object, error);
        arena = space->arena_count - 1;
    }
    if (result < 0)
        return without_room(space, rig, object, false, result);
    object->arena = (uint32_t)arena;
    struct slab_block *block = &space->arenas[arena].block;
    if (!block->tables) {
        slab_block_expect(block, space_pairs(space));
        result = slab_block_init(block, space_made(space), error);
    }
    if (result < 0)
        return without_room(space, rig, object, false, result);
    result = space_window_place(space, rig, object, error);
    object->placed = result == BASE_OK;
    return result == BASE_OK ? give_room(space, rig, object, false, error) : result;
}

int space_build_place(struct space *space, struct space_rig *rig, struct base_error *error)
{
    int result = BASE_OK;
    for (size_t i = 0; i < space->object_count && result == BASE_OK; i++)
        if (space->objects[i].live && !space->objects[i].placed && !space->objects[i].refused)
            result = place_object(space, rig, &space->objects[i], error);
    return result == BASE_OK ? give_rooms(space, rig, false, error) : result;
}

static bool is_near(const struct space *space, const struct space_mapping *mapping)
{
    bool near = false;
    for (size_t i = 0; i < space->arena_count && !near; i++) {
        const struct space_arena *arena = &space->arenas[i];
        near = reaches(mapping->start, mapping->end, arena->code->address,
                       arena->code->address + arena->code->size) &&
               reaches(mapping->start, mapping->end, arena->block.address,
                       arena->block.address + SLAB_BLOCK_SIZE);
    }
    return near;
}

void space_build_ahead(struct space *space, struct space_rig *rig)
{
    for (size_t i = 0; i < space->mapping_count; i++) {
        const struct space_mapping *mapping = &space->mappings[i];
        bool vdso = !strcmp(rig->images.images->items[mapping->image].path, "[vdso]");
        if (!vdso && !is_near(space, mapping))
            add_arena(space, rig, mapping->start, mapping->end, SPACE_CODE_AHEAD, NULL);
    }
}

/* --- slots --- */

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

void space_build_read_slots(struct space *space)
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

/* What a slot was said to lead to. */
struct answer {
    uint64_t slot, end;
};

struct resolution {
    const struct space *space;
    const struct space_object *object;
    struct answer *answers; /* ANSWERS of them; NULL: none are kept */
};

/* Thousands of sites go through a few hundred slots, which lie side by side. */
static uint64_t ask_once(struct resolution *resolution, uint64_t slot, slab_resolve *ask)
{
    struct answer *answer = &resolution->answers[slot / sizeof slot % ANSWERS];
    if (answer->slot != slot)
        *answer = (struct answer){slot, ask(resolution, slot)};
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
static uint64_t bound(void *context, uint64_t slot)
{
    const struct resolution *resolution = context;
    const struct space_object *object = resolution->object;
    size_t at = space_image_slot(object->planned, slot);
    uint64_t value = at == SIZE_MAX ? 0 : object->slots[at];
    uint64_t inside = value - object->bias;
    if (!value || (inside >= object->planned->linkage_low && inside < object->planned->linkage_high) ||
        !space_mapping(resolution->space, value))
        return 0;
    return value;
}

static uint64_t resolve(void *context, uint64_t slot)
{
    const struct resolution *resolution = context;
    uint64_t value = bound(context, slot);
    if (!value || space_object(resolution->space, value) == resolution->object)
        return value;
    return past_hook(resolution->space, value);
}

static uint64_t bound_once(void *context, uint64_t slot)
{
    return ask_once(context, slot, bound);
}

static uint64_t resolve_once(void *context, uint64_t slot)
{
    return ask_once(context, slot, resolve);
}

/* --- make --- */

/* Told to the reader: such a call is not seen by the callee's hook. */
static int list_past(struct space_patch *patch, struct resolution *resolution, struct base_error *error)
{
    const struct plan *plan = patch->slab.plan;
    patch->past = calloc(plan->header->site_count + 1u, 1);
    if (!patch->past)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    for (size_t i = 0; i < patch->slab.by_slot_count; i++) {
        uint32_t site = patch->slab.by_slot[i];
        patch->past[site] = resolve_once(resolution, plan->sites[site].slot) != 0;
    }
    return BASE_OK;
}

/* Other slabs have been made, so that it is known where they have put functions. */
static void bind_slab(struct space_patch *patch, struct resolution *resolution)
{
    patch->slab.resolve = resolve_once;
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
    if (!take_room(space, object))
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

/* What was not needed is given back if nobody has room behind it. */
static void end_patch(struct space *space, struct space_object *object)
{
    struct space_code *code = object->room;
    const struct slab_region *region = &object->next->regions[0];
    if (region->address + region->size == code->address + code->used)
        code->used -= region->size - region->used;
    object->room = NULL;
    space_window_use(space, object, object->next->regions + 1);
}

static void forget_next(struct space *space)
{
    for (size_t i = 0; i < space->object_count; i++) {
        space_patch_release(space->objects[i].next);
        space->objects[i].next = NULL;
    }
}

/* --- all objects that need one --- */

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

/* Pages that stubs of all sites are certain to fill are had at once, without a fault for each. */
static void take_pages(const struct space_patch *patch)
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
    struct answer answers[ANSWERS] = {0};
    struct resolution resolution = {making->space, making->object, answers};
    if (!making->object->planned->wanted)
        take_pages(making->object->next);
    slab->resolve = bound_once;
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
    struct answer answers[ANSWERS] = {0};
    struct resolution resolution = {making->space, making->object, answers};
    bind_slab(making->object->next, &resolution);
    making->result = list_past(making->object->next, &resolution, &making->why);
}

/* On several processors when there is much to do. BASE_OK, or the first failure. */
static int do_all(struct makings *makings, base_pool_job *job, struct base_error *error)
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

static int begin_all(struct space *space, bool all, struct makings *makings, struct base_error *error)
{
    int result = BASE_OK;
    for (size_t i = 0; i < space->object_count && result == BASE_OK; i++) {
        struct space_object *object = &space->objects[i];
        if (!needs_patch(object, all))
            continue;
        result = begin_patch(space, object, error);
        makings->items[makings->count++] = (struct making){.space = space, .object = object};
        makings->sites += object->planned->plan.header->site_count;
    }
    return result;
}

/* Where hooks lie must be known before other objects' stubs can go past them. */
static int make_all(struct makings *makings, struct base_error *error)
{
    if (makings->sites >= WORTH_THREADS)
        qsort(makings->items, makings->count, sizeof *makings->items, by_sites);
    int result = do_all(makings, make_slab, error);
    for (size_t i = makings->count; i-- > 0 && result == BASE_OK;)
        end_patch(makings->items[i].space, makings->items[i].object);
    return result < 0 ? result : do_all(makings, bind_one, error);
}

int space_build_make(struct space *space, bool all, struct base_error *error)
{
    struct makings makings = {.items = calloc(space->object_count + 1, sizeof *makings.items)};
    if (!makings.items)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    space_build_read_slots(space);
    int result = begin_all(space, all, &makings, error);
    if (result == BASE_OK)
        result = make_all(&makings, error);
    free(makings.items);
    if (result < 0)
        forget_next(space);
    return result;
}

/* --- apply --- */

struct trace_memory_change space_build_change(const struct slab_write *write)
{
    struct trace_memory_change change = {.address = write->address, .length = write->length};
    memcpy(change.before, write->old, sizeof write->old);
    memcpy(change.after, write->fresh, sizeof write->fresh);
    return change;
}

/* Bytes that lie side by side or are written twice: what is in force may begin or end within what is to be,
 * where a function gets a hook whose first bytes hold a site. Such writes become one change. */
struct joined {
    uint64_t address;
    size_t length; /* 0: nothing yet */
    uint8_t before[2 * TRACE_MEMORY_BYTES], after[2 * TRACE_MEMORY_BYTES];
};

/* The first `length` bytes become a change. */
static int publish_joined(struct joined *joined, size_t length, struct trace_stage *stage,
                          struct base_error *error)
{
    struct trace_memory_change change = {.address = joined->address, .length = (uint8_t)length};
    memcpy(change.before, joined->before, length);
    memcpy(change.after, joined->after, length);
    joined->address += length;
    joined->length -= length;
    memmove(joined->before, joined->before + length, joined->length);
    memmove(joined->after, joined->after + length, joined->length);
    return length ? trace_stage_add(stage, &change, error) : BASE_OK;
}

/* Nothing that follows lies before `write`. All threads stand meanwhile, so that a list of changes side by
 * side is as good as one that is too long. */
static int join(struct joined *joined, const struct slab_write *write, bool in_force,
                struct trace_stage *stage, struct base_error *error)
{
    size_t at = write->address - joined->address < joined->length ? (size_t)(write->address - joined->address)
                                                                  : joined->length;
    int result = BASE_OK;
    if (at == joined->length || at + write->length > TRACE_MEMORY_BYTES) {
        result = publish_joined(joined, at, stage, error);
        at = 0;
    }
    if (!joined->length)
        joined->address = write->address;
    for (size_t i = joined->length - at; i < write->length; i++, joined->length++)
        joined->before[at + i] = joined->after[at + i] = write->old[i];
    memcpy((in_force ? joined->before : joined->after) + at, write->fresh, write->length);
    return result;
}

bool space_build_is_lifted(const struct space_object *object, const struct slab_write *write)
{
    for (size_t i = 0; i < object->lifted_count; i++)
        if (object->lifted[i] == write->address)
            return true;
    return false;
}

/* From what is in force to what is to be. Both lists are by address; a place that only one of them has
 * changes from or to what is in the file. */
static int list_changes(const struct space_object *object, struct trace_stage *stage,
                        struct base_error *error)
{
    const struct slab *from = object->patch ? &object->patch->slab : NULL, *to = &object->next->slab;
    size_t i = 0, j = 0, from_count = from ? from->write_count : 0;
    struct joined joined = {0};
    int result = BASE_OK;
    while (result == BASE_OK && (i < from_count || j < to->write_count)) {
        const struct slab_write *old = i < from_count ? &from->writes[i] : NULL;
        const struct slab_write *fresh = j < to->write_count ? &to->writes[j] : NULL;
        bool in_force = old && (!fresh || old->address <= fresh->address);
        if (!in_force || !space_build_is_lifted(object, old))
            result = join(&joined, in_force ? old : fresh, in_force, stage, error);
        *(in_force ? &i : &j) += 1;
    }
    return result == BASE_OK ? publish_joined(&joined, joined.length, stage, error) : result;
}

/* Has the bell been prepared, and does nobody ring it yet? */
static bool is_to_notify(const struct space *space)
{
    return space->doorbell_change.length && !space->doorbell_set;
}

/* Needs no hold, and makes it short. Where objects lie by address, so do their changes. */
static int hand_over(const struct space *space, struct space_rig *rig, struct base_error *error)
{
    struct trace_stage stage = TRACE_STAGE_EMPTY;
    int result = BASE_OK;
    for (size_t i = 0; i < space->object_count && result == BASE_OK; i++)
        if (space->objects[i].next)
            result = list_changes(&space->objects[i], &stage, error);
    if (result == BASE_OK && is_to_notify(space))
        result = trace_stage_add(&stage, &space->doorbell_change, error);
    if (result == BASE_OK)
        result = helper_trace_stage_list(&rig->helper, space->pid, &stage, error);
    trace_stage_free(&stage);
    return result;
}

/* --- threads among the bytes --- */

static void leave_out(struct space_object *object, const struct slab_write *write)
{
    uint32_t sites = object->planned->plan.header->site_count;
    object->wanted[write->site != PLAN_NONE ? write->site : sites + write->hook] = 0;
    object->differing++;
}

static int put_at(struct space *space, struct space_rig *rig, pid_t tid, uint64_t pc)
{
    struct user_regs_struct registers;
    int result = helper_trace_read_registers(&rig->helper, space->pid, tid, &registers, NULL);
    registers.rip = pc;
    return result < 0 ? result
                      : helper_trace_write_registers(&rig->helper, space->pid, tid, &registers, NULL);
}

static int step_out(struct space *space, struct space_rig *rig, pid_t tid, const struct slab_write *write)
{
    struct trace_step_range range = {write->address + 1, write->address + write->length};
    return helper_trace_step_out(&rig->helper, space->pid, tid, &range, 1, NULL);
}

/* False: the thread stands where bytes are to change, and cannot be moved: that place is left out. */
static bool clear_thread(struct space *space, struct space_rig *rig, struct space_object *object,
                         const struct trace_stop_thread *thread)
{
    uint64_t other;
    const struct slab *slab = &object->next->slab;
    enum slab_place place = slab_place(slab, thread->pc, &other);
    if (place == SLAB_FREE)
        return true;
    const struct slab_write *write = slab_write_around(slab, thread->pc);
    int result = place == SLAB_MOVED ? put_at(space, rig, thread->tid, other)
                                     : step_out(space, rig, thread->tid, write);
    if (result == BASE_OK)
        return true;
    leave_out(object, write);
    return false;
}

/* What stands against the changes of a hold. */
struct clearing {
    struct space *space;
    struct space_rig *rig;
    bool left_out; /* places */
    bool moved;    /* a thread, which should be looked at once more */
};

static struct space_object *object_to_change(const struct space *space, uint64_t pc)
{
    for (size_t i = 0; i < space->object_count; i++) {
        struct space_object *object = &space->objects[i];
        if (object->next && pc >= object->low && pc < object->high)
            return object;
    }
    return NULL;
}

/* A handler's thread comes back among the bytes when the handler is over. At the first of them the change itself is. */
static int clear_frame(void *context, const struct trace_frame *frame, struct base_error *error)
{
    struct clearing *clearing = context;
    struct space_object *object = object_to_change(clearing->space, frame->pc);
    const struct slab_write *write = object ? slab_write_around(&object->next->slab, frame->pc) : NULL;
    (void)error;
    if (write && write->address != frame->pc) {
        leave_out(object, write);
        clearing->left_out = true;
    }
    return BASE_OK;
}

static void clear_pc(struct clearing *clearing, const struct trace_stop_thread *thread)
{
    uint64_t other;
    struct space_object *object = object_to_change(clearing->space, thread->pc);
    if (!object || slab_place(&object->next->slab, thread->pc, &other) == SLAB_FREE)
        return;
    clearing->moved = true;
    clearing->left_out |= !clear_thread(clearing->space, clearing->rig, object, thread);
}

/* BASE_EBUSY: something was left out. 1: a thread was moved, and should be looked at once more. */
static int clear_once(struct space *space, struct space_rig *rig, struct base_error *error)
{
    struct clearing clearing = {space, rig, false, false};
    struct trace_stop_thread *threads;
    size_t count;
    int result = helper_trace_threads(&rig->helper, space->pid, &threads, &count, error);
    if (result < 0)
        return result;
    for (size_t i = 0; i < count; i++)
        clear_pc(&clearing, &threads[i]);
    result = trace_frames_each(threads, count, clear_frame, &clearing, error);
    free(threads);
    return result < 0 ? result : clearing.left_out ? BASE_EBUSY : clearing.moved;
}

static int clear_threads(struct space *space, struct space_rig *rig, struct base_error *error)
{
    int result = 1;
    for (int i = 0; i < STEP_ROUNDS && result > 0; i++)
        result = clear_once(space, rig, error);
    return result;
}

/* --- text that differs --- */

/* Is a write of the patch in force among the bytes of `fresh`, which are not the file's then? *from: the first that may be, for this one
 * and those behind it. */
static bool is_in_force(const struct space_object *object, const struct slab_write *fresh, size_t *from)
{
    const struct slab *slab = object->patch ? &object->patch->slab : NULL;
    uint64_t end = fresh->address + fresh->length;
    while (slab && *from < slab->write_count &&
           slab->writes[*from].address + slab->writes[*from].length <= fresh->address)
        ++*from;
    for (size_t i = *from; slab && i < slab->write_count && slab->writes[i].address < end; i++)
        if (!space_build_is_lifted(object, &slab->writes[i]))
            return true;
    return false;
}

/* Fresh writes to places that are not as in the file; *hooked: those of them within a hook of the agent. Both lists are by address. */
static size_t leave_out_fresh(const struct space *space, struct space_object *object,
                              const struct proc_maps *maps, size_t *hooked)
{
    const struct slab *to = &object->next->slab;
    size_t found = 0, from = 0;
    for (size_t i = 0; i < to->write_count; i++) {
        const struct slab_write *write = &to->writes[i];
        struct trace_memory_change change = space_build_change(write);
        if (is_in_force(object, write, &from) || space_text_holds(space->pid, &change, change.before))
            continue;
        leave_out(object, write);
        *hooked += space_text_has_hook(space->pid, maps, write->address, write->length);
        found++;
    }
    return found;
}

bool space_build_lift(struct space *space, struct space_rig *rig, struct space_object *object,
                      const struct slab_write *write)
{
    struct trace_memory_change change = space_build_change(write);
    if (space_build_is_lifted(object, write) ||
        !base_array_room(object->lifted, object->lifted_count, object->lifted_capacity))
        return false;
    enum space_undo undo = space_text_lift(&rig->helper, space->pid, &change);
    if (undo == SPACE_UNDO_ALL)
        return false;
    object->lifted[object->lifted_count++] = write->address;
    space->taken += undo == SPACE_UNDO_OTHERS;
    leave_out(object, write);
    return true;
}

/* Finds what is neither as in the file nor as we left it, and leaves it out from now on. Returns how many places. */
static size_t leave_out_differing(struct space *space, struct space_rig *rig)
{
    struct proc_maps maps = {0};
    size_t found = 0, hooked = 0;
    proc_maps_read(space->pid, &maps, NULL);
    for (size_t i = 0; i < space->object_count; i++) {
        struct space_object *object = &space->objects[i];
        if (!object->next)
            continue;
        found += leave_out_fresh(space, object, &maps, &hooked);
        for (size_t j = 0; object->patch && j < object->patch->slab.write_count; j++)
            found += space_build_lift(space, rig, object, &object->patch->slab.writes[j]);
    }
    proc_maps_free(&maps);
    profile_lose(rig->profile, WIRE_LOSS_TEXT_ALTERED, found - hooked);
    return found;
}

bool space_build_mark_bound(struct space *space)
{
    bool found = false;
    for (size_t i = 0; i < space->object_count; i++) {
        struct space_object *object = &space->objects[i];
        const struct slab *slab = object->live && object->patch ? &object->patch->slab : NULL;
        struct resolution resolution = {space, object, NULL};
        for (size_t j = 0; slab && !object->stale && j < slab->by_slot_count; j++) {
            uint64_t slot = slab->plan->sites[slab->by_slot[j]].slot;
            size_t at =
                object->patch->past[slab->by_slot[j]] ? SIZE_MAX : space_image_slot(object->planned, slot);
            uint64_t end = at == SIZE_MAX ? 0 : resolve(&resolution, slot);
            object->stale = end && past_hook(space, object->slots[at]) != object->slots[at];
        }
        found |= object->stale;
    }
    return found;
}

static void note_stubs(struct space_rig *rig, const struct slab *slab)
{
    for (uint32_t i = 0; i < slab->plan->header->site_count; i++)
        rig->stub_sites += slab->stubs[i] != 0;
    if (slab->stubs_end)
        rig->stub_bytes += slab->stubs_end - slab->regions[0].address;
}

static void put_in_force(struct space *space, struct space_rig *rig)
{
    space->doorbell_set |= is_to_notify(space);
    for (size_t i = 0; i < space->object_count; i++) {
        struct space_object *object = &space->objects[i];
        if (!object->next)
            continue;
        if (object->patch && base_array_room(object->older, object->older_count, object->older_capacity))
            object->older[object->older_count++] = object->patch;
        if (!object->patch)
            note_stubs(rig, &object->next->slab);
        object->patch = object->next;
        object->lifted_count = 0;
        object->next = NULL;
        object->stale = false;
    }
}

int space_build_apply(struct space *space, struct space_rig *rig, struct base_error *error)
{
    struct base_error why = {0};
    int cleared = clear_threads(space, rig, &why);
    int result = cleared < 0 ? cleared : helper_trace_apply(&rig->helper, space->pid, &why);
    if (result == BASE_OK) {
        put_in_force(space, rig);
        return BASE_OK;
    }
    if (result == BASE_EBUSY && cleared >= 0 && !leave_out_differing(space, rig))
        result = BASE_EIO; /* it would never end */
    forget_next(space);
    return base_fail(error, result, "%s", why.text[0] ? why.text : "threads stand in text that is to change");
}

/* --- all together --- */

static int make(struct space *space, struct space_rig *rig, bool all, struct base_error *error)
{
    int result = space_build_make(space, all, error);
    if (result == BASE_OK)
        result = hand_over(space, rig, error);
    if (result < 0)
        forget_next(space);
    return result;
}

static int make_and_apply(struct space *space, struct space_rig *rig, bool held, struct base_error *error)
{
    int result = make(space, rig, false, error);
    if (result < 0 || held)
        return result < 0 ? result : space_build_apply(space, rig, error);
    result = helper_trace_hold(&rig->helper, space->pid, NULL, error);
    if (result < 0) {
        forget_next(space);
        return result;
    }
    result = space_build_apply(space, rig, error);
    helper_trace_release(&rig->helper, space->pid, NULL, NULL);
    return result;
}

/* Has the object what it needs in memory that is mapped already? It takes its room there then. */
static bool has_memory(struct space *space, struct space_object *object)
{
    if (object->placed)
        return !needs_patch(object, false) || take_room(space, object);
    size_t arena = object->room ? object->arena : find_arena(space, object);
    object->arena = (uint32_t)arena;
    return arena != SIZE_MAX && !space_window_needed(object) && take_room(space, object);
}

static bool needs_memory(struct space *space)
{
    bool needs = false;
    for (size_t i = 0; i < space->object_count && !needs; i++)
        needs =
            space->objects[i].live && !space->objects[i].refused && !has_memory(space, &space->objects[i]);
    return needs;
}

static int place(struct space *space, struct space_rig *rig, bool held, struct base_error *error)
{
    if (held || !needs_memory(space))
        return space_build_place(space, rig, error);
    int result = helper_trace_hold(&rig->helper, space->pid, NULL, error);
    if (result < 0)
        return result;
    result = space_build_place(space, rig, error);
    helper_trace_release(&rig->helper, space->pid, NULL, NULL);
    return result;
}

/* What could not be put in force is not tried again, whoever is loaded next: the caller tells it. */
static void leave_failed(struct space *space)
{
    for (size_t i = 0; i < space->object_count; i++) {
        struct space_object *object = &space->objects[i];
        object->refused |= needs_patch(object, false) && !object->patch;
        object->stale = false;
    }
}

int space_build_all(struct space *space, struct space_rig *rig, bool held, struct base_error *error)
{
    struct base_error why = {0};
    int result = BASE_EBUSY;
    for (int i = 0; i < LOOK_ROUNDS && result == BASE_EBUSY; i++) {
        result = place(space, rig, held, &why);
        if (result == BASE_OK)
            result = make_and_apply(space, rig, held, &why);
    }
    if (result == BASE_OK)
        space_prepared_begin(space, rig);
    else if (is_there(space))
        leave_failed(space);
    return result < 0 ? base_fail(error, result, "%s", why.text) : result;
}

int space_build_change_form(struct space *space, struct space_rig *rig, enum stub_form form,
                            struct base_error *error)
{
    enum stub_form before = space->form;
    space->form = form;
    struct base_error why = {0};
    int result = BASE_EBUSY;
    for (int i = 0; i < LOOK_ROUNDS && result == BASE_EBUSY; i++) {
        why = (struct base_error){0};
        result = give_rooms(space, rig, true, &why);
        if (result == BASE_OK)
            result = make(space, rig, true, &why);
        if (result == BASE_OK)
            result = space_build_apply(space, rig, &why);
    }
    if (result < 0)
        space->form = before;
    return result < 0 ? base_fail(error, result, "%s", why.text) : result;
}
