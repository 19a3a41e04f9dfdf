#include "collect_calls_loose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collect_calls_text.h"
#include "collect_owner.h"
#include "elf_maps.h"
#include "patch_select.h"
#include "patch_target.h"
#include "patch_x86_64_bell.h"
#include "wire_loss.h"

#define SECOND UINT64_C(1000000000)

enum {
    QUIET_RINGS = 5, /* so often a second of quiet is enough */
    LONGEST_WAIT = 60,
    LOOKED_AT_ONCE_NS = 20000000 /* images' births, before the others wait for the next time */
};

void collect_calls_loose_stir(struct collect_calls_space *space)
{
    space->loose.stirred_ns = patch_target_now();
}

static uint64_t wait_of(unsigned times)
{
    uint64_t seconds = times < 6 ? UINT64_C(1) << times : LONGEST_WAIT;
    return SECOND * (seconds < LONGEST_WAIT ? seconds : LONGEST_WAIT);
}

static bool is_time(const struct collect_calls_space *space)
{
    const struct collect_calls_loose *loose = &space->loose;
    uint64_t now = patch_target_now();
    uint64_t quiet = now - (loose->stirred_ns ? loose->stirred_ns : space->born_ns);
    return quiet >= wait_of(loose->rings > QUIET_RINGS ? loose->rings - QUIET_RINGS : 0) &&
           (!loose->failures || now - loose->failed_ns >= wait_of(loose->failures - 1));
}

/* Where it was closed by who had waited too long, what was created meanwhile was not seen: a loss. */
static void set_door(struct collect_calls_space *space, struct collect_calls_rig *rig, bool open)
{
    bool was_open = __atomic_exchange_n(&space->bell->births, open, __ATOMIC_ACQ_REL) != 0;
    if (space->loose.open && !was_open)
        profile_lose(rig->profile, WIRE_LOSS_CALLS_UNSEEN, 1);
    space->loose.open = open;
}

/* --- where births come from --- */

static int stay_held(struct collect_calls_rig *rig, const char *path, const char *why)
{
    const char *name = strrchr(path, '/');
    profile_set_metaf(rig->profile, "calls_held", "%.120s %s", name ? name + 1 : path, why);
    return BASE_EUNSUPPORTED;
}

/* BASE_OK when they are known; BASE_EBUSY: that took long, the others later. */
static int look_at_image(const struct collect_image *image, struct collect_calls_image *known,
                         struct collect_calls_rig *rig, uint64_t began)
{
    if (known->births_known)
        return BASE_OK;
    if (patch_target_now() - began > LOOKED_AT_ONCE_NS)
        return BASE_EBUSY;
    if (patch_births_find(image->elf, &known->births, NULL) < 0)
        return stay_held(rig, image->path, "cannot be read");
    known->births_known = true;
    return BASE_OK;
}

/* Of a mapping; *births are its image's. */
static int look_at_mapping(const struct collect_calls_space *space, struct collect_calls_rig *rig,
                           const struct collect_calls_mapping *mapping, uint64_t began,
                           const struct patch_births **births)
{
    const struct collect_image *image = &rig->images.images->items[mapping->image];
    struct collect_calls_image *known =
        image->elf ? collect_calls_images_get(&rig->images, mapping->image) : NULL;
    if (!known)
        return stay_held(rig, image->path, "cannot be read");
    int result = look_at_image(image, known, rig, began);
    if (result < 0)
        return result;
    *births = &known->births;
    if (known->births.count && patch_select_leaves_out(patch_select_image_name(image->elf, image->path),
                                                       rig->images.wish.images, rig->images.wish.image_count))
        return stay_held(rig, image->path, "is to be left as it is, and makes threads or processes");
    if (known->births.is_bare)
        return stay_held(rig, image->path, "makes system calls that no bell can tell of");
    if (known->births.count && collect_calls_space_object(space, mapping->start))
        return stay_held(rig, image->path, "makes threads or processes, and its calls are counted");
    return BASE_OK;
}

