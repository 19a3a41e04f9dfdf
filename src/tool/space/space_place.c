/* Where code and counters go: arenas within reach of objects, and room in them for the next patch of each
 * object.
 *
 * An arena is mapped for all objects near it that have none, several times as large as their first slabs,
 * since later forms need slabs of their own. When one is full, spare code is mapped that reaches the same
 * text and counters. */
#include "space_place.h"

#include <string.h>

#include "base_array.h"
#include "proc_maps.h"
#include "space_memory.h"
#include "space_window.h"
#include "wire_loss.h"

#define REACH            (0x7fffffffull - (128ull << 20)) /* of 32 bits, less room for the ends */
#define CODE_LEAST       (4ull << 20)
#define CODE_FORMS       8 /* so many slabs of each object an arena has room for, */
#define CODE_FORMS_LARGE 2 /* and so many when they are large: what more they need is mapped then */
#define CODE_LARGE       (8ull << 20)
#define CODE_ALIGN       64ull
#define NEAR_BITS        24 /* of an address: see place_patch */
#define PAGE             4096ull

static uint64_t align_size(uint64_t value, uint64_t to)
{
    return (value + to - 1) / to * to;
}

static bool is_in_reach(uint64_t low, uint64_t high, uint64_t start, uint64_t end)
{
    uint64_t least = low < start ? low : start, most = high > end ? high : end;
    return most - least < REACH;
}

static bool arena_serves(const struct space_arena *arena, const struct space_object *object)
{
    const struct space_code *code = arena->code;
    return is_in_reach(object->low, object->high, code->address, code->address + code->size) &&
           is_in_reach(object->low, object->high, arena->block.address,
                       arena->block.address + SLAB_BLOCK_SIZE) &&
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
            is_in_reach(object->low, object->high, other->low, other->high))
            size += slab_room(other);
    }
    return align_size(CODE_LEAST + size * (size > CODE_LARGE ? CODE_FORMS_LARGE : CODE_FORMS), PAGE);
}

/* Memory near low..high. Its counters are begun when the first object needs them. */
static int add_arena(struct space *space, struct space_session *session, uint64_t low, uint64_t high,
                     uint64_t size, struct base_error *error)
{
    struct space_arena arena = {0};
    struct space_memory memory;
    struct helper_room room = {
        .low = low, .high = high, .size = size, .data = SPACE_ARENA_DATA, .data_first = true};
    if (!base_array_room(space->arenas, space->arena_count, space->arena_capacity))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    int result = space_memory_both(space, session, room, &arena.code, &memory, error);
    if (result < 0)
        return result;
    arena.block =
        (struct slab_block){.file = memory.file, .offset = memory.offset, .address = memory.address};
    space->arenas[space->arena_count++] = arena;
    return result;
}

/* As much as all want, or what this object needs where there is no room for more. */
static int add_arena_for(struct space *space, struct space_session *session,
                         const struct space_object *object, struct base_error *error)
{
    int result = add_arena(space, session, object->low, object->high, code_wanted(space, object), NULL);
    return result == BASE_OK ? result
                             : add_arena(space, session, object->low, object->high,
                                         align_size(slab_room(object), PAGE), error);
}

static size_t find_arena(const struct space *space, const struct space_object *object)
{
    for (size_t i = 0; i < space->arena_count; i++)
        if (arena_serves(&space->arenas[i], object))
            return i;
    return SIZE_MAX;
}

/* Where in the code a patch of `size` bytes goes; UINT64_MAX: it is full. On Zen 5 a taken branch costs a
 * cycle more when its target's address differs from its own above the low 24 bits. Counting takes two
 * branches more, to the stub and back: a loop that calls one function took 1.50 times as long with them, and
 * 1.00 to 1.02 times in the same 16 MiB, wherever the counter lay. So a patch goes to that end of the code,
 * if any, that has it in the same 16 MiB as the text. */
static uint64_t place_patch(struct space_code *code, const struct space_object *object, uint64_t size)
{
    uint64_t used = align_size(code->used, CODE_ALIGN);
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
    return code->spare && is_in_reach(object->low, object->high, code->address, end) &&
           is_in_reach(block->address, block->address + SLAB_BLOCK_SIZE, code->address, end);
}

static bool take_room_in(const struct space *space, struct space_object *object, struct space_code *code)
{
    uint64_t size = object->planned->slab_size, at = place_patch(code, object, size);
    if (at == UINT64_MAX || space_memory_commit_code(space, code, at, size, NULL) < 0)
        return false;
    object->room = code;
    object->room_at = at;
    return true;
}

/* False: all that is mapped is full. */
bool space_place_take_room(struct space *space, struct space_object *object)
{
    bool taken = object->room || take_room_in(space, object, space->arenas[object->arena].code);
    for (size_t i = 0; i < space->window_count && !taken; i++)
        taken =
            spare_serves(space, space->windows[i], object) && take_room_in(space, object, space->windows[i]);
    return taken;
}

bool space_place_needs_patch(const struct space_object *object, bool all)
{
    return object->live && object->placed && !object->refused && !object->next &&
           (all || object->stale || !object->patch);
}

static int add_spare(struct space *space, struct space_session *session, const struct space_object *object,
                     uint64_t size, struct base_error *error)
{
    const struct slab_block *block = &space->arenas[object->arena].block;
    uint64_t block_end = block->address + SLAB_BLOCK_SIZE;
    struct helper_room room = {.low = object->low < block->address ? object->low : block->address,
                               .high = object->high > block_end ? object->high : block_end,
                               .size = align_size(size, PAGE)};
    if (!base_array_room(space->windows, space->window_count, space->window_capacity))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    int result = space_memory_code(session, space->pid, room, &space->windows[space->window_count], error);
    if (result == BASE_OK)
        space->windows[space->window_count++]->spare = true;
    return result;
}

