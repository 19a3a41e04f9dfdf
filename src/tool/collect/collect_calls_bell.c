#include "collect_calls_bell.h"

#include <link.h>
#include <stddef.h>
#include <string.h>

#include "base_array.h"
#include "collect_calls_text.h"
#include "elf_maps.h"
#include "patch_select.h"
#include "patch_target.h"
#include "patch_x86_64_bell.h"

#define PAGE    4096u
#define REACH   (1ull << 30)  /* of the jump to the bell, and more */
#define STRETCH (16ull << 20) /* see lead_of */

/* --- a bell --- */

int collect_calls_bell_listen(struct collect_calls_space *space, struct collect_listen *listen,
                              struct base_error *error)
{
    int result = space->bell ? collect_listen_add_bell(listen, space->bell, error) : BASE_OK;
    if (space->bell && result == BASE_OK)
        __atomic_store_n(&space->bell->active, 1, __ATOMIC_RELEASE);
    return result;
}

void collect_calls_bell_forget(const struct collect_calls_space *space, struct collect_listen *listen)
{
    if (space->bell)
        collect_listen_forget(listen, &space->bell->rung);
}

bool collect_calls_bell_rings(const struct collect_calls_space *space, uint32_t *rung)
{
    if (!space->bell)
        return false;
    *rung = __atomic_load_n(&space->bell->rung, __ATOMIC_ACQUIRE);
    return *rung != space->bell->answered;
}

bool collect_calls_bell_reopen(struct collect_calls_space *space)
{
    return !__atomic_exchange_n(&space->bell->active, 1, __ATOMIC_ACQ_REL);
}

void collect_calls_bell_answer(struct collect_calls_space *space, uint32_t rung)
{
    __atomic_store_n(&space->bell->answered, rung, __ATOMIC_RELEASE);
    collect_listen_wake(&space->bell->answered);
}

void collect_calls_bell_silence(struct collect_calls_space *space)
{
    if (!space->bell)
        return;
    __atomic_store_n(&space->bell->active, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&space->bell->births, 0, __ATOMIC_RELEASE);
    collect_listen_wake(&space->bell->answered);
}

bool collect_calls_bell_settled(const struct collect_calls_space *space)
{
    struct r_debug list;
    return !space->object_list ||
           patch_target_read(space->pid, space->object_list, &list, sizeof list) != sizeof list ||
           list.r_state == RT_CONSISTENT;
}

/* --- installing --- */

/* The mapping of ld.so that holds the function it calls, and the function's run-time address. */
static const struct collect_calls_mapping *
find_function(struct collect_calls_space *space, const struct collect_calls_images *set, uint64_t *function)
{
    const struct collect_images *images = set->images;
    for (size_t i = 0; i < space->mapping_count; i++) {
        const struct collect_image *image = &images->items[space->mappings[i].image];
        const char *name = strrchr(image->path, '/');
        uint64_t address;
        if (!name || strncmp(name, "/ld", 3) || !image->elf || !patch_bell_find(image->elf, &address))
            continue;
        if (patch_select_leaves_out(patch_select_image_name(image->elf, image->path), set->wish.images,
                                    set->wish.image_count))
            continue;
        *function = address + space->mappings[i].bias;
        if (patch_bell_list(image->elf, &address))
            space->object_list = address + space->mappings[i].bias;
        return collect_calls_space_mapping(space, *function);
    }
    return NULL;
}

/* Where the arena for what the loader will load is made along with the bell, it lies between the bell's code
 * and its words. */
static int take_arena(struct collect_calls_space *space, struct collect_calls_code *code,
                      const struct collect_calls_memory *memory, struct base_error *error)
{
    if (!base_array_room(space->arenas, space->arena_count, space->arena_capacity) ||
        !(space->bell_code = collect_calls_code_split(code, PAGE)))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    space->arenas[space->arena_count++] = (struct collect_calls_arena){
        code, {.file = memory->file, .offset = memory->offset, .address = memory->address}};
    space->bell_words = memory->address + COLLECT_BLOCK_SIZE;
    return BASE_OK;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a < b ? b - a : a - b;
}

/* An arena that nothing lies in yet and that the loader reaches has room for the bell too: nothing more need
 * be mapped. */
static bool share_arena(struct collect_calls_space *space, uint64_t near)
{
    for (size_t i = 0; i < space->arena_count && !space->bell_code; i++) {
        const struct collect_calls_arena *arena = &space->arenas[i];
        struct collect_calls_code *code = arena->code;
        if (code->used || code->top < code->size || code->owners > 1 || distance(code->address, near) > REACH)
            continue;
        space->bell_code = collect_calls_code_split(code, PAGE);
        space->bell_words = arena->block.address + COLLECT_BLOCK_SIZE;
    }
    return space->bell_code != NULL;
}

/* The loader will map libraries right below the arena, and stubs fill it from its beginning: branches between
 * the two are quickest where the addresses differ in the low 24 bits alone (collect_calls_build.c,
 * place_patch). How many bytes it must be longer, so that it begins in the middle of such a stretch: `size`
 * bytes end where the mappings around `near` begin. */
