/* A call whose return is to be seen begins. agent_call_function.c explains it. */
#include "agent_call_await.h"

#include "agent_call_block.h"
#include "agent_call_unwind.h"
#include "agent_pending.h"
#include "agent_return.h"
#include "agent_view.h"

uint64_t agent_call_await(struct agent_thread *thread, const struct agent_frame *frame,
                          const struct wire_agent_pending *call, bool *seen)
{
    const struct wire_agent_process *process = agent_process();
    *seen = false;
    if (__builtin_expect(thread->calls == NULL, 0)) /* none may be replaced here, or there was no room */
        agent_pending_open(thread);
    struct wire_agent_calls *calls = thread->calls;
    if (__builtin_expect(calls == NULL, 0))
        return 0;
    bool silent = process->silent != 0; /* what was loaded since may unwind unseen */
    if (__builtin_expect(silent && calls->count > 0, 0))
        agent_call_unwind_abandon_thread(thread, frame);
    agent_pending_settle_put_back(thread);
    /* A block in the slot already: a function that left by a tail call put it there, and stays pending. */
    uint64_t slot = (uint64_t)&frame->return_address;
    bool same = agent_return_real(frame->return_address) != frame->return_address;
    agent_pending_drop_left(thread, calls, slot, same);
    bool timed = process->timed != 0 && !silent && (call->how != 0 || agent_may(WIRE_AGENT_CALL_TICKS)) &&
                 agent_view_is_known(thread, slot); /* or an unwinder would find what cannot be put back */
    uint64_t block = same || !timed ? 0 : agent_call_block(frame->return_address);
    *seen = (block != 0 || same) && agent_pending_has_room(calls, slot);
    if (__builtin_expect(!*seen, 0))
        return 0;
    struct wire_agent_pending *pending = &calls->items[calls->count];
    *pending = *call;
    pending->slot = slot;
    if (call->how == 0)
        pending->start = agent_ticks() - thread->spent;
    calls->count++;
    return block;
}
