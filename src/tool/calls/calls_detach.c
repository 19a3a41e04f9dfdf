#include "calls_detach.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_clock.h"
#include "plan_select.h"
#include "proc_maps.h"
#include "proc_owner.h"
#include "proc_target.h"
#include "space_text.h"
#include "stub_x86_64_doorbell.h"
#include "wire_loss.h"

#define SECOND UINT64_C(1000000000)

enum {
    QUIET_NOTIFICATIONS = 5, /* up to so many a second of quiet is enough */
    LONGEST_WAIT = 60,
    SEARCHED_AT_ONCE_NS = 20000000 /* of searching images, before the others wait for the next time */
};

void calls_detach_note_activity(struct space *space)
{
    space->detached.created_ns = base_clock_now();
}

static uint64_t wait_of(unsigned times)
{
    uint64_t seconds = times < 6 ? UINT64_C(1) << times : LONGEST_WAIT;
    return SECOND * (seconds < LONGEST_WAIT ? seconds : LONGEST_WAIT);
}

static bool is_time(const struct space *space)
{
    const struct space_detached *detached = &space->detached;
    uint64_t now = base_clock_now();
    uint64_t quiet = now - (detached->created_ns ? detached->created_ns : space->created_ns);
    return quiet >= wait_of(detached->notifications > QUIET_NOTIFICATIONS
                                ? detached->notifications - QUIET_NOTIFICATIONS
                                : 0) &&
           (!detached->failures || now - detached->failed_ns >= wait_of(detached->failures - 1));
}

/* Where a thread that had waited too long has disabled it, what was created meanwhile was not observed: a
 * loss. */
static void enable_creations(struct space *space, struct space_session *session, bool enabled)
{
    bool was_open = __atomic_exchange_n(&space->doorbell->creations, enabled, __ATOMIC_ACQ_REL) != 0;
    if (space->detached.open && !was_open)
        profile_lose(session->profile, WIRE_LOSS_CALLS_UNSEEN, 1);
    space->detached.open = enabled;
}

/* --- functions that create --- */

static int stay_held(struct space_session *session, const char *path, const char *why)
{
    const char *name = strrchr(path, '/');
    profile_set_metaf(session->profile, "calls_held", "%.120s %s", name ? name + 1 : path, why);
    return BASE_EUNSUPPORTED;
}

/* BASE_OK when they are known; BASE_EBUSY: that took long, the other images later. */
static int find_creations(const struct sample_image *image, struct space_image *known,
                          struct space_session *session, uint64_t began)
{
    if (known->creations_known)
        return BASE_OK;
    if (base_clock_now() - began > SEARCHED_AT_ONCE_NS)
        return BASE_EBUSY;
    if (plan_creation_find(image->elf, &known->creations, NULL) < 0)
        return stay_held(session, image->path, "cannot be read");
    known->creations_known = true;
    return BASE_OK;
}

/* Of a mapping; *creations are its image's. */
static int creations_of_mapping(const struct space *space, struct space_session *session,
                                const struct space_mapping *mapping, uint64_t began,
                                const struct plan_creations **creations)
{
    const struct sample_image *image = &session->images.images->items[mapping->image];
    struct space_image *known = image->elf ? space_images_get(&session->images, mapping->image) : NULL;
    if (!known)
        return stay_held(session, image->path, "cannot be read");
    int result = find_creations(image, known, session, began);
    if (result < 0)
        return result;
    *creations = &known->creations;
    if (known->creations.count &&
        plan_select_leaves_out(plan_select_image_name(image->elf, image->path),
                               session->images.request.images, session->images.request.image_count))
        return stay_held(session, image->path, "is to be left as it is, and creates threads or processes");
    if (known->creations.is_raw)
        return stay_held(session, image->path, "makes system calls that no doorbell can precede");
    if (known->creations.count && space_object(space, mapping->start))
        return stay_held(session, image->path, "creates threads or processes, and its calls are counted");
    return BASE_OK;
}

