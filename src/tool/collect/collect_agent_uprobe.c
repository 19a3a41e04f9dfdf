#include "collect_agent_uprobe.h"

#include "patch_probe.h"
#include "patch_target.h"
#include "patch_trace.h"
#include "wire_loss.h"

/* Whom the host follows is held for it. */
static void make_way(struct collect_agent *agent, struct collect_agent_member *member)
{
    struct base_error why = {0};
    bool hosted = agent->options.host != NULL;
    if (hosted && patch_trace_hold(agent->helper, member->pid, NULL, &why) < 0)
        return;
    int lifted = patch_agent_lift(member->agent, agent->helper, hosted, &why);
    if (hosted)
        patch_trace_release(agent->helper, member->pid, NULL, NULL);
    if (lifted > 0)
        profile_lose(agent->profile, WIRE_LOSS_TEXT_ALTERED, (uint64_t)lifted);
}

void collect_agent_uprobe_tend(struct collect_agent *agent)
{
    uint64_t began = patch_target_now();
    if (began < agent->probes_ns)
        return;
    for (size_t i = 0; i < agent->member_count; i++)
        if (agent->members[i].agent && patch_agent_is_probed(agent->members[i].agent))
            make_way(agent, &agent->members[i]);
    agent->probes_ns = patch_probe_next(began);
}
