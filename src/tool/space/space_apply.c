/* Putting patches in force: the list of changes from what is in force to what is to be, threads that stand
 * among the bytes, and text that is not as in the file.
 *
 * The helper makes all changes of a hold or none. What stands against one - a thread that cannot be moved,
 * bytes that somebody else has changed - is left out by object->wanted, and the next round is made without
 * it. */
#include "space_apply.h"

#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "helper_trace.h"
#include "proc_maps.h"
#include "space_make.h"
#include "space_text.h"
#include "trace_frames.h"
#include "wire_loss.h"

#define STEP_ROUNDS 4

struct trace_memory_change space_apply_change(const struct slab_write *write)
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

/* Nothing that follows lies before `write`. All threads are held meanwhile, so that a list of changes side by
 * side is as good as one that is too long. */
static int join_write(struct joined *joined, const struct slab_write *write, bool in_force,
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

bool space_apply_is_lifted(const struct space_object *object, const struct slab_write *write)
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
        if (!in_force || !space_apply_is_lifted(object, old))
            result = join_write(&joined, in_force ? old : fresh, in_force, stage, error);
        *(in_force ? &i : &j) += 1;
    }
    return result == BASE_OK ? publish_joined(&joined, joined.length, stage, error) : result;
}

/* Has the doorbell been prepared, and is it not in force yet? */
static bool has_new_doorbell(const struct space *space)
{
    return space->doorbell_change.length && !space->doorbell_set;
}

/* Where objects lie by address, so do their changes. */
int space_apply_stage(const struct space *space, struct space_session *session, struct base_error *error)
{
    struct trace_stage stage = TRACE_STAGE_EMPTY;
    int result = BASE_OK;
    for (size_t i = 0; i < space->object_count && result == BASE_OK; i++)
        if (space->objects[i].next)
            result = list_changes(&space->objects[i], &stage, error);
    if (result == BASE_OK && has_new_doorbell(space))
        result = trace_stage_add(&stage, &space->doorbell_change, error);
    if (result == BASE_OK)
        result = helper_trace_stage_list(&session->helper, space->pid, &stage, error);
    trace_stage_free(&stage);
    return result;
}

static void drop_write(struct space_object *object, const struct slab_write *write)
{
    uint32_t sites = object->planned->plan.header->site_count;
    object->wanted[write->site != PLAN_NONE ? write->site : sites + write->hook] = 0;
    object->differing++;
}

static int move_thread(struct space *space, struct space_session *session, pid_t tid, uint64_t pc)
{
    struct user_regs_struct registers;
    int result = helper_trace_read_registers(&session->helper, space->pid, tid, &registers, NULL);
    registers.rip = pc;
    return result < 0 ? result
                      : helper_trace_write_registers(&session->helper, space->pid, tid, &registers, NULL);
}

static int step_out_of_write(struct space *space, struct space_session *session, pid_t tid,
                             const struct slab_write *write)
{
    struct trace_step_range range = {write->address + 1, write->address + write->length};
    return helper_trace_step_out(&session->helper, space->pid, tid, &range, 1, NULL);
}

/* False: the thread stands where bytes are to change, and cannot be moved: that place is left out. */
static bool clear_thread(struct space *space, struct space_session *session, struct space_object *object,
                         const struct trace_stop_thread *thread)
{
    uint64_t other;
    const struct slab *slab = &object->next->slab;
    enum slab_place place = slab_place(slab, thread->pc, &other);
    if (place == SLAB_FREE)
        return true;
    const struct slab_write *write = slab_write_around(slab, thread->pc);
    int result = place == SLAB_MOVED ? move_thread(space, session, thread->tid, other)
                                     : step_out_of_write(space, session, thread->tid, write);
    if (result == BASE_OK)
        return true;
    drop_write(object, write);
    return false;
}

