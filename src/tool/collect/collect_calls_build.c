#include "collect_calls_build.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "base_array.h"
#include "collect_calls_text.h"
#include "collect_calls_window.h"

#define REACH       (0x7fffffffull - (128ull << 20)) /* of a 32-bit displacement, with room for the ends */
#define CODE_LEAST  (4ull << 20)
#define CODE_FORMS  5 /* so many slabs of each object an arena has room for */
#define PAGE        4096ull
#define CODE_ALIGN  64ull
#define STEP_ROUNDS 4
#define LOOK_ROUNDS 4           /* of text that differs */
#define SLOTS_APART (64u << 10) /* bytes; slots nearer than that are read together */

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

static bool serves(const struct collect_calls_arena *arena, const struct collect_calls_object *object)
{
    const struct collect_calls_code *code = arena->code;
    return reaches(object->low, object->high, code->address, code->address + code->size) &&
           reaches(object->low, object->high, arena->block.address,
                   arena->block.address + COLLECT_BLOCK_SIZE) &&
           code->size - code->used >= patch_slab_size(&object->planned->plan) + CODE_ALIGN;
}

/* Bytes of code for `object` and for those near it that have no place either. */
static uint64_t code_wanted(const struct collect_calls_space *space,
                            const struct collect_calls_object *object)
{
    uint64_t size = CODE_LEAST;
    for (size_t i = 0; i < space->object_count; i++) {
        const struct collect_calls_object *other = &space->objects[i];
        if (other->live && !other->placed && reaches(object->low, object->high, other->low, other->high))
            size += CODE_FORMS * (patch_slab_size(&other->planned->plan) + CODE_ALIGN);
    }
    return aligned(size, PAGE);
}

static int add_arena(struct collect_calls_space *space, struct collect_calls_rig *rig,
                     const struct collect_calls_object *object, struct base_error *error)
{
    struct collect_calls_arena arena = {0};
    struct collect_calls_memory memory;
    struct patch_helper_room room = {.low = object->low, .high = object->high};
    if (!base_array_room(space->arenas, space->arena_count, space->arena_capacity))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    room.size = code_wanted(space, object);
    int result = collect_calls_space_code(rig, space->pid, room, &arena.code, error);
    if (result < 0)
        return result;
    if (arena.code->address < room.low)
        room.low = arena.code->address;
    else if (arena.code->address + arena.code->size > room.high)
        room.high = arena.code->address + arena.code->size;
    room.size = COLLECT_BLOCK_SIZE;
    result = collect_calls_space_memory(space, rig, room, &memory, error);
    if (result == BASE_OK) {
        arena.block = (struct collect_calls_block){.file = memory.file, .address = memory.address};
        collect_calls_block_expect(&arena.block, collect_calls_space_pairs(space));
        result = collect_calls_block_init(&arena.block, error);
    }
    if (result == BASE_OK) {
        space->arenas[space->arena_count++] = arena;
        return result;
    }
    patch_trace_unmap(&rig->helper, space->pid, arena.code->address, arena.code->size, NULL);
    collect_calls_code_release(arena.code); /* counters that are mapped go with the space */
    return result;
}

static size_t find_arena(const struct collect_calls_space *space, const struct collect_calls_object *object)
{
    for (size_t i = 0; i < space->arena_count; i++)
        if (serves(&space->arenas[i], object))
            return i;
    return SIZE_MAX;
}

int collect_calls_build_place(struct collect_calls_space *space, struct collect_calls_rig *rig,
                              struct base_error *error)
{
    for (size_t i = 0; i < space->object_count; i++) {
        struct collect_calls_object *object = &space->objects[i];
        if (!object->live || object->placed)
            continue;
        size_t arena = find_arena(space, object);
        int result = arena == SIZE_MAX ? add_arena(space, rig, object, error) : BASE_OK;
        if (result < 0)
            return result;
        object->arena = (uint32_t)(arena == SIZE_MAX ? space->arena_count - 1 : arena);
        result = collect_calls_window_place(space, rig, object, error);
        if (result < 0)
            return result;
        object->placed = true;
    }
    return BASE_OK;
}

/* --- slots --- */

