/* Functions that are timed: the one collector that touches the stack.
 *
 * How the end of a call is seen. At a function's entry the return address in its caller's frame is replaced,
 * and the return leads here. What is usual is one trampoline and a shadow stack that remembers who wanted to
 * go where; a jump out of the middle, a coroutine, a thread that goes on with another's stack, a process
 * forked or half of it unwound, and the two stacks disagree: the program goes somewhere else. So here what is
 * put on the stack says by itself where it leads. For each place that calls a hooked function there is a
 * *block* of code (agent_call_x86_64_return.S) and one word of a table, its return address, which never
 * changes. Nothing that is remembered decides where a program goes on; what can be forgotten is a time.
 * Therefore
 *   - longjmp, swapcontext, coroutines moved between threads, vfork and fork need nothing: words may be left,
 *     copied, used twice;
 *   - threads that end, or are killed, leave nothing behind;
 *   - putting a real address back is a replacement of one word that depends on no other, whenever and by
 *     whomever it is done;
 *   - a function that leaves by a tail call finds a block where its return address is, and leaves it there.
 *
 * What reads return addresses must find the real ones. Functions that unwind are hooked (agent_entry_unwind)
 * in every copy that the program has: before they begin, all words of ours on the stack are replaced by what
 * they stand for. An unwinder without a name (linked into an image that was stripped) is known by whom it
 * asks for call-frame information: that is hooked, for callers in such images. Our own walks, the agent's and
 * tally's, translate (wire_agent_return).
 *
 * What is timed. A thread has a list of its pending calls: where the return address stands (the *slot*, which
 * is what a return is recognised by), when it began, and how much of the time was in calls from it that are
 * timed themselves. A call's own time goes to the cell of its stack; sums over a tree are then times with
 * everything called. Its whole time goes into the function's histogram (agent_latency.c). A call that ends by
 * an exception or a longjmp is timed until that is known: put back (counted as a loss), or left. An entry of
 * the list is known to be left when a later call of the thread has its slot at or above it on the same stack.
 * A stack may be another one though (a signal's, a coroutine's): so an entry that is dropped is remembered as
 * a *stale slot*, where a word of ours may still stand, for tally to look at when the agent is taken out.
 * Entries and stale slots are memory of the process's own (wire_agent_own): a fork's child has its parent's
 * stacks, all of them, with all words of ours on them.
 *
 * What cannot be: callers that are in no module or undescribed (generated code, whose runtime may look for
 * its own return addresses), and such as tally names (Go, OCaml). Their calls are counted, not timed.
 *
 * The clock is the processor's time-stamp counter. It stands still while a wrapper of another collector does
 * its work, where that has its hook at the same function or below (agent_pending_pause): what memory costs to
 * count is not in the time of what allocates. */
#include "agent_call_await.h"
#include "agent_call_rest.h"
#include "agent_cell.h"
#include "agent_module.h"
#include "agent_node.h"
#include "agent_stack.h"
#include "agent_thread.h"

/* The cell of the function below its caller's stack. */
static uint32_t function_cell(struct agent_thread *thread, const struct agent_frame *frame)
{
    uint32_t caller = agent_stack_node(thread, frame, WIRE_AGENT_FUNCTION);
    uint64_t function = frame->hook->function;
    struct agent_link *link = &thread->functions[(function >> 4 ^ caller) % AGENT_FUNCTIONS];
    if (__builtin_expect(link->node == 0 || link->pc != function || link->parent != caller, 0)) {
        struct wire_agent_module module = {.cookie = 0};
        agent_module_find(function, &module);
        uint32_t node = agent_node_child(caller, function, module.cookie, WIRE_AGENT_NODE_EXACT);
        if (node == 0)
            return 0;
        *link = (struct agent_link){function, caller, node};
    }
    return agent_cell_of(link->node, thread->group);
}

static uint64_t begin_call(struct agent_thread *thread, const struct agent_frame *frame)
{
    const struct wire_agent_pending call = {.cell = function_cell(thread, frame)};
    bool seen;
    if (__builtin_expect(call.cell == 0, 0)) {
        agent_lose(WIRE_AGENT_LOSS_NO_CELL);
        return 0;
    }
    agent_cell_count(thread, call.cell);
    agent_call_rest_count(thread);
    uint64_t block = agent_call_await(thread, frame, &call, &seen);
    if (__builtin_expect(!seen, 0))
        agent_lose(WIRE_AGENT_LOSS_UNTIMED);
    return block;
}

uint64_t agent_wrap_function(const struct agent_frame *frame);

uint64_t agent_wrap_function(const struct agent_frame *frame)
{
    if (frame->thread == 0) { /* before there is a thread: nothing of ours stays on its stack */
        agent_lose(WIRE_AGENT_LOSS_NO_RECORD);
        return 0;
    }
    struct agent_thread *thread = agent_thread_enter_any(frame);
    if (thread == NULL)
        return 0;
    uint64_t block = agent_call_rest_takes(thread) ? 0 : begin_call(thread, frame);
    agent_thread_leave(thread);
    return block;
}