/* For this object and all others of its arena that have no room either. */
static int add_spare_for_all(struct space *space, struct space_session *session,
                             const struct space_object *object, bool all, struct base_error *error)
{
    uint64_t size = CODE_LEAST;
    for (size_t i = 0; i < space->object_count; i++) {
        const struct space_object *other = &space->objects[i];
        if (space_place_needs_patch(other, all) && !other->room && other->arena == object->arena)
            size += slab_room(other);
    }
    int result = add_spare(space, session, object, size, NULL);
    return result == BASE_OK ? result : add_spare(space, session, object, slab_room(object), error);
}

bool space_place_is_there(const struct space *space)
{
    struct proc_maps maps = {0};
    bool there = proc_maps_read(space->pid, &maps, NULL) == BASE_OK && maps.count;
    proc_maps_free(&maps);
    return there;
}

/* It costs this image, and no other: reported once, and not tried again. */
static void refuse_object(struct space_session *session, struct space_object *object)
{
    object->refused = true;
    profile_lose(session->profile, WIRE_LOSS_NOT_PLANNED, 1);
}

/* What `result` means for an object that has no room. One that is counted already stays as it is, unless it
 * must be led to another form. */
static int go_without_room(struct space *space, struct space_session *session, struct space_object *object,
                           bool all, int result)
{
    if (result == BASE_OK || (all && object->patch) || !space_place_is_there(space))
        return result;
    if (object->patch)
        object->stale = false;
    else
        refuse_object(session, object);
    return BASE_OK;
}

static int give_room(struct space *space, struct space_session *session, struct space_object *object,
                     bool all, struct base_error *error)
{
    if (space_place_take_room(space, object))
        return BASE_OK;
    int result = add_spare_for_all(space, session, object, all, error);
    if (result == BASE_OK && !space_place_take_room(space, object))
        result = base_fail(error, BASE_EUNSUPPORTED, "the memory for stubs is full");
    return go_without_room(space, session, object, all, result);
}

int space_place_rooms(struct space *space, struct space_session *session, bool all, struct base_error *error)
{
    int result = BASE_OK;
    for (size_t i = 0; i < space->object_count && result == BASE_OK; i++)
        if (space_place_needs_patch(&space->objects[i], all))
            result = give_room(space, session, &space->objects[i], all, error);
    return result;
}

static int place_object(struct space *space, struct space_session *session, struct space_object *object,
                        struct base_error *error)
{
    size_t arena = object->room ? object->arena : find_arena(space, object);
    int result = BASE_OK;
    if (arena == SIZE_MAX) {
        result = add_arena_for(space, session, object, error);
        arena = space->arena_count - 1;
    }
    if (result < 0)
        return go_without_room(space, session, object, false, result);
    object->arena = (uint32_t)arena;
    struct slab_block *block = &space->arenas[arena].block;
    if (!block->tables) {
        slab_block_expect(block, space_pairs(space));
        result = slab_block_init(block, space_memory_made(space), error);
    }
    if (result < 0)
        return go_without_room(space, session, object, false, result);
    result = space_window_place(space, session, object, error);
    object->placed = result == BASE_OK;
    return result == BASE_OK ? give_room(space, session, object, false, error) : result;
}

int space_place(struct space *space, struct space_session *session, struct base_error *error)
{
    int result = BASE_OK;
    for (size_t i = 0; i < space->object_count && result == BASE_OK; i++)
        if (space->objects[i].live && !space->objects[i].placed && !space->objects[i].refused)
            result = place_object(space, session, &space->objects[i], error);
    return result == BASE_OK ? space_place_rooms(space, session, false, error) : result;
}

static bool is_near(const struct space *space, const struct space_mapping *mapping)
{
    bool near = false;
    for (size_t i = 0; i < space->arena_count && !near; i++) {
        const struct space_arena *arena = &space->arenas[i];
        near = is_in_reach(mapping->start, mapping->end, arena->code->address,
                           arena->code->address + arena->code->size) &&
               is_in_reach(mapping->start, mapping->end, arena->block.address,
                           arena->block.address + SLAB_BLOCK_SIZE);
    }
    return near;
}

void space_place_ahead(struct space *space, struct space_session *session)
{
    for (size_t i = 0; i < space->mapping_count; i++) {
        const struct space_mapping *mapping = &space->mappings[i];
        bool vdso = !strcmp(session->images.images->items[mapping->image].path, "[vdso]");
        if (!vdso && !is_near(space, mapping))
            add_arena(space, session, mapping->start, mapping->end, SPACE_CODE_AHEAD, NULL);
    }
}

/* Has the object what it needs in memory that is mapped already? Then its room is reserved there. */
static bool has_memory(struct space *space, struct space_object *object)
{
    if (object->placed)
        return !space_place_needs_patch(object, false) || space_place_take_room(space, object);
    size_t arena = object->room ? object->arena : find_arena(space, object);
    object->arena = (uint32_t)arena;
    return arena != SIZE_MAX && !space_window_needed(object) && space_place_take_room(space, object);
}

bool space_place_is_needed(struct space *space)
{
    bool needs = false;
    for (size_t i = 0; i < space->object_count && !needs; i++)
        needs =
            space->objects[i].live && !space->objects[i].refused && !has_memory(space, &space->objects[i]);
    return needs;
}
