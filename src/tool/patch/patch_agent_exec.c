/* Waiting for an exec, traced for no longer than that. */
#include "patch_agent.h"
#include "patch_target.h"

static pid_t process_of(pid_t tid)
{
    struct patch_target_facts facts;
    return patch_target_facts(tid, tid, &facts) == BASE_OK && facts.process > 0 ? facts.process : tid;
}

int patch_agent_expect_exec(struct patch_helper *helper, pid_t tid, struct base_error *error)
{
    const uint64_t keep = PATCH_TRACE_KEEP;
    pid_t pid = process_of(tid);
    int result = patch_trace_follow(helper, pid, error);
    if (result == BASE_OK && (result = patch_trace_give(helper, pid, &keep, 1, error)) < 0)
        patch_trace_leave(helper, pid, NULL);
    return result;
}

/* Who is born meanwhile is none of ours: a hook of its own tells of its exec. */
bool patch_agent_take_event(struct patch_helper *helper, const struct patch_trace_event *event)
{
    const uint64_t keep = PATCH_TRACE_KEEP;
    if (event->kind == PATCH_TRACE_EXEC)
        return true;
    if (event->kind == PATCH_TRACE_FORK || event->kind == PATCH_TRACE_VFORK)
        patch_trace_leave(helper, event->pid, NULL);
    else if (event->kind == PATCH_TRACE_NEED)
        patch_trace_give(helper, event->pid, &keep, 1, NULL);
    return false;
}

void patch_agent_let_go(struct patch_helper *helper, pid_t tid)
{
    patch_trace_leave(helper, process_of(tid), NULL);
}