static void read_run(struct collect_calls_space *space, struct collect_calls_object *object, size_t from,
                     size_t to)
{
    const uint64_t *slots = object->planned->slots;
    size_t size = (size_t)(slots[to - 1] + 8 - slots[from]);
    uint8_t *bytes = malloc(size);
    if (!bytes)
        return;
    struct iovec local = {bytes, size}, remote = {(void *)(uintptr_t)(slots[from] + object->bias), size};
    if (process_vm_readv(space->pid, &local, 1, &remote, 1, 0) == (ssize_t)size)
        for (size_t i = from; i < to; i++)
            memcpy(&object->slots[i], bytes + (slots[i] - slots[from]), sizeof object->slots[i]);
    free(bytes);
}

void collect_calls_build_read_slots(struct collect_calls_space *space)
{
    for (size_t i = 0; i < space->object_count; i++) {
        struct collect_calls_object *object = &space->objects[i];
        const struct collect_calls_image *image = object->planned;
        for (size_t from = 0, to; object->live && from < image->slot_count; from = to) {
            for (to = from + 1;
                 to < image->slot_count && image->slots[to] - image->slots[to - 1] < SLOTS_APART;)
                to++;
            read_run(space, object, from, to);
        }
    }
}

struct resolution {
    const struct collect_calls_space *space;
    const struct collect_calls_object *object;
};

/* Where the patch that will be in force has moved the function at `address` to; the address itself when it has not. */
static uint64_t past_hook(const struct collect_calls_space *space, uint64_t address)
{
    const struct collect_calls_object *object = collect_calls_space_object(space, address);
    const struct collect_calls_patch *patch = object ? object->next ? object->next : object->patch : NULL;
    if (!patch)
        return address;
    const struct patch_plan *plan = &object->planned->plan;
    uint32_t function = patch_plan_function_at(plan, address - object->bias);
    uint32_t hook = function == PATCH_NONE ? PATCH_NONE : plan->functions[function].hook;
    bool hooked = hook != PATCH_NONE && patch->slab.entries[hook] &&
                  plan->hooks[hook].address == address - object->bias;
    return hooked ? patch->slab.hooks[hook].body : address;
}

static uint64_t resolve(void *context, uint64_t slot)
{
    const struct resolution *resolution = context;
    const struct collect_calls_object *object = resolution->object;
    size_t at = collect_calls_image_slot(object->planned, slot);
    uint64_t value = at == SIZE_MAX ? 0 : object->slots[at];
    uint64_t inside = value - object->bias;
    if (!value || (inside >= object->planned->linkage_low && inside < object->planned->linkage_high) ||
        !collect_calls_space_mapping(resolution->space, value))
        return 0;
    uint64_t body = past_hook(resolution->space, value);
    return collect_calls_space_object(resolution->space, value) == object ? value : body;
}

/* --- make --- */

/* Told to the reader: such a call is not seen by the callee's hook. */
static int list_past(struct collect_calls_patch *patch, struct resolution *resolution,
                     struct base_error *error)
{
    const struct patch_plan *plan = patch->slab.plan;
    patch->past = calloc(plan->header->site_count + 1u, 1);
    if (!patch->past)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    for (uint32_t i = 0; i < plan->header->site_count; i++)
        patch->past[i] = plan->sites[i].slot && plan->sites[i].kind < PATCH_CALL_INDIRECT &&
                         resolve(resolution, plan->sites[i].slot);
    return BASE_OK;
}

/* Other slabs have been made, so that it is known where they have put functions. */
static void bind_slab(struct collect_calls_patch *patch, struct resolution *resolution)
{
    patch->slab.resolve = resolve;
    patch->slab.context = resolution;
    patch_slab_bind(&patch->slab);
    patch->slab.resolve = NULL;
    patch->slab.context = NULL;
}

