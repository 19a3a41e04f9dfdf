#include "collect_calls_uprobe.h"

#include "collect_calls_bell.h"
#include "collect_calls_build.h"
#include "collect_calls_loose.h"
#include "patch_probe.h"
#include "patch_target.h"
#include "patch_trace.h"
#include "patch_x86_64_stub.h"
#include "wire_loss.h"

struct place {
    uint64_t address;
    struct collect_calls_object *object; /* NULL: a bell's */
    const struct patch_write *write;     /* of the object */
};

struct look {
    pid_t pid;
    struct place places[PATCH_PROBE_AT_ONCE], found[PATCH_PROBE_MOST];
    size_t count, found_count;
};

/* One that has made way already shows the breakpoint as long as it stays. */
static bool is_new(const struct place *place)
{
    return !place->object || !collect_calls_build_is_lifted(place->object, place->write);
}

static void look_at(struct look *look)
{
    uint64_t addresses[PATCH_PROBE_AT_ONCE];
    uint8_t bytes[PATCH_PROBE_AT_ONCE];
    for (size_t i = 0; i < look->count; i++)
        addresses[i] = look->places[i].address;
    size_t got = patch_probe_read(look->pid, addresses, look->count, bytes);
    for (size_t i = 0; i < got && look->found_count < PATCH_PROBE_MOST; i++)
        if (bytes[i] == PATCH_MEMORY_BREAKPOINT && is_new(&look->places[i]))
            look->found[look->found_count++] = look->places[i];
    look->count = 0;
}

/* Of direct calls only the displacement is ours, so that their opcode may be anybody's. */
static bool begins_with_ours(const struct patch_slab *slab, const struct patch_write *write)
{
    return write->fresh[0] != PATCH_MEMORY_BREAKPOINT &&
           (write->hook != PATCH_NONE ||
            !patch_x86_64_stub_is_direct((enum patch_kind)slab->plan->sites[write->site].kind));
}

static void look_at_object(struct look *look, struct collect_calls_object *object)
{
    const struct patch_slab *slab = &object->patch->slab;
    for (size_t i = 0; i < slab->write_count; i++) {
        if (!begins_with_ours(slab, &slab->writes[i]))
            continue;
        look->places[look->count++] = (struct place){slab->writes[i].address, object, &slab->writes[i]};
        if (look->count == PATCH_PROBE_AT_ONCE)
            look_at(look);
    }
    look_at(look);
}

/* Bells are jumps of five bytes, as hooks are. */
static void look_at_bells(struct look *look, const struct collect_calls_space *space)
{
    for (size_t i = 0; i < space->loose.count; i++)
        look->places[look->count++] = (struct place){.address = space->loose.changes[i].address};
    if (space->bell_set)
        look->places[look->count++] = (struct place){.address = space->bell_change.address};
    look_at(look);
}

/* Without a bell nobody hears of what it told: the process is traced then. */
static bool lift(struct collect_calls_space *space, struct collect_calls_rig *rig, const struct place *place)
{
    if (place->object)
        return collect_calls_build_lift(space, rig, place->object, place->write);
    if (!space->bell_set || place->address != space->bell_change.address)
        return collect_calls_loose_lift(space, rig, place->address);
    if (!collect_calls_bell_lift(space, rig))
        return false;
    collect_calls_loose_close(space, rig); /* who creates threads may be loaded unheard */
    profile_set_meta(rig->profile, "calls_held", "a loader that somebody else has changed");
    profile_lose(rig->profile, WIRE_LOSS_NOT_PLANNED, 1);
    return true;
}

static void make_way(struct collect_calls_space *space, struct collect_calls_rig *rig,
                     const struct look *look)
{
    size_t lifted = 0;
    if (patch_trace_hold(&rig->helper, space->pid, NULL, NULL) < 0) /* it is traced again then */
        return;
    for (size_t i = 0; i < look->found_count; i++)
        lifted += lift(space, rig, &look->found[i]);
    patch_trace_release(&rig->helper, space->pid, NULL, NULL);
    profile_lose(rig->profile, WIRE_LOSS_TEXT_ALTERED, lifted);
}

void collect_calls_uprobe_tend(struct collect_calls_space *space, struct collect_calls_rig *rig)
{
    struct look look = {.pid = space->pid};
    uint64_t began = patch_target_now();
    if (began < space->probes_ns)
        return;
    for (size_t i = 0; i < space->object_count; i++)
        if (space->objects[i].live && space->objects[i].patch)
            look_at_object(&look, &space->objects[i]);
    look_at_bells(&look, space);
    space->probes_ns = patch_probe_next(began);
    if (look.found_count)
        make_way(space, rig, &look);
}
