/* Waiting for an exec, traced for no longer than that. */
#include "loader.h"
#include "proc_target.h"

static pid_t process_of(pid_t tid)
{
    struct proc_target_facts facts;
    return proc_target_facts(tid, tid, &facts) == BASE_OK && facts.process > 0 ? facts.process : tid;
}

int loader_expect_exec(struct helper *helper, pid_t tid, struct base_error *error)
{
    const uint64_t keep = TRACE_GS_KEEP;
    pid_t pid = process_of(tid);
    int result = helper_trace_follow(helper, pid, error);
    if (result == BASE_OK && (result = helper_trace_give(helper, pid, &keep, 1, error)) < 0)
        helper_trace_leave(helper, pid, NULL);
    return result;
}

/* Processes that are created meanwhile are not followed: their own hooks notify tally of their execs. */
bool loader_take_event(struct helper *helper, const struct trace_event *event)
{
    const uint64_t keep = TRACE_GS_KEEP;
    if (event->kind == TRACE_EXEC)
        return true;
    if (event->kind == TRACE_FORK || event->kind == TRACE_VFORK)
        helper_trace_leave(helper, event->pid, NULL);
    else if (event->kind == TRACE_NEED)
        helper_trace_give(helper, event->pid, &keep, 1, NULL);
    return false;
}

void loader_unfollow(struct helper *helper, pid_t tid)
{
    helper_trace_leave(helper, process_of(tid), NULL);
}