/* --- doorbells --- */

static void forget_doorbell(struct space_detached *detached, size_t at)
{
    detached->count--;
    detached->changes[at] = detached->changes[detached->count];
    detached->ranges[at] = detached->ranges[detached->count];
}

/* What is no longer where it was written, because an object was closed, is forgotten. */
static void forget_gone(struct space *space)
{
    struct space_detached *detached = &space->detached;
    for (size_t i = detached->count; i-- > 0;) {
        struct trace_memory_change ours = detached->changes[i];
        if (space_text_undo(space->pid, &ours) == SPACE_UNDO_GONE ||
            memcmp(ours.before, ours.after, ours.length) == 0)
            forget_doorbell(detached, i);
    }
}

static bool has_doorbell(const struct space_detached *detached, size_t count, uint64_t function)
{
    for (size_t i = 0; i < count; i++)
        if (detached->changes[i].address == function)
            return true;
    return false;
}

/* Code is only added to what is there, so it may be while the process runs. */
static int add_code(struct space *space, const struct stub_x86_64_code *code, uint64_t *address)
{
    struct space_code *memory = space->doorbell_code;
    if (code->refused != STUB_FINE || code->size > memory->size - memory->used)
        return BASE_EUNSUPPORTED;
    memcpy(memory->bytes + memory->used, code->bytes, code->size);
    *address = memory->address + memory->used;
    memory->used += code->size;
    return BASE_OK;
}

static int add_doorbell(struct space *space)
{
    struct stub_x86_64_code code;
    struct stub_x86_64_doorbell doorbell = {space->doorbell_words, STUB_DOORBELL_TIMEOUT,
                                            STUB_DOORBELL_ROUNDS, offsetof(struct stub_doorbell, creations)};
    if (space->detached.doorbell)
        return BASE_OK;
    stub_x86_64_code_begin(&code, space->doorbell_code->address + space->doorbell_code->used);
    stub_x86_64_doorbell(&code, &doorbell);
    return add_code(space, &code, &space->detached.doorbell);
}

/* An agent's hook is there: five bytes of a jump take the place of the first instructions in what the
 * doorbell moves (the rest of them has moved into the hook). True: `live` holds it. */
static bool is_hooked(const struct space *space, uint64_t function, uint8_t live[STUB_X86_64_DOORBELL_JUMP])
{
    struct proc_maps maps = {0};
    bool hooked = proc_target_read(space->pid, function, live, STUB_X86_64_DOORBELL_JUMP) ==
                      STUB_X86_64_DOORBELL_JUMP &&
                  live[0] == 0xe9 && proc_maps_read(space->pid, &maps, NULL) == BASE_OK &&
                  space_text_is_hooked(space->pid, &maps, function);
    proc_maps_free(&maps);
    return hooked;
}

/* The change at one function, `at` in the lists; its text is as in the file, or an agent's hook is there. */
static int prepare_doorbell(struct space *space, const struct elf_image *image, uint64_t bias,
                            const struct plan_creation *creation, size_t at)
{
    struct trace_memory_change *change = &space->detached.changes[at];
    struct stub_x86_64_code code;
    uint8_t live[STUB_X86_64_DOORBELL_JUMP];
    uint64_t function = creation->start + bias, stub;
    size_t available;
    const uint8_t *bytes = elf_image_at(image, creation->start, &available);
    *change = (struct trace_memory_change){.address = function, .length = STUB_X86_64_DOORBELL_JUMP};
    if (!bytes || available < creation->length)
        return BASE_EUNSUPPORTED;
    bool hooked = is_hooked(space, function, live);
    memcpy(change->before, hooked ? live : bytes, change->length);
    struct stub_x86_64_creation request = {function,
                                           space->detached.doorbell,
                                           hooked ? live : bytes,
                                           hooked ? STUB_X86_64_DOORBELL_JUMP : creation->length,
                                           creation->argument,
                                           plan_creation_numbers,
                                           PLAN_CREATION_NUMBERS};
    stub_x86_64_code_begin(&code, space->doorbell_code->address + space->doorbell_code->used);
    stub_x86_64_doorbell_stub(&code, &request);
    int result = add_code(space, &code, &stub);
    if (result == BASE_OK && !stub_x86_64_doorbell_bytes(function, stub, change->after))
        result = BASE_EUNSUPPORTED;
    space->detached.ranges[at] = (struct trace_step_range){function, creation->past + bias};
    return result;
}

