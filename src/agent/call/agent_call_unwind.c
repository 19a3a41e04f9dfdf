/* Who reads the stack finds real return addresses. agent_call_function.c explains it. */
#include "agent_call_unwind.h"

#include "agent_module.h"
#include "agent_pending.h"
#include "agent_readable.h"
#include "agent_return.h"
#include "agent_view.h"
#include "wire_agent_entry.h"

#define PAGE UINT64_C(4096)

static void put_back_word(uint64_t *word)
{
    uint64_t there = __atomic_load_n(word, __ATOMIC_RELAXED);
    uint64_t real = agent_return_real(there);
    if (__builtin_expect(real != there, 0) &&
        (there - (uint64_t)agent_return_blocks) % WIRE_AGENT_BLOCK == WIRE_AGENT_BLOCK_BACK)
        __atomic_compare_exchange_n(word, &there, real, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* The frame's own return address, which is a block where a function left by a tail call, and all words from
 * the caller's sp to where a walk of ours came: the memory of frames that are in use, so nobody else writes
 * or unmaps it. Where the walk did not come to the end, the thread's own calls say how far there are more;
 * in between is stack as well. */
static uint64_t put_back_words(struct agent_thread *thread, const struct agent_frame *frame, uint64_t most)
{
    struct agent_extent extent;
    bool whole = agent_view_extent(thread, frame, &extent);
    while (!whole && most >= extent.high && most - extent.low < AGENT_PENDING_STACK_MOST &&
           agent_readable(extent.high))
        extent.high += PAGE;
    put_back_word((uint64_t *)(uint64_t)&frame->return_address);
    for (uint64_t at = (extent.low + 7) & ~UINT64_C(7); at + 8 <= extent.high; at += 8)
        put_back_word((uint64_t *)at);
    return extent.high;
}

/* `thread`: its record, or NULL: as far as a walk finds the stack. `inside`: it was not entered, since it is
 * inside already. */
static void put_back_stack(struct agent_thread *thread, bool inside, const struct agent_frame *frame)
{
    const struct wire_agent_calls *calls = thread != NULL ? thread->calls : NULL;
    uint64_t low = (uint64_t)&frame->return_address;
    uint64_t most = agent_process()->state == WIRE_AGENT_FREE ? agent_pending_highest_stale(low) : 0;
    for (uint32_t i = 0; calls != NULL && i < calls->count; i++)
        if (calls->items[i].slot > most)
            most = calls->items[i].slot;
    uint64_t high = put_back_words(inside ? NULL : thread, frame, most);
    if (calls == NULL)
        return;
    if (inside && calls->count > 0) {
        agent_pending_remember_put_back(thread, low, high);
    } else if (!inside) {
        agent_pending_settle_put_back(thread);
        agent_pending_forget_put_back(thread, low, high, agent_ticks());
    }
}

/* What is pending on other stacks is forgotten: words there are stale slots. */
void agent_call_unwind_abandon_thread(struct agent_thread *thread, const struct agent_frame *frame)
{
    put_back_stack(thread, false, frame);
    if (thread != NULL && thread->calls != NULL)
        agent_pending_sweep(thread->calls, UINT64_MAX);
}

void agent_call_unwind_abandon(const struct agent_frame *frame)
{
    uint64_t sp = (uint64_t)(&frame->return_address + 1);
    if (agent_own() == NULL) /* none is replaced */
        return;
    struct agent_thread *thread = agent_thread_come_back(agent_thread_pointer(), sp);
    agent_call_unwind_abandon_thread(thread, frame);
    if (thread != NULL)
        agent_thread_leave(thread);
}

/* --- unwinders --- */

uint64_t agent_wrap_unwind(const struct agent_frame *frame);

/* Does its caller unwind? Of what answers unwinders and others, only calls by modules that unwind count, and
 * by those that are not known (yet). */
static bool caller_unwinds(const struct agent_frame *frame)
{
    struct wire_agent_module module;
    return wire_agent_cookie_family(frame->hook->cookie) == WIRE_AGENT_UNWINDER ||
           !agent_module_find(frame->return_address - 1, &module) ||
           (module.flags & WIRE_AGENT_MODULE_UNWINDS) != 0;
}

/* A process that is not counted has its parent's stack, and needs no record. A second entry of the same
 * thread (an allocator that looks at its stack, a handler that interrupted us and throws) only reads the
 * record. */
uint64_t agent_wrap_unwind(const struct agent_frame *frame)
{
    bool running = agent_process()->state == WIRE_AGENT_RUNNING;
    if (running && !caller_unwinds(frame))
        return 0;
    struct agent_thread *thread = running ? agent_thread_enter_any(frame) : NULL;
    bool inside = thread == NULL;
    if (inside && running)
        thread = agent_thread_quick(frame->thread);
    put_back_stack(thread, inside, frame);
    if (!inside)
        agent_thread_leave(thread);
    return 0;
}
