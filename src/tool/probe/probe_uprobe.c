#include "probe_uprobe.h"

#include "base_clock.h"
#include "helper_trace.h"
#include "proc_uprobe.h"
#include "wire_loss.h"

/* Whom the host follows is held for it. */
static void make_way(struct probe *agent, struct probe_member *member)
{
    struct base_error why = {0};
    bool shared = agent->options.host != NULL;
    if (shared && helper_trace_hold(agent->helper, member->pid, NULL, &why) < 0)
        return;
    int lifted = loader_lift(member->agent, agent->helper, shared, &why);
    if (shared)
        helper_trace_release(agent->helper, member->pid, NULL, NULL);
    if (lifted > 0)
        profile_lose(agent->profile, WIRE_LOSS_TEXT_ALTERED, (uint64_t)lifted);
}

void probe_uprobe_tend(struct probe *agent)
{
    uint64_t began = base_clock_now();
    if (began < agent->probes_ns)
        return;
    for (size_t i = 0; i < agent->member_count; i++)
        if (agent->members[i].agent && loader_is_probed(agent->members[i].agent))
            make_way(agent, &agent->members[i]);
    agent->probes_ns = proc_uprobe_next(began);
}
