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
    struct space_object *object;    /* NULL: a bell's */
    const struct slab_write *write; /* of the object */
};

struct look {
    pid_t pid;
    struct place places[PROC_UPROBE_AT_ONCE], found[PROC_UPROBE_MOST];
    size_t count, found_count;
};

/* One that has made way already shows the breakpoint as long as it stays. */
static bool is_new(const struct place *place)
{
    return !place->object || !space_apply_is_lifted(place->object, place->write);
}

static void look_at(struct look *look)
{
    uint64_t addresses[PROC_UPROBE_AT_ONCE];
    uint8_t bytes[PROC_UPROBE_AT_ONCE];
    for (size_t i = 0; i < look->count; i++)
        addresses[i] = look->places[i].address;
    size_t got = proc_uprobe_read(look->pid, addresses, look->count, bytes);
    for (size_t i = 0; i < got && look->found_count < PROC_UPROBE_MOST; i++)
        if (bytes[i] == TRACE_MEMORY_BREAKPOINT && is_new(&look->places[i]))
            look->found[look->found_count++] = look->places[i];
    look->count = 0;
}

/* Of direct calls only the displacement is ours, so that their opcode may be anybody's. */
static bool begins_with_ours(const struct slab *slab, const struct slab_write *write)
{
    return write->fresh[0] != TRACE_MEMORY_BREAKPOINT &&
           (write->hook != PLAN_NONE ||
            !stub_x86_64_site_is_direct((enum stub_kind)slab->plan->sites[write->site].kind));
}

static void look_at_object(struct look *look, struct space_object *object)
{
    const struct slab *slab = &object->patch->slab;
    for (size_t i = 0; i < slab->write_count; i++) {
        if (!begins_with_ours(slab, &slab->writes[i]))
            continue;
        look->places[look->count++] = (struct place){slab->writes[i].address, object, &slab->writes[i]};
        if (look->count == PROC_UPROBE_AT_ONCE)
            look_at(look);
    }
    look_at(look);
}

/* Bells are jumps of five bytes, as hooks are. */
static void look_at_doorbells(struct look *look, const struct space *space)
{
    for (size_t i = 0; i < space->detached.count; i++)
        look->places[look->count++] = (struct place){.address = space->detached.changes[i].address};
    if (space->doorbell_set)
        look->places[look->count++] = (struct place){.address = space->doorbell_change.address};
    look_at(look);
}

/* Without a bell nobody hears of what it told: the process is traced then. */
static bool lift(struct space *space, struct space_session *session, const struct place *place)
{
    if (place->object)
        return space_apply_lift(space, session, place->object, place->write);
    if (!space->doorbell_set || place->address != space->doorbell_change.address)
        return calls_detach_lift(space, session, place->address);
    if (!calls_doorbell_lift(space, session))
        return false;
    calls_detach_close(space, session); /* who creates threads may be loaded unheard */
    profile_set_meta(session->profile, "calls_held", "a loader that somebody else has changed");
    profile_lose(session->profile, WIRE_LOSS_NOT_PLANNED, 1);
    return true;
}

static void make_way(struct space *space, struct space_session *session, const struct look *look)
{
    size_t lifted = 0;
    if (helper_trace_hold(&session->helper, space->pid, NULL, NULL) < 0) /* it is traced again then */
        return;
    for (size_t i = 0; i < look->found_count; i++)
        lifted += lift(space, session, &look->found[i]);
    helper_trace_release(&session->helper, space->pid, NULL, NULL);
    profile_lose(session->profile, WIRE_LOSS_TEXT_ALTERED, lifted);
}

void calls_uprobe_tend(struct space *space, struct space_session *session)
{
    struct look look = {.pid = space->pid};
    uint64_t began = base_clock_now();
    if (began < space->probes_ns)
        return;
    for (size_t i = 0; i < space->object_count; i++)
        if (space->objects[i].live && space->objects[i].patch)
            look_at_object(&look, &space->objects[i]);
    look_at_doorbells(&look, space);
    space->probes_ns = proc_uprobe_next(began);
    if (look.found_count)
        make_way(space, session, &look);
}