static int begin_patch(struct collect_calls_space *space, struct collect_calls_object *object,
                       struct base_error *error)
{
    const struct collect_calls_arena *arena = &space->arenas[object->arena];
    struct collect_calls_code *code = arena->code;
    struct collect_calls_patch *patch = calloc(1, sizeof *patch);
    uint64_t used = aligned(code->used, CODE_ALIGN), size = patch_slab_size(&object->planned->plan);
    object->next = patch;
    if (patch)
        patch->owners = 1;
    if (!patch || !(patch->regions = calloc(1 + object->window_count, sizeof *patch->regions)))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    if (used + size > code->size)
        return base_fail(error, BASE_EUNSUPPORTED, "the memory for stubs is full");
    patch->regions[0] = (struct patch_slab_region){
        .address = code->address + used, .bytes = code->bytes + used, .size = size};
    patch->slab = (struct patch_slab){
        .plan = &object->planned->plan,
        .wanted = object->wanted,
        .quiet = object->planned->quiet,
        .bias = object->bias,
        .counter = {space->form, arena->block.address, (uint32_t)space->gs_offset, object->base},
        .regions = patch->regions,
        .region_count = 1 + object->window_count};
    collect_calls_window_regions(space, object, patch->regions + 1);
    int result = patch_slab_make(&patch->slab, error);
    if (result == BASE_OK) {
        code->used = used + patch->regions[0].used;
        collect_calls_window_use(space, object, patch->regions + 1);
    }
    return result;
}

static void forget_next(struct collect_calls_space *space)
{
    for (size_t i = 0; i < space->object_count; i++) {
        collect_calls_patch_release(space->objects[i].next);
        space->objects[i].next = NULL;
    }
}

/* Where hooks lie must be known before other objects' stubs can go past them. */
int collect_calls_build_make(struct collect_calls_space *space, bool all, struct base_error *error)
{
    int result = BASE_OK;
    collect_calls_build_read_slots(space);
    for (size_t i = 0; i < space->object_count && result == BASE_OK; i++) {
        struct collect_calls_object *object = &space->objects[i];
        if (object->live && object->placed && !object->next && (all || object->stale || !object->patch))
            result = begin_patch(space, object, error);
    }
    for (size_t i = 0; i < space->object_count && result == BASE_OK; i++) {
        struct collect_calls_object *object = &space->objects[i];
        struct resolution resolution = {space, object};
        if (!object->next)
            continue;
        bind_slab(object->next, &resolution);
        result = list_past(object->next, &resolution, error);
    }
    if (result < 0)
        forget_next(space);
    return result;
}

/* --- apply --- */

struct patch_memory_change collect_calls_build_change(const struct patch_write *write)
{
    struct patch_memory_change change = {.address = write->address, .length = write->length};
    memcpy(change.before, write->old, sizeof write->old);
    memcpy(change.after, write->fresh, sizeof write->fresh);
    return change;
}

static struct patch_memory_change change_back(const struct patch_write *write)
{
    struct patch_memory_change change = {.address = write->address, .length = write->length};
    memcpy(change.before, write->fresh, sizeof write->fresh);
    memcpy(change.after, write->old, sizeof write->old);
    return change;
}

/* From what is in force to what is to be. Both lists are by address; a place that only one of them has changes from or
 * to what is in the file. */
static size_t merge(const struct collect_calls_patch *from, const struct collect_calls_patch *to,
                    struct patch_memory_change *merged)
{
    size_t count = 0, i = 0, j = 0, from_count = from ? from->slab.write_count : 0;
    while (i < from_count || j < to->slab.write_count) {
        const struct patch_write *old = i < from_count ? &from->slab.writes[i] : NULL;
        const struct patch_write *fresh = j < to->slab.write_count ? &to->slab.writes[j] : NULL;
        if (old && fresh && old->address == fresh->address && old->length == fresh->length) {
            merged[count] = collect_calls_build_change(fresh);
            memcpy(merged[count++].before, old->fresh, sizeof old->fresh);
            i++, j++;
        } else if (old && (!fresh || old->address <= fresh->address)) {
            merged[count++] = change_back(old);
            i++;
        } else {
            merged[count++] = collect_calls_build_change(fresh);
            j++;
        }
    }
    return count;
}

/* Lists of objects follow one another: where those lie by address, so do the changes. */
static int all_changes(const struct collect_calls_space *space, struct patch_stage *stage, size_t *count,
                       struct base_error *error)
{
    size_t most = 0;
    for (size_t i = 0; i < space->object_count; i++) {
        const struct collect_calls_object *object = &space->objects[i];
        if (object->next)
            most += object->next->slab.write_count + (object->patch ? object->patch->slab.write_count : 0);
    }
    *count = 0;
    int result = patch_stage_new(stage, most, error);
    for (size_t i = 0; result == BASE_OK && i < space->object_count; i++)
        if (space->objects[i].next)
            *count += merge(space->objects[i].patch, space->objects[i].next, stage->changes + *count);
    return result;
}

/* --- threads among the bytes --- */