/* --- bells --- */

static void forget(struct collect_calls_loose *loose, size_t at)
{
    loose->count--;
    loose->changes[at] = loose->changes[loose->count];
    loose->ranges[at] = loose->ranges[loose->count];
}

/* What stands no more where it was put, because an object was closed, is forgotten. */
static void forget_gone(struct collect_calls_space *space)
{
    struct collect_calls_loose *loose = &space->loose;
    for (size_t i = loose->count; i-- > 0;) {
        struct patch_memory_change ours = loose->changes[i];
        if (collect_calls_text_undo(space->pid, &ours) == COLLECT_CALLS_UNDO_GONE ||
            memcmp(ours.before, ours.after, ours.length) == 0)
            forget(loose, i);
    }
}

static bool has_bell(const struct collect_calls_loose *loose, size_t count, uint64_t function)
{
    for (size_t i = 0; i < count; i++)
        if (loose->changes[i].address == function)
            return true;
    return false;
}

/* Code is only added to what is there, so it may be while the process runs. */
static int add_code(struct collect_calls_space *space, const struct patch_x86_64_code *code,
                    uint64_t *address)
{
    struct collect_calls_code *memory = space->bell_code;
    if (code->refused != PATCH_FINE || code->size > memory->size - memory->used)
        return BASE_EUNSUPPORTED;
    memcpy(memory->bytes + memory->used, code->bytes, code->size);
    *address = memory->address + memory->used;
    memory->used += code->size;
    return BASE_OK;
}

static int add_bell(struct collect_calls_space *space)
{
    struct patch_x86_64_code code;
    struct patch_x86_64_bell bell = {space->bell_words, PATCH_BELL_TIMEOUT, PATCH_BELL_ROUNDS,
                                     offsetof(struct patch_bell, births)};
    if (space->loose.bell)
        return BASE_OK;
    patch_x86_64_code_begin(&code, space->bell_code->address + space->bell_code->used);
    patch_x86_64_bell(&code, &bell);
    return add_code(space, &code, &space->loose.bell);
}

/* An agent's hook is there: five bytes of a jump take the place of the first instructions in what the bell moves (the rest of them has
 * moved into the hook). True: `live` holds it. */
static bool is_hooked(const struct collect_calls_space *space, uint64_t function,
                      uint8_t live[PATCH_X86_64_BELL_JUMP])
{
    struct elf_maps maps = {0};
    bool hooked =
        patch_target_read(space->pid, function, live, PATCH_X86_64_BELL_JUMP) == PATCH_X86_64_BELL_JUMP &&
        live[0] == 0xe9 && elf_maps_read(space->pid, &maps, NULL) == BASE_OK &&
        collect_calls_text_is_hooked(space->pid, &maps, function);
    elf_maps_free(&maps);
    return hooked;
}

/* The change at one function, `at` in the lists; its text is as in the file, or an agent's hook is there. */
static int prepare(struct collect_calls_space *space, const struct elf_image *image, uint64_t bias,
                   const struct patch_birth *birth, size_t at)
{
    struct patch_memory_change *change = &space->loose.changes[at];
    struct patch_x86_64_code code;
    uint8_t live[PATCH_X86_64_BELL_JUMP];
    uint64_t function = birth->start + bias, stub;
    size_t available;
    const uint8_t *bytes = elf_image_at(image, birth->start, &available);
    *change = (struct patch_memory_change){.address = function, .length = PATCH_X86_64_BELL_JUMP};
    if (!bytes || available < birth->length)
        return BASE_EUNSUPPORTED;
    bool hooked = is_hooked(space, function, live);
    memcpy(change->before, hooked ? live : bytes, change->length);
    struct patch_x86_64_birth wish = {function,
                                      space->loose.bell,
                                      hooked ? live : bytes,
                                      hooked ? PATCH_X86_64_BELL_JUMP : birth->length,
                                      birth->argument,
                                      patch_births_numbers,
                                      PATCH_BIRTHS_NUMBERS};
    patch_x86_64_code_begin(&code, space->bell_code->address + space->bell_code->used);
    patch_x86_64_bell_stub(&code, &wish);
    int result = add_code(space, &code, &stub);
    if (result == BASE_OK && !patch_x86_64_bell_site(function, stub, change->after))
        result = BASE_EUNSUPPORTED;
    space->loose.ranges[at] = (struct patch_step_range){function, birth->past + bias};
    return result;
}