/* Prepares doorbells that are missing, behind those that are there. Returns how many there are then, or an
 * error. */
static int prepare_doorbells(struct space *space, struct space_session *session)
{
    uint64_t began = base_clock_now();
    size_t count = space->detached.count;
    int result = BASE_OK;
    for (size_t i = 0; i < space->mapping_count; i++) {
        const struct space_mapping *mapping = &space->mappings[i];
        const struct sample_image *image = &session->images.images->items[mapping->image];
        const struct plan_creations *creations = NULL;
        result = creations_of_mapping(space, session, mapping, began, &creations);
        for (size_t j = 0; result == BASE_OK && j < creations->count; j++) {
            uint64_t function = creations->items[j].start + mapping->bias;
            if (function < mapping->start || function >= mapping->end ||
                has_doorbell(&space->detached, count, function))
                continue;
            if (count == SPACE_DOORBELLS ||
                prepare_doorbell(space, image->elf, mapping->bias, &creations->items[j], count) < 0)
                return stay_held(session, image->path, "has a place where no doorbell fits");
            const struct trace_memory_change *change = &space->detached.changes[count];
            if (!space_text_holds(space->pid, change, change->before))
                return stay_held(session, image->path,
                                 "creates threads or processes by a function that somebody else has changed");
            count++;
        }
        if (result < 0)
            return result;
    }
    return (int)count;
}

/* The space is held. No thread may be, or come back, among the instructions that move. */
static int apply_held(struct space *space, struct space_session *session, size_t count)
{
    struct space_detached *detached = &space->detached;
    struct trace_step_range moved[SPACE_DOORBELLS];
    size_t fresh = count - detached->count;
    for (size_t i = 0; i < fresh; i++) {
        const struct trace_memory_change *change = &detached->changes[detached->count + i];
        moved[i] = (struct trace_step_range){change->address + 1, change->address + change->length};
    }
    int result = helper_trace_clear(&session->helper, space->pid, moved, fresh, NULL);
    if (result == BASE_OK)
        result = helper_trace_stage(&session->helper, space->pid, &detached->changes[detached->count], fresh,
                                    NULL);
    if (result == BASE_OK)
        result = helper_trace_apply(&session->helper, space->pid, NULL);
    if (result == BASE_OK)
        detached->count = count;
    return result;
}

static int install_doorbells(struct space *space, struct space_session *session)
{
    forget_gone(space);
    int result = add_doorbell(space);
    int count = result < 0 ? result : prepare_doorbells(space, session);
    if (count < 0 || (size_t)count == space->detached.count)
        return count < 0 ? count : BASE_OK;
    result = helper_trace_hold(&session->helper, space->pid, NULL, NULL);
    if (result < 0)
        return result;
    result = apply_held(space, session, (size_t)count);
    helper_trace_release(&session->helper, space->pid, NULL, NULL);
    return result;
}

/* --- detaching --- */

static int detach_process(struct space *space, struct space_session *session)
{
    struct space_detached *detached = &space->detached;
    const struct space_code *code = space->doorbell_code;
    if (!detached->is_owned) /* those that the session has from the beginning it has locked itself */
        detached->is_owned =
            proc_owner_take(space->pid, &detached->owner, NULL) == BASE_OK && detached->owner >= 0;
    detached->ranges[detached->count] = (struct trace_step_range){code->address, code->address + code->size};
    enable_creations(space, session,
                     true); /* first: a thread that has passed it before is in one of the ranges */
    return helper_trace_detach(&session->helper, space->pid, detached->ranges, detached->count + 1, NULL);
}

