/* A call whose return was to be seen returns. agent_call_function.c explains it. */
#include "agent_call_descriptor.h"
#include "agent_pending.h"

void agent_wrap_return(uint64_t slot, uint64_t thread_pointer);

/* Takes out one entry below others that go on: of another stack. */
static void end_pending(struct agent_thread *thread, struct wire_agent_calls *calls, uint32_t index,
                        uint64_t now)
{
    const struct wire_agent_pending *call = &calls->items[index];
    agent_pending_finish(thread, calls->items, index, now);
    if (call->how != 0)
        agent_call_descriptor_returned(
            thread, call, ((const uint64_t *)call->slot)[-1]); /* rax: agent_call_x86_64_return.S */
    for (uint32_t i = index; i + 1 < calls->count; i++)
        calls->items[i] = calls->items[i + 1];
    calls->count--;
}

/* The pending call whose slot it is returns; those above it have ended without a return, if they are on its
 * stack. */
static bool end_call(struct agent_thread *thread, uint64_t slot, uint64_t now)
{
    struct wire_agent_calls *calls = thread->calls;
    if (calls == NULL)
        return false;
    agent_pending_settle_put_back(thread);
    uint32_t found = calls->count;
    while (found > 0 && calls->items[found - 1].slot != slot)
        found--;
    if (found == 0)
        return false;
    /* `true`: what is pending at this very slot has not left, it returns, and is taken out below. */
    agent_pending_drop_left(thread, calls, slot, true);
    for (uint32_t i = found; i > 0 && calls->items[i - 1].slot == slot; i--)
        end_pending(thread, calls, i - 1, now);
    return true;
}

void agent_wrap_return(uint64_t slot, uint64_t thread_pointer)
{
    uint64_t now = agent_ticks();
    if (!agent_process_is_counted() || agent_process()->state != WIRE_AGENT_RUNNING)
        return;
    struct agent_thread *thread = agent_thread_come_back(thread_pointer, slot + 8);
    bool known = thread != NULL && end_call(thread, slot, now);
    if (__builtin_expect(!known && agent_process()->parent == 0, 0))
        agent_lose(WIRE_AGENT_LOSS_FORGOTTEN);
    if (thread != NULL)
        agent_thread_leave(thread);
}