/* Prepares bells that are missing, behind those that are there. Returns how many there are then, or an
 * error. */
static int prepare_all(struct collect_calls_space *space, struct collect_calls_rig *rig)
{
    uint64_t began = patch_target_now();
    size_t count = space->loose.count;
    int result = BASE_OK;
    for (size_t i = 0; i < space->mapping_count; i++) {
        const struct collect_calls_mapping *mapping = &space->mappings[i];
        const struct collect_image *image = &rig->images.images->items[mapping->image];
        const struct patch_births *births = NULL;
        result = look_at_mapping(space, rig, mapping, began, &births);
        for (size_t j = 0; result == BASE_OK && j < births->count; j++) {
            uint64_t function = births->items[j].start + mapping->bias;
            if (function < mapping->start || function >= mapping->end ||
                has_bell(&space->loose, count, function))
                continue;
            if (count == COLLECT_CALLS_BELLS ||
                prepare(space, image->elf, mapping->bias, &births->items[j], count) < 0)
                return stay_held(rig, image->path, "has a place where no bell fits");
            const struct patch_memory_change *change = &space->loose.changes[count];
            if (!collect_calls_text_holds(space->pid, change, change->before))
                return stay_held(rig, image->path,
                                 "makes threads or processes by a function that somebody else has changed");
            count++;
        }
        if (result < 0)
            return result;
    }
    return (int)count;
}

/* The space is held. Nobody may be, or come back, among the instructions that move. */
static int apply_held(struct collect_calls_space *space, struct collect_calls_rig *rig, size_t count)
{
    struct collect_calls_loose *loose = &space->loose;
    struct patch_step_range moved[COLLECT_CALLS_BELLS];
    size_t fresh = count - loose->count;
    for (size_t i = 0; i < fresh; i++) {
        const struct patch_memory_change *change = &loose->changes[loose->count + i];
        moved[i] = (struct patch_step_range){change->address + 1, change->address + change->length};
    }
    int result = patch_trace_clear(&rig->helper, space->pid, moved, fresh, NULL);
    if (result == BASE_OK)
        result = patch_trace_stage(&rig->helper, space->pid, &loose->changes[loose->count], fresh, NULL);
    if (result == BASE_OK)
        result = patch_trace_apply(&rig->helper, space->pid, NULL);
    if (result == BASE_OK)
        loose->count = count;
    return result;
}

static int install(struct collect_calls_space *space, struct collect_calls_rig *rig)
{
    forget_gone(space);
    int result = add_bell(space);
    int count = result < 0 ? result : prepare_all(space, rig);
    if (count < 0 || (size_t)count == space->loose.count)
        return count < 0 ? count : BASE_OK;
    result = patch_trace_hold(&rig->helper, space->pid, NULL, NULL);
    if (result < 0)
        return result;
    result = apply_held(space, rig, (size_t)count);
    patch_trace_release(&rig->helper, space->pid, NULL, NULL);
    return result;
}

/* --- letting go --- */

static int let_go(struct collect_calls_space *space, struct collect_calls_rig *rig)
{
    struct collect_calls_loose *loose = &space->loose;
    const struct collect_calls_code *code = space->bell_code;
    if (!loose->is_owned) /* whom the session has from the beginning it has locked itself */
        loose->is_owned = collect_owner_take(space->pid, &loose->owner, NULL) == BASE_OK && loose->owner >= 0;
    loose->ranges[loose->count] = (struct patch_step_range){code->address, code->address + code->size};
    set_door(space, rig, true); /* first: who has passed it before is in one of the ranges */
    return patch_trace_loosen(&rig->helper, space->pid, loose->ranges, loose->count + 1, NULL);
}

