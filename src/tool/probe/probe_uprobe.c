#include "probe_inside.h"

#include "probe_uprobe.h"

#include "base_clock.h"
#include "helper_trace.h"
#include "proc_uprobe.h"
#include "wire_loss.h"

/* Removes the process's hooks that lie under breakpoints of others. A process that the owner follows is held
 * for it. */
static void remove_probed_hooks(struct probe *probe, struct probe_member *member)
{
    struct base_error why = {0};
    bool shared = probe->options.owner != NULL;
    if (shared && helper_trace_hold(probe->helper, member->pid, NULL, &why) < 0)
        return;
    int lifted = loader_lift(member->agent, probe->helper, shared, &why);
    if (shared)
        helper_trace_release(probe->helper, member->pid, NULL, NULL);
    if (lifted > 0)
        profile_lose(probe->profile, WIRE_LOSS_TEXT_ALTERED, (uint64_t)lifted);
}

void probe_uprobe_tend(struct probe *probe)
{
    uint64_t began = base_clock_now();
    if (began < probe->probes_ns)
        return;
    for (size_t i = 0; i < probe->member_count; i++)
        if (probe->members[i].agent && loader_is_probed(probe->members[i].agent))
            remove_probed_hooks(probe, &probe->members[i]);
    probe->probes_ns = proc_uprobe_next(began);
}
