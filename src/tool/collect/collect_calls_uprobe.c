#include "collect_calls_uprobe.h"

#include <sys/uio.h>

#include "collect_calls_build.h"
#include "patch_target.h"
#include "patch_trace.h"
#include "patch_x86_64_stub.h"
#include "wire_loss.h"

#define EVERY_NS 50000000
#define SHARE    100 /* of the time that looking may take */
enum { AT_ONCE = 512, FOUND_MOST = 64 };

struct place {
    struct collect_calls_object *object;
    const struct patch_write *write;
};

struct look {
    pid_t pid;
    struct place places[AT_ONCE], found[FOUND_MOST];
    size_t count, found_count;
};

/* One byte of each place, in one call; where something is not mapped any more it ends there. */
static void look_at(struct look *look)
{
    uint8_t bytes[AT_ONCE];
    struct iovec here = {bytes, look->count}, there[AT_ONCE];
    for (size_t i = 0; i < look->count; i++)
        there[i] = (struct iovec){(void *)(uintptr_t)look->places[i].write->address, 1};
    ssize_t got = look->count ? process_vm_readv(look->pid, &here, 1, there, look->count, 0) : 0;
    for (ssize_t i = 0; i < got && look->found_count < FOUND_MOST; i++)
        if (bytes[i] == PATCH_MEMORY_BREAKPOINT)
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
        look->places[look->count++] = (struct place){object, &slab->writes[i]};
        if (look->count == AT_ONCE)
            look_at(look);
    }
    look_at(look);
}

static void make_way(struct collect_calls_space *space, struct collect_calls_rig *rig,
                     const struct look *look)
{
    size_t lifted = 0;
    if (patch_trace_hold(&rig->helper, space->pid, NULL, NULL) < 0)
        return;
    for (size_t i = 0; i < look->found_count; i++)
        lifted += collect_calls_build_lift(space, rig, look->found[i].object, look->found[i].write);
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
    uint64_t ended = patch_target_now(), rest = (ended - began) * SHARE;
    space->probes_ns = ended + (rest > EVERY_NS ? rest : EVERY_NS);
    if (look.found_count)
        make_way(space, rig, &look);
}