/* What prevents the changes of a hold. */
struct clearing {
    struct space *space;
    struct space_session *session;
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

/* A thread in a signal handler comes back among the bytes when the handler returns. At the first of them it
 * executes the change itself. */
static int clear_frame(void *context, const struct trace_frame *frame, struct base_error *error)
{
    struct clearing *clearing = context;
    struct space_object *object = object_to_change(clearing->space, frame->pc);
    const struct slab_write *write = object ? slab_write_around(&object->next->slab, frame->pc) : NULL;
    (void)error;
    if (write && write->address != frame->pc) {
        drop_write(object, write);
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
    clearing->left_out |= !clear_thread(clearing->space, clearing->session, object, thread);
}

/* BASE_EBUSY: something was left out. 1: a thread was moved, and should be looked at once more. */
static int clear_once(struct space *space, struct space_session *session, struct base_error *error)
{
    struct clearing clearing = {space, session, false, false};
    struct trace_stop_thread *threads;
    size_t count;
    int result = helper_trace_threads(&session->helper, space->pid, &threads, &count, error);
    if (result < 0)
        return result;
    for (size_t i = 0; i < count; i++)
        clear_pc(&clearing, &threads[i]);
    result = trace_frames_each(threads, count, clear_frame, &clearing, error);
    free(threads);
    return result < 0 ? result : clearing.left_out ? BASE_EBUSY : clearing.moved;
}

static int clear_threads(struct space *space, struct space_session *session, struct base_error *error)
{
    int result = 1;
    for (int i = 0; i < STEP_ROUNDS && result > 0; i++)
        result = clear_once(space, session, error);
    return result;
}

/* Is a write of the patch in force among the bytes of `fresh`, which are not the file's then? *from: the
 * first that may be, for this one and those behind it. */
static bool is_in_force(const struct space_object *object, const struct slab_write *fresh, size_t *from)
{
    const struct slab *slab = object->patch ? &object->patch->slab : NULL;
    uint64_t end = fresh->address + fresh->length;
    while (slab && *from < slab->write_count &&
           slab->writes[*from].address + slab->writes[*from].length <= fresh->address)
        ++*from;
    for (size_t i = *from; slab && i < slab->write_count && slab->writes[i].address < end; i++)
        if (!space_apply_is_lifted(object, &slab->writes[i]))
            return true;
    return false;
}

/* Fresh writes to places that are not as in the file; *hooked: those of them within a hook of the agent. Both
 * lists are by address. */
static size_t leave_out_fresh(const struct space *space, struct space_object *object,
                              const struct proc_maps *maps, size_t *hooked)
{
    const struct slab *to = &object->next->slab;
    size_t found = 0, from = 0;
    for (size_t i = 0; i < to->write_count; i++) {
        const struct slab_write *write = &to->writes[i];
        struct trace_memory_change change = space_apply_change(write);
        if (is_in_force(object, write, &from) || space_text_holds(space->pid, &change, change.before))
            continue;
        drop_write(object, write);
        *hooked += space_text_has_hook(space->pid, maps, write->address, write->length);
        found++;
    }
    return found;
}

bool space_apply_lift(struct space *space, struct space_session *session, struct space_object *object,
                      const struct slab_write *write)
{
    struct trace_memory_change change = space_apply_change(write);
    if (space_apply_is_lifted(object, write) ||
        !base_array_room(object->lifted, object->lifted_count, object->lifted_capacity))
        return false;
    enum space_undo undo = space_text_lift(&session->helper, space->pid, &change);
    if (undo == SPACE_UNDO_ALL)
        return false;
    object->lifted[object->lifted_count++] = write->address;
    space->overwritten += undo == SPACE_UNDO_OTHERS;
    drop_write(object, write);
    return true;
}

/* Finds what is neither as in the file nor as we left it, and leaves it out from now on. Returns how many
 * places. */
static size_t leave_out_differing(struct space *space, struct space_session *session)
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
            found += space_apply_lift(space, session, object, &object->patch->slab.writes[j]);
    }
    proc_maps_free(&maps);
    profile_lose(session->profile, WIRE_LOSS_TEXT_ALTERED, found - hooked);
    return found;
}

static void note_stubs(struct space_session *session, const struct slab *slab)
{
    for (uint32_t i = 0; i < slab->plan->header->site_count; i++)
        session->stub_sites += slab->stubs[i] != 0;
    if (slab->stubs_end)
        session->stub_bytes += slab->stubs_end - slab->regions[0].address;
}

static void put_in_force(struct space *space, struct space_session *session)
{
    space->doorbell_set |= has_new_doorbell(space);
    for (size_t i = 0; i < space->object_count; i++) {
        struct space_object *object = &space->objects[i];
        if (!object->next)
            continue;
        if (object->patch && base_array_room(object->older, object->older_count, object->older_capacity))
            object->older[object->older_count++] = object->patch;
        if (!object->patch)
            note_stubs(session, &object->next->slab);
        object->patch = object->next;
        object->lifted_count = 0;
        object->next = NULL;
        object->stale = false;
    }
}

int space_apply(struct space *space, struct space_session *session, struct base_error *error)
{
    struct base_error why = {0};
    int cleared = clear_threads(space, session, &why);
    int result = cleared < 0 ? cleared : helper_trace_apply(&session->helper, space->pid, &why);
    if (result == BASE_OK) {
        put_in_force(space, session);
        return BASE_OK;
    }
    if (result == BASE_EBUSY && cleared >= 0 && !leave_out_differing(space, session))
        result = BASE_EIO; /* no round could end differently */
    space_make_forget(space);
    return base_fail(error, result, "%s", why.text[0] ? why.text : "threads stand in text that is to change");
}
