#include "calls_uprobe.h"

#include "base_clock.h"
#include "calls_detach.h"
#include "calls_doorbell.h"
#include "helper_trace.h"
#include "proc_uprobe.h"
#include "space_apply.h"
#include "stub_x86_64_site.h"
#include "wire_loss.h"

struct place {
    uint64_t address;
    struct space_object *object;    /* NULL: a doorbell's */
    const struct slab_write *write; /* of the object */
};

struct uprobe_check {
    pid_t pid;
    struct place places[PROC_UPROBE_AT_ONCE], found[PROC_UPROBE_MOST];
    size_t count, found_count;
};

/* Where a hook has made way already, the breakpoint is found as long as it stays. */
static bool is_new(const struct place *place)
{
    return !place->object || !space_apply_is_lifted(place->object, place->write);
}

static void check_places(struct uprobe_check *check)
{
    uint64_t addresses[PROC_UPROBE_AT_ONCE];
    uint8_t bytes[PROC_UPROBE_AT_ONCE];
    for (size_t i = 0; i < check->count; i++)
        addresses[i] = check->places[i].address;
    size_t got = proc_uprobe_read(check->pid, addresses, check->count, bytes);
    for (size_t i = 0; i < got && check->found_count < PROC_UPROBE_MOST; i++)
        if (bytes[i] == TRACE_MEMORY_BREAKPOINT && is_new(&check->places[i]))
            check->found[check->found_count++] = check->places[i];
    check->count = 0;
}

/* Of direct calls only the displacement is ours, so that others may change their opcode. */
static bool begins_with_ours(const struct slab *slab, const struct slab_write *write)
{
    return write->fresh[0] != TRACE_MEMORY_BREAKPOINT &&
           (write->hook != PLAN_NONE ||
            !stub_x86_64_site_is_direct((enum stub_kind)slab->plan->sites[write->site].kind));
}

static void check_object(struct uprobe_check *check, struct space_object *object)
{
    const struct slab *slab = &object->patch->slab;
    for (size_t i = 0; i < slab->write_count; i++) {
        if (!begins_with_ours(slab, &slab->writes[i]))
            continue;
        check->places[check->count++] = (struct place){slab->writes[i].address, object, &slab->writes[i]};
        if (check->count == PROC_UPROBE_AT_ONCE)
            check_places(check);
    }
    check_places(check);
}

/* Doorbells are jumps of five bytes, as hooks are. */
static void check_doorbells(struct uprobe_check *check, const struct space *space)
{
    for (size_t i = 0; i < space->detached.count; i++)
        check->places[check->count++] = (struct place){.address = space->detached.changes[i].address};
    if (space->doorbell_set)
        check->places[check->count++] = (struct place){.address = space->doorbell_change.address};
    check_places(check);
}

/* Without a doorbell its notifications are missed: the process is traced then. */
static bool lift_place(struct space *space, struct space_session *session, const struct place *place)
{
    if (place->object)
        return space_apply_lift(space, session, place->object, place->write);
    if (!space->doorbell_set || place->address != space->doorbell_change.address)
        return calls_detach_lift(space, session, place->address);
    if (!calls_doorbell_lift(space, session))
        return false;
    calls_detach_close(space, session); /* objects that create threads may be loaded unnoticed */
    profile_set_meta(session->profile, "calls_held", "a loader that somebody else has changed");
    profile_lose(session->profile, WIRE_LOSS_NOT_PLANNED, 1);
    return true;
}

static void remove_for_probes(struct space *space, struct space_session *session,
                              const struct uprobe_check *check)
{
    size_t lifted = 0;
    if (helper_trace_hold(&session->helper, space->pid, NULL, NULL) < 0) /* it is traced again then */
        return;
    for (size_t i = 0; i < check->found_count; i++)
        lifted += lift_place(space, session, &check->found[i]);
    helper_trace_release(&session->helper, space->pid, NULL, NULL);
    profile_lose(session->profile, WIRE_LOSS_TEXT_ALTERED, lifted);
}

void calls_uprobe_tend(struct space *space, struct space_session *session)
{
    struct uprobe_check check = {.pid = space->pid};
    uint64_t began = base_clock_now();
    if (began < space->probes_ns)
        return;
    for (size_t i = 0; i < space->object_count; i++)
        if (space->objects[i].live && space->objects[i].patch)
            check_object(&check, &space->objects[i]);
    check_doorbells(&check, space);
    space->probes_ns = proc_uprobe_next(began);
    if (check.found_count)
        remove_for_probes(space, session, &check);
}