void collect_calls_loose_tend(struct collect_calls_space *space, struct collect_calls_rig *rig)
{
    if (!space->bell || !space->bell_code || !space->bell_set) {
        if (space->bell_words == 0 && is_time(space))
            profile_set_meta(rig->profile, "calls_held", "a program without a loader's bell");
        return;
    }
    if (space->processes != 1 || !is_time(space))
        return;
    int result = space->loose.open ? BASE_OK : install(space, rig);
    if (result == BASE_OK)
        result = let_go(space, rig);
    if (result == BASE_OK) {
        space->loose.failures = 0;
        return;
    }
    if (result == BASE_EPERMISSION)
        profile_set_meta(rig->profile, "calls_held", "it could not be traced again by this user");
    set_door(space, rig, false);
    space->loose.failed_ns = patch_target_now();
    space->loose.failures++;
}

/* What is ours to undo, less breakpoints of others, as it is now: the list stays as it was, for where that fails and they go. Returns how
 * many; `stays`: that one is not ours any more. */
static size_t list_ours(const struct collect_calls_space *space,
                        struct patch_memory_change ours[COLLECT_CALLS_BELLS], bool stays[COLLECT_CALLS_BELLS])
{
    const struct collect_calls_loose *loose = &space->loose;
    size_t count = 0;
    for (size_t i = 0; i < loose->count; i++) {
        ours[count] = loose->changes[i];
        stays[i] = collect_calls_text_undo(space->pid, &ours[count]) == COLLECT_CALLS_UNDO_OTHERS;
        count += !stays[i];
    }
    return count;
}

int collect_calls_loose_end(struct collect_calls_space *space, struct collect_calls_rig *rig,
                            struct base_error *error)
{
    struct collect_calls_loose *loose = &space->loose;
    struct patch_memory_change ours[COLLECT_CALLS_BELLS];
    bool stays[COLLECT_CALLS_BELLS];
    if (!loose->count)
        return BASE_OK;
    int result = patch_trace_hold(&rig->helper, space->pid, NULL, error);
    if (result < 0)
        return result;
    set_door(space, rig, false);
    forget_gone(space);
    size_t count = list_ours(space, ours, stays);
    result = patch_trace_stage(&rig->helper, space->pid, ours, count, error);
    if (result == BASE_OK)
        result = patch_trace_undo(&rig->helper, space->pid, error);
    for (size_t i = loose->count; result == BASE_OK && i-- > 0;)
        if (!stays[i])
            forget(loose, i);
    patch_trace_release(&rig->helper, space->pid, NULL, NULL);
    return result;
}

bool collect_calls_loose_lift(struct collect_calls_space *space, struct collect_calls_rig *rig,
                              uint64_t address)
{
    struct collect_calls_loose *loose = &space->loose;
    size_t at = 0;
    while (at < loose->count && loose->changes[at].address != address)
        at++;
    if (at == loose->count)
        return false;
    struct patch_memory_change ours = loose->changes[at];
    enum collect_calls_undo undo = collect_calls_text_lift(&rig->helper, space->pid, &ours);
    if (undo == COLLECT_CALLS_UNDO_ALL)
        return false;
    space->taken += undo == COLLECT_CALLS_UNDO_OTHERS;
    forget(loose, at);
    collect_calls_loose_close(space, rig);
    return true;
}

void collect_calls_loose_close(struct collect_calls_space *space, struct collect_calls_rig *rig)
{
    collect_calls_loose_stir(space);
    set_door(space, rig, false);
}

int collect_calls_loose_take(struct collect_calls_space *space, struct collect_calls_rig *rig,
                             struct base_error *error)
{
    collect_calls_loose_stir(space);
    if (!space->loose.open)
        return BASE_OK;
    int result = patch_trace_tighten(&rig->helper, space->pid, error);
    set_door(space, rig, false);
    space->loose.rings++;
    return result;
}