static void leave_out(struct collect_calls_object *object, const struct patch_write *write)
{
    uint32_t sites = object->planned->plan.header->site_count;
    object->wanted[write->site != PATCH_NONE ? write->site : sites + write->hook] = 0;
    object->differing++;
}

static int put_at(struct collect_calls_space *space, struct collect_calls_rig *rig, pid_t tid, uint64_t pc)
{
    struct user_regs_struct registers;
    int result = patch_trace_read_registers(&rig->helper, space->pid, tid, &registers, NULL);
    registers.rip = pc;
    return result < 0 ? result : patch_trace_write_registers(&rig->helper, space->pid, tid, &registers, NULL);
}

static int step_out(struct collect_calls_space *space, struct collect_calls_rig *rig, pid_t tid,
                    const struct patch_write *write)
{
    struct patch_step_range range = {write->address + 1, write->address + write->length};
    return patch_trace_step_out(&rig->helper, space->pid, tid, &range, 1, NULL);
}

/* False: the thread stands where bytes are to change, and cannot be moved: that place is left out. */
static bool clear_thread(struct collect_calls_space *space, struct collect_calls_rig *rig,
                         struct collect_calls_object *object, const struct patch_stop_thread *thread)
{
    uint64_t other;
    const struct patch_slab *slab = &object->next->slab;
    enum patch_slab_place place = patch_slab_place(slab, thread->pc, &other);
    if (place == PATCH_SLAB_FREE)
        return true;
    const struct patch_write *write = patch_slab_write_around(slab, thread->pc);
    int result = place == PATCH_SLAB_MOVED ? put_at(space, rig, thread->tid, other)
                                           : step_out(space, rig, thread->tid, write);
    if (result == BASE_OK)
        return true;
    leave_out(object, write);
    return false;
}

/* BASE_EBUSY: something was left out. 1: a thread was moved, and should be looked at once more. */
static int clear_once(struct collect_calls_space *space, struct collect_calls_rig *rig,
                      struct base_error *error)
{
    struct patch_stop_thread *threads;
    size_t count;
    bool left_out = false;
    int moved = 0;
    int result = patch_trace_threads(&rig->helper, space->pid, &threads, &count, error);
    if (result < 0)
        return result;
    for (size_t i = 0; i < count; i++) {
        uint64_t other;
        for (size_t j = 0; j < space->object_count; j++) {
            struct collect_calls_object *object = &space->objects[j];
            if (!object->next || threads[i].pc < object->low || threads[i].pc >= object->high ||
                patch_slab_place(&object->next->slab, threads[i].pc, &other) == PATCH_SLAB_FREE)
                continue;
            moved = 1;
            left_out |= !clear_thread(space, rig, object, &threads[i]);
        }
    }
    free(threads);
    return left_out ? BASE_EBUSY : moved;
}

static int clear_threads(struct collect_calls_space *space, struct collect_calls_rig *rig,
                         struct base_error *error)
{
    int result = 1;
    for (int i = 0; i < STEP_ROUNDS && result > 0; i++)
        result = clear_once(space, rig, error);
    return result;
}

/* --- text that differs --- */

/* Finds what is not as in the file, and leaves it out from now on. Returns how many places. */
static size_t leave_out_differing(struct collect_calls_space *space)
{
    size_t found = 0;
    for (size_t i = 0; i < space->object_count; i++) {
        struct collect_calls_object *object = &space->objects[i];
        for (size_t j = 0; object->next && !object->patch && j < object->next->slab.write_count; j++) {
            struct patch_memory_change change = collect_calls_build_change(&object->next->slab.writes[j]);
            if (collect_calls_text_holds(space->pid, &change, change.before))
                continue;
            leave_out(object, &object->next->slab.writes[j]);
            found++;
        }
    }
    return found;
}

bool collect_calls_build_mark_bound(struct collect_calls_space *space)
{
    bool found = false;
    for (size_t i = 0; i < space->object_count; i++) {
        struct collect_calls_object *object = &space->objects[i];
        const struct patch_plan *plan = &object->planned->plan;
        struct resolution resolution = {space, object};
        for (uint32_t j = 0; object->live && object->patch && !object->stale && j < plan->header->site_count;
             j++) {
            const struct patch_plan_site *site = &plan->sites[j];
            size_t at = site->slot && site->kind < PATCH_CALL_INDIRECT && !object->patch->past[j]
                            ? collect_calls_image_slot(object->planned, site->slot)
                            : SIZE_MAX;
            uint64_t end = at == SIZE_MAX ? 0 : resolve(&resolution, site->slot);
            object->stale = end && past_hook(space, object->slots[at]) != object->slots[at];
        }
        found |= object->stale;
    }
    return found;
}

