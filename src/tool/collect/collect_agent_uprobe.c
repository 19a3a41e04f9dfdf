#include "collect_agent_uprobe.h"

#include "patch_target.h"
#include "patch_trace.h"
#include "wire_loss.h"

#define EVERY_NS 50000000
#define SHARE    100 /* of the time that looking may take */

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
    uint64_t ended = patch_target_now(), rest = (ended - began) * SHARE;
    agent->probes_ns = ended + (rest > EVERY_NS ? rest : EVERY_NS);
}