void calls_detach_tend(struct space *space, struct space_session *session)
{
    if (!space->doorbell || !space->doorbell_code || !space->doorbell_set) {
        if (space->doorbell_words == 0 && is_time(space))
            profile_set_meta(session->profile, "calls_held", "a program whose loader has no doorbell");
        return;
    }
    if (space->processes != 1 || !is_time(space))
        return;
    int result = space->detached.open ? BASE_OK : install_doorbells(space, session);
    if (result == BASE_OK)
        result = detach_process(space, session);
    if (result == BASE_OK) {
        space->detached.failures = 0;
        return;
    }
    if (result == BASE_EPERMISSION)
        profile_set_meta(session->profile, "calls_held", "it could not be traced again by this user");
    enable_creations(space, session, false);
    space->detached.failed_ns = base_clock_now();
    space->detached.failures++;
}

/* What is ours to undo, less breakpoints of others, as it is now: the list stays as it was, in case that
 * fails and the breakpoints go. Returns how many; `stays`: that one is not ours any more. */
static size_t list_ours(const struct space *space, struct trace_memory_change ours[SPACE_DOORBELLS],
                        bool stays[SPACE_DOORBELLS])
{
    const struct space_detached *detached = &space->detached;
    size_t count = 0;
    for (size_t i = 0; i < detached->count; i++) {
        ours[count] = detached->changes[i];
        stays[i] = space_text_undo(space->pid, &ours[count]) == SPACE_UNDO_OTHERS;
        count += !stays[i];
    }
    return count;
}

int calls_detach_end(struct space *space, struct space_session *session, struct base_error *error)
{
    struct space_detached *detached = &space->detached;
    struct trace_memory_change ours[SPACE_DOORBELLS];
    bool stays[SPACE_DOORBELLS];
    if (!detached->count)
        return BASE_OK;
    int result = helper_trace_hold(&session->helper, space->pid, NULL, error);
    if (result < 0)
        return result;
    enable_creations(space, session, false);
    forget_gone(space);
    size_t count = list_ours(space, ours, stays);
    result = helper_trace_stage(&session->helper, space->pid, ours, count, error);
    if (result == BASE_OK)
        result = helper_trace_undo(&session->helper, space->pid, error);
    for (size_t i = detached->count; result == BASE_OK && i-- > 0;)
        if (!stays[i])
            forget_doorbell(detached, i);
    helper_trace_release(&session->helper, space->pid, NULL, NULL);
    return result;
}

bool calls_detach_lift(struct space *space, struct space_session *session, uint64_t address)
{
    struct space_detached *detached = &space->detached;
    size_t at = 0;
    while (at < detached->count && detached->changes[at].address != address)
        at++;
    if (at == detached->count)
        return false;
    struct trace_memory_change ours = detached->changes[at];
    enum space_undo undo = space_text_lift(&session->helper, space->pid, &ours);
    if (undo == SPACE_UNDO_ALL)
        return false;
    space->overwritten += undo == SPACE_UNDO_OTHERS;
    forget_doorbell(detached, at);
    calls_detach_close(space, session);
    return true;
}

void calls_detach_close(struct space *space, struct space_session *session)
{
    calls_detach_note_activity(space);
    enable_creations(space, session, false);
}

int calls_detach_reattach(struct space *space, struct space_session *session, struct base_error *error)
{
    calls_detach_note_activity(space);
    if (!space->detached.open)
        return BASE_OK;
    int result = helper_trace_reattach(&session->helper, space->pid, error);
    enable_creations(space, session, false);
    space->detached.notifications++;
    return result;
}
