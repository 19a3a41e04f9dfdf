#include "calls_doorbell.h"

#include <link.h>
#include <stddef.h>
#include <string.h>

#include "base_array.h"
#include "plan_select.h"
#include "proc_maps.h"
#include "proc_target.h"
#include "space_memory.h"
#include "space_text.h"
#include "stub_x86_64_doorbell.h"

#define PAGE    4096u
#define REACH   (1ull << 30)  /* of the jump to the doorbell, and more */
#define STRETCH (16ull << 20) /* see lead_of */

/* --- one doorbell --- */

int calls_doorbell_listen(struct space *space, struct loader_listen *listen, struct base_error *error)
{
    int result = space->doorbell ? loader_listen_add_doorbell(listen, space->doorbell, error) : BASE_OK;
    if (space->doorbell && result == BASE_OK)
        __atomic_store_n(&space->doorbell->active, 1, __ATOMIC_RELEASE);
    return result;
}

void calls_doorbell_forget(const struct space *space, struct loader_listen *listen)
{
    if (space->doorbell)
        loader_listen_forget(listen, &space->doorbell->notified);
}

bool calls_doorbell_notifications(const struct space *space, uint32_t *notified)
{
    if (!space->doorbell)
        return false;
    *notified = __atomic_load_n(&space->doorbell->notified, __ATOMIC_ACQUIRE);
    return *notified != space->doorbell->answered;
}

bool calls_doorbell_reopen(struct space *space)
{
    return !__atomic_exchange_n(&space->doorbell->active, 1, __ATOMIC_ACQ_REL);
}

void calls_doorbell_answer(struct space *space, uint32_t notified)
{
    __atomic_store_n(&space->doorbell->answered, notified, __ATOMIC_RELEASE);
    loader_listen_wake(&space->doorbell->answered);
}

void calls_doorbell_silence(struct space *space)
{
    if (!space->doorbell)
        return;
    __atomic_store_n(&space->doorbell->active, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&space->doorbell->creations, 0, __ATOMIC_RELEASE);
    loader_listen_wake(&space->doorbell->answered);
}

bool calls_doorbell_settled(const struct space *space)
{
    struct r_debug list;
    return !space->object_list ||
           proc_target_read(space->pid, space->object_list, &list, sizeof list) != sizeof list ||
           list.r_state == RT_CONSISTENT;
}

/* --- installing --- */

/* The mapping of ld.so that holds the function it calls, and the function's run-time address. */
static const struct space_mapping *find_debug_function(struct space *space, const struct space_images *set,
                                                       uint64_t *function)
{
    const struct sample_images *images = set->images;
    for (size_t i = 0; i < space->mapping_count; i++) {
        const struct sample_image *image = &images->items[space->mappings[i].image];
        const char *name = strrchr(image->path, '/');
        uint64_t address;
        if (!name || strncmp(name, "/ld", 3) || !image->elf || !stub_doorbell_find(image->elf, &address))
            continue;
        if (plan_select_leaves_out(plan_select_image_name(image->elf, image->path), set->request.images,
                                   set->request.image_count))
            continue;
        *function = address + space->mappings[i].bias;
        if (stub_doorbell_list(image->elf, &address))
            space->object_list = address + space->mappings[i].bias;
        return space_mapping(space, *function);
    }
    return NULL;
}

/* Where the arena for what the loader will load is made together with the doorbell, it lies between the
 * doorbell's code and its words. */
static int use_new_arena(struct space *space, struct space_code *code, const struct space_memory *memory,
                         struct base_error *error)
{
    if (!base_array_room(space->arenas, space->arena_count, space->arena_capacity) ||
        !(space->doorbell_code = space_memory_split(code, PAGE)))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    space->arenas[space->arena_count++] = (struct space_arena){
        code, {.file = memory->file, .offset = memory->offset, .address = memory->address}};
    space->doorbell_words = memory->address + SLAB_BLOCK_SIZE;
    return BASE_OK;
}

static uint64_t address_distance(uint64_t a, uint64_t b)
{
    return a < b ? b - a : a - b;
}

/* An empty arena that the loader reaches has room for the doorbell too: nothing more is mapped. */
static bool share_arena(struct space *space, uint64_t near)
{
    for (size_t i = 0; i < space->arena_count && !space->doorbell_code; i++) {
        const struct space_arena *arena = &space->arenas[i];
        struct space_code *code = arena->code;
        if (code->used || code->top < code->size || code->owners > 1 ||
            address_distance(code->address, near) > REACH)
            continue;
        space->doorbell_code = space_memory_split(code, PAGE);
        space->doorbell_words = arena->block.address + SLAB_BLOCK_SIZE;
    }
    return space->doorbell_code != NULL;
}

/* The loader will map libraries right below the arena, and stubs fill it from its beginning: branches between
 * the two are quickest where the addresses differ in the low 24 bits alone (space_place.c, place_patch). How
 * many bytes it must be longer, so that it begins in the middle of such a stretch: `size` bytes end where the
 * mappings around `near` begin. */