static void put_in_force(struct collect_calls_space *space)
{
    for (size_t i = 0; i < space->object_count; i++) {
        struct collect_calls_object *object = &space->objects[i];
        if (!object->next)
            continue;
        if (object->patch && base_array_room(object->older, object->older_count, object->older_capacity))
            object->older[object->older_count++] = object->patch;
        object->patch = object->next;
        object->next = NULL;
        object->stale = false;
    }
}

static int stage_and_apply(const struct collect_calls_space *space, struct collect_calls_rig *rig,
                           struct base_error *error)
{
    struct patch_stage stage;
    size_t count;
    int result = all_changes(space, &stage, &count, error);
    if (result == BASE_OK)
        result = patch_trace_stage_list(&rig->helper, space->pid, &stage, count, error);
    if (result == BASE_OK)
        result = patch_trace_apply(&rig->helper, space->pid, error);
    patch_stage_free(&stage);
    return result;
}

int collect_calls_build_apply(struct collect_calls_space *space, struct collect_calls_rig *rig,
                              struct base_error *error)
{
    struct base_error why = {0};
    int cleared = clear_threads(space, rig, &why);
    int result = cleared < 0 ? cleared : stage_and_apply(space, rig, &why);
    if (result == BASE_OK) {
        put_in_force(space);
        return BASE_OK;
    }
    if (result == BASE_EBUSY && cleared >= 0 && !leave_out_differing(space))
        result = BASE_EIO; /* it would never end */
    forget_next(space);
    return result == BASE_EBUSY ? result : base_fail(error, result, "%s", why.text);
}

/* --- all together --- */

static int make_and_apply(struct collect_calls_space *space, struct collect_calls_rig *rig, bool held,
                          struct base_error *error)
{
    int result = collect_calls_build_make(space, false, error);
    if (result < 0 || held)
        return result < 0 ? result : collect_calls_build_apply(space, rig, error);
    result = patch_trace_hold(&rig->helper, space->pid, NULL, error);
    if (result < 0) {
        forget_next(space);
        return result;
    }
    result = collect_calls_build_apply(space, rig, error);
    patch_trace_release(&rig->helper, space->pid, NULL, NULL);
    return result;
}

static bool needs_place(const struct collect_calls_space *space)
{
    for (size_t i = 0; i < space->object_count; i++)
        if (space->objects[i].live && !space->objects[i].placed)
            return true;
    return false;
}

static int place(struct collect_calls_space *space, struct collect_calls_rig *rig, bool held,
                 struct base_error *error)
{
    if (!needs_place(space))
        return BASE_OK;
    if (held)
        return collect_calls_build_place(space, rig, error);
    int result = patch_trace_hold(&rig->helper, space->pid, NULL, error);
    if (result < 0)
        return result;
    result = collect_calls_build_place(space, rig, error);
    patch_trace_release(&rig->helper, space->pid, NULL, NULL);
    return result;
}

int collect_calls_build_all(struct collect_calls_space *space, struct collect_calls_rig *rig, bool held,
                            struct base_error *error)
{
    int result = place(space, rig, held, error);
    for (int i = 0; i < LOOK_ROUNDS && result == BASE_OK; i++) {
        result = make_and_apply(space, rig, held, error);
        if (result != BASE_EBUSY)
            return result;
        result = BASE_OK;
    }
    return result < 0 ? result
                      : base_fail(error, BASE_EBUSY, "the text of process %d keeps changing", space->pid);
}

int collect_calls_build_change_form(struct collect_calls_space *space, struct collect_calls_rig *rig,
                                    enum patch_form form, struct base_error *error)
{
    enum patch_form before = space->form;
    space->form = form;
    int result = collect_calls_build_make(space, true, error);
    if (result == BASE_OK)
        result = collect_calls_build_apply(space, rig, error);
    if (result < 0)
        space->form = before;
    return result == BASE_EBUSY
               ? base_fail(error, result, "text of process %d was changed by somebody else", space->pid)
               : result;
}