static uint64_t lead_of(pid_t pid, uint64_t near, uint64_t size)
{
    struct elf_maps maps;
    uint64_t end = near;
    if (elf_maps_read(pid, &maps, NULL) < 0)
        return 0;
    for (size_t i = maps.count; i-- > 0;) {
        const struct elf_mapping *mapping = &maps.items[i];
        if (mapping->start < end && mapping->end + size + STRETCH <= end)
            break;
        end = mapping->start < end ? mapping->start : end;
    }
    elf_maps_free(&maps);
    return (end - size - STRETCH / 2) % STRETCH;
}

static int map_bell(struct collect_calls_space *space, struct collect_calls_rig *rig, uint64_t near,
                    uint64_t code_ahead, struct base_error *error)
{
    struct collect_calls_code *code;
    struct collect_calls_memory memory;
    struct patch_helper_room room = {.low = near,
                                     .high = near + PAGE,
                                     .size = PAGE + code_ahead,
                                     .data = code_ahead ? COLLECT_CALLS_ARENA_DATA : PAGE};
    if (!code_ahead && share_arena(space, near))
        return BASE_OK;
    if (code_ahead)
        room.size += lead_of(space->pid, near, room.size + room.data);
    int result = collect_calls_space_both(space, rig, room, &code, &memory, error);
    if (result < 0)
        return result;
    if (!code_ahead) {
        space->bell_code = code;
        space->bell_words = memory.address;
        return result;
    }
    result = take_arena(space, code, &memory, error);
    if (result < 0) {
        patch_trace_unmap(&rig->helper, space->pid, code->address, code->size, NULL);
        collect_calls_code_release(code); /* its memory goes with the space */
    }
    return result;
}

static int make_code(const struct collect_calls_space *space, struct base_error *error)
{
    struct patch_x86_64_bell bell = {space->bell_words, PATCH_BELL_TIMEOUT, PATCH_BELL_ROUNDS,
                                     offsetof(struct patch_bell, active)};
    struct patch_x86_64_code code;
    patch_x86_64_code_begin(&code, space->bell_code->address);
    patch_x86_64_bell(&code, &bell);
    if (code.refused != PATCH_FINE || code.size > space->bell_code->size)
        return base_fail(error, BASE_EUNSUPPORTED, "the loader's bell does not fit");
    int result = collect_calls_space_commit_code(space, space->bell_code, 0, space->bell_code->size, error);
    if (result < 0)
        return result;
    memcpy(space->bell_code->bytes, code.bytes, code.size);
    space->bell_code->used = code.size;
    return BASE_OK;
}

/* The jump that makes the loader ring, as a change that is still to be made. */
static int plan_ring(struct collect_calls_space *space, struct collect_calls_rig *rig, uint64_t function,
                     struct base_error *error)
{
    struct patch_memory_change change = {.address = function, .length = PATCH_X86_64_BELL_JUMP};
    int result = patch_trace_read(&rig->helper, space->pid, function, change.before, change.length, error);
    if (result == BASE_OK && !patch_x86_64_bell_site(function, space->bell_code->address, change.after))
        result = base_fail(error, BASE_EUNSUPPORTED, "the loader is out of reach");
    if (result == BASE_OK)
        space->bell_change = change;
    return result;
}

int collect_calls_bell_prepare(struct collect_calls_space *space, struct collect_calls_rig *rig,
                               struct collect_listen *listen, uint64_t code_ahead, struct base_error *error)
{
    uint64_t function;
    uint8_t old[PATCH_X86_64_BELL_LOOK];
    const struct collect_calls_mapping *mapping = find_function(space, &rig->images, &function);
    if (!mapping || patch_trace_read(&rig->helper, space->pid, function, old, sizeof old, NULL) < 0 ||
        !patch_x86_64_bell_fits(old, sizeof old))
        return 0;
    int result = map_bell(space, rig, function, code_ahead, error);
    if (result == BASE_OK)
        result = collect_calls_space_bell(space, error);
    if (result == BASE_OK)
        result = make_code(space, error);
    if (result == BASE_OK)
        result = collect_calls_bell_listen(space, listen, error);
    if (result == BASE_OK)
        result = plan_ring(space, rig, function, error);
    if (result == BASE_OK)
        result = patch_trace_farewell(&rig->helper, space->pid, space->bell_words, 0, error);
    return result < 0 ? result : 1;
}

bool collect_calls_bell_lift(struct collect_calls_space *space, struct collect_calls_rig *rig)
{
    struct patch_memory_change ours = space->bell_change;
    enum collect_calls_undo undo = collect_calls_text_lift(&rig->helper, space->pid, &ours);
    if (undo == COLLECT_CALLS_UNDO_ALL)
        return false;
    space->taken += undo == COLLECT_CALLS_UNDO_OTHERS;
    space->bell_change.length = 0;
    space->bell_set = false;
    return true;
}

int collect_calls_bell_ring(struct collect_calls_space *space, struct collect_calls_rig *rig,
                            struct base_error *error)
{
    int result = patch_trace_stage(&rig->helper, space->pid, &space->bell_change, 1, error);
    if (result == BASE_OK)
        result = patch_trace_apply(&rig->helper, space->pid, error);
    space->bell_set = result == BASE_OK;
    return result;
}

int collect_calls_bell_install(struct collect_calls_space *space, struct collect_calls_rig *rig,
                               struct collect_listen *listen, uint64_t code_ahead, struct base_error *error)
{
    int prepared = collect_calls_bell_prepare(space, rig, listen, code_ahead, error);
    if (prepared <= 0)
        return prepared;
    int result = collect_calls_bell_ring(space, rig, error);
    return result < 0 ? result : prepared;
}