static uint64_t lead_of(pid_t pid, uint64_t near, uint64_t size)
{
    struct proc_maps maps;
    uint64_t end = near;
    if (proc_maps_read(pid, &maps, NULL) < 0)
        return 0;
    for (size_t i = maps.count; i-- > 0;) {
        const struct proc_mapping *mapping = &maps.items[i];
        if (mapping->start < end && mapping->end + size + STRETCH <= end)
            break;
        end = mapping->start < end ? mapping->start : end;
    }
    proc_maps_free(&maps);
    return (end - size - STRETCH / 2) % STRETCH;
}

static int map_doorbell(struct space *space, struct space_session *session, uint64_t near,
                        uint64_t code_ahead, struct base_error *error)
{
    struct space_code *code;
    struct space_memory memory;
    struct helper_room room = {.low = near,
                               .high = near + PAGE,
                               .size = PAGE + code_ahead,
                               .data = code_ahead ? SPACE_ARENA_DATA : PAGE};
    if (!code_ahead && share_arena(space, near))
        return BASE_OK;
    if (code_ahead)
        room.size += lead_of(space->pid, near, room.size + room.data);
    int result = space_memory_both(space, session, room, &code, &memory, error);
    if (result < 0)
        return result;
    if (!code_ahead) {
        space->doorbell_code = code;
        space->doorbell_words = memory.address;
        return result;
    }
    result = use_new_arena(space, code, &memory, error);
    if (result < 0) {
        helper_trace_unmap(&session->helper, space->pid, code->address, code->size, NULL);
        space_memory_release(code); /* its memory goes with the space */
    }
    return result;
}

static int write_doorbell(const struct space *space, struct base_error *error)
{
    struct stub_x86_64_doorbell doorbell = {space->doorbell_words, STUB_DOORBELL_TIMEOUT,
                                            STUB_DOORBELL_ROUNDS, offsetof(struct stub_doorbell, active)};
    struct stub_x86_64_code code;
    stub_x86_64_code_begin(&code, space->doorbell_code->address);
    stub_x86_64_doorbell(&code, &doorbell);
    if (code.refused != STUB_FINE || code.size > space->doorbell_code->size)
        return base_fail(error, BASE_EUNSUPPORTED, "the loader's doorbell does not fit");
    int result = space_memory_commit_code(space, space->doorbell_code, 0, space->doorbell_code->size, error);
    if (result < 0)
        return result;
    memcpy(space->doorbell_code->bytes, code.bytes, code.size);
    space->doorbell_code->used = code.size;
    return BASE_OK;
}

/* The jump that makes the loader notify, as a change that is still to be made. */
static int plan_notification(struct space *space, struct space_session *session, uint64_t function,
                             struct base_error *error)
{
    struct trace_memory_change change = {.address = function, .length = STUB_X86_64_DOORBELL_JUMP};
    int result =
        helper_trace_read(&session->helper, space->pid, function, change.before, change.length, error);
    if (result == BASE_OK &&
        !stub_x86_64_doorbell_bytes(function, space->doorbell_code->address, change.after))
        result = base_fail(error, BASE_EUNSUPPORTED, "the loader is out of reach");
    if (result == BASE_OK)
        space->doorbell_change = change;
    return result;
}

int calls_doorbell_prepare(struct space *space, struct space_session *session, struct loader_listen *listen,
                           uint64_t code_ahead, struct base_error *error)
{
    uint64_t function;
    uint8_t old[STUB_X86_64_DOORBELL_LOOK];
    const struct space_mapping *mapping = find_debug_function(space, &session->images, &function);
    if (!mapping || helper_trace_read(&session->helper, space->pid, function, old, sizeof old, NULL) < 0 ||
        !stub_x86_64_doorbell_fits(old, sizeof old))
        return 0;
    int result = map_doorbell(space, session, function, code_ahead, error);
    if (result == BASE_OK)
        result = space_memory_doorbell(space, error);
    if (result == BASE_OK)
        result = write_doorbell(space, error);
    if (result == BASE_OK)
        result = calls_doorbell_listen(space, listen, error);
    if (result == BASE_OK)
        result = plan_notification(space, session, function, error);
    if (result == BASE_OK)
        result = helper_trace_write_at_exit(&session->helper, space->pid, space->doorbell_words, 0, error);
    return result < 0 ? result : 1;
}

bool calls_doorbell_lift(struct space *space, struct space_session *session)
{
    struct trace_memory_change ours = space->doorbell_change;
    enum space_undo undo = space_text_lift(&session->helper, space->pid, &ours);
    if (undo == SPACE_UNDO_ALL)
        return false;
    space->overwritten += undo == SPACE_UNDO_OTHERS;
    space->doorbell_change.length = 0;
    space->doorbell_set = false;
    return true;
}

int calls_doorbell_notification(struct space *space, struct space_session *session, struct base_error *error)
{
    int result = helper_trace_stage(&session->helper, space->pid, &space->doorbell_change, 1, error);
    if (result == BASE_OK)
        result = helper_trace_apply(&session->helper, space->pid, error);
    space->doorbell_set = result == BASE_OK;
    return result;
}

int calls_doorbell_install(struct space *space, struct space_session *session, struct loader_listen *listen,
                           uint64_t code_ahead, struct base_error *error)
{
    int prepared = calls_doorbell_prepare(space, session, listen, code_ahead, error);
    if (prepared <= 0)
        return prepared;
    int result = calls_doorbell_notification(space, session, error);
    return result < 0 ? result : prepared;
}
