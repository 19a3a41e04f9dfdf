/* Functions that are timed: the one collector that touches the stack.
 *
 * How the end of a call is seen. At a function's entry the return address in its caller's frame is replaced,
 * and the return leads here. What is usual is one trampoline and a shadow stack that remembers who wanted to
 * go where; a jump out of the middle, a coroutine, a thread that goes on with another's stack, a process
 * forked or half of it unwound, and the two stacks disagree: the program goes somewhere else. So here what is
 * put on the stack says by itself where it leads. For each place that calls a hooked function there is a
 * *block* of code (agent_x86_64_return.S) and one word of a table, its return address, which never changes.
 * Nothing that is remembered decides where a program goes on; what can be forgotten is a time. Therefore
 *   - longjmp, swapcontext, coroutines moved between threads, vfork and fork need nothing: words may be left,
 *     copied, used twice;
 *   - threads that end, or are killed, leave nothing behind;
 *   - putting a real address back is a replacement of one word that depends on no other, whenever and by
 *     whomever it is done;
 *   - a function that leaves by a tail call finds a block where its return address is, and leaves it there.
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
 * a *stray*, a slot where a word of ours may still stand, for tally to look at when the agent is taken out.
 * Entries and strays are memory of the process's own (wire_agent_own): a fork's child has its parent's
 * stacks, all of them, with all words of ours on them.
 *
 * What cannot be: callers that are in no module or undescribed (generated code, whose runtime may look for
 * its own return addresses), and such as tally names (Go, OCaml). Their calls are counted, not timed.
 *
 * The clock is the processor's time-stamp counter. It stands still while a wrapper of another collector does
 * its work, where that has its hook at the same function or below (agent_function_work): what memory costs to
 * count is not in the time of what allocates. */
#include "agent.h"

#define NEAR   (UINT64_C(256) << 10) /* distance of slots on one stack, mostly */
#define CHAIN  16                    /* pending calls at one slot: functions that left by tail calls */
#define PROBES 64

/* --- the list of pending calls --- */

/* NULL: there is no room for another page. */
static struct wire_agent_strays *strays_of(struct wire_agent_known *known, uint64_t page)
{
    uint32_t at = (uint32_t)(page * UINT64_C(0x9e3779b97f4a7c15) >> 48) % WIRE_AGENT_STRAYS;
    for (unsigned i = 0; i < PROBES; i++, at = (at + 1) % WIRE_AGENT_STRAYS) {
        struct wire_agent_strays *strays = &known->strays[at];
        uint64_t there = __atomic_load_n(&strays->page, __ATOMIC_RELAXED);
        if (there == page ||
            (there == 0 && (__atomic_compare_exchange_n(&strays->page, &there, page, false, __ATOMIC_RELAXED,
                                                        __ATOMIC_RELAXED) ||
                            there == page)))
            return strays;
    }
    return NULL;
}

/* Never taken away: that nothing of ours stands there could only be told by reading stacks of others. So they
 * are kept by page, and a program that leaves calls at every depth of its stack comes to as many as that has
 * pages. */
static void add_stray(uint64_t slot)
{
    struct wire_agent_known *known = &agent_own()->known;
    uint64_t offset = slot % WIRE_AGENT_STRAY_PAGE;
    struct wire_agent_strays *strays = slot % 8 == 0 ? strays_of(known, slot - offset) : NULL;
    if (strays == NULL)
        __atomic_store_n(&known->strays_lost, 1, __ATOMIC_RELAXED);
    else
        __atomic_fetch_or(&strays->slots[offset / 512], UINT64_C(1) << offset / 8 % 64, __ATOMIC_RELAXED);
}

/* In a process that is not counted, whose parent's words stand on its stacks, and which nothing describes: the
 * highest slot above `low` where there may be one; 0: there is none. */
static uint64_t highest_stray(uint64_t low)
{
    const struct wire_agent_own *own = agent_own();
    uint64_t highest = 0;
    if (own == NULL)
        return 0;
    if (own->known.strays_lost)
        return low + AGENT_STACK_MOST - WIRE_AGENT_STRAY_PAGE;
    for (uint32_t i = 0; i < WIRE_AGENT_STRAYS; i++) {
        uint64_t last = own->known.strays[i].page + WIRE_AGENT_STRAY_PAGE - 8;
        if (last >= low && last - low < AGENT_STACK_MOST && last > highest)
            highest = last;
    }
    return highest;
}

void agent_function_inherit(void)
{
    struct wire_agent_own *own = agent_own();
    for (uint32_t i = 0; own != NULL && i < WIRE_AGENT_THREADS; i++) {
        struct wire_agent_calls *calls = &own->calls[i];
        if ((own->known.used[i / 64] >> i % 64 & 1) == 0)
            continue;
        for (uint32_t k = 0; k < calls->count; k++)
            add_stray(calls->items[k].slot);
        calls->count = 0;
        own->known.used[i / 64] &= ~(UINT64_C(1) << i % 64);
    }
}

/* Adds what a call took to its stack's cell, and to the call that it is in. */
static void finish(struct agent_thread *thread, struct wire_agent_pending *pendings, uint32_t index,
                   uint64_t now)
{
    const struct wire_agent_pending *pending = &pendings[index];
    uint64_t whole = now - thread->spent - pending->start;
    if (pending->how != 0)
        return;
    if (__builtin_expect(!agent_may(WIRE_AGENT_CALL_TICKS), 0)) { /* the clock was forbidden meanwhile */
        agent_lose(WIRE_AGENT_LOSS_UNTIMED);
        return;
    }
    if ((int64_t)whole < 0) /* another processor's clock, a little behind */
        whole = 0;
    agent_cell_time(thread, pending->cell, whole > pending->inner ? whole - pending->inner : 0);
    agent_latency_add(thread, pending->cell, whole);
    while (index > 0 && pendings[index - 1].how != 0)
        index--;
    if (index > 0)
        pendings[index - 1].inner += whole;
}

/* Was the pending call left, now that one with its return address at `slot` begins? `same`: the slot holds a
 * block, so the one that is pending there has left by a tail call and is not over. */
static bool is_left(const struct wire_agent_pending *pending, uint64_t slot, bool same)
{
    return pending->slot == slot ? !same : pending->slot < slot && slot - pending->slot < NEAR;
}

static void drop_left(struct agent_thread *thread, struct wire_agent_calls *calls, uint64_t slot, bool same)
{
    struct wire_agent_pending *items = calls->items;
    uint32_t count = calls->count;
    if (__builtin_expect(count == 0 || !is_left(&items[count - 1], slot, same), 1))
        return;
    uint64_t now = agent_ticks();
    while (count > 0 && is_left(&items[count - 1], slot, same)) {
        finish(thread, items, count - 1, now);
        if (items[count - 1].slot != slot)
            add_stray(items[count - 1].slot);
        calls->count = --count;
    }
}

/* No room: whatever is below the slot goes, however far; it is not known to be over, and not timed. When it
 * returns, that is a loss; of one that may open descriptors it is another one. */
static void sweep(struct wire_agent_calls *calls, uint64_t slot)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < calls->count; i++) {
        if (calls->items[i].slot >= slot) {
            calls->items[kept++] = calls->items[i];
            continue;
        }
        add_stray(calls->items[i].slot);
        if (calls->items[i].how != 0)
            agent_lose(WIRE_AGENT_LOSS_NO_RESULT);
    }
    calls->count = kept;
}

static bool has_room(struct wire_agent_calls *calls, uint64_t slot)
{
    uint32_t count = calls->count;
    if (__builtin_expect(count >= CHAIN && calls->items[count - CHAIN].slot == slot, 0))
        return false;
    if (__builtin_expect(count >= WIRE_AGENT_PENDING, 0))
        sweep(calls, slot);
    return calls->count < WIRE_AGENT_PENDING;
}

/* --- who reads the stack --- */

/* Calls whose return will not be seen are over for us, since `now`. */
static void forget_put_back(struct agent_thread *thread, uint64_t low, uint64_t high, uint64_t now)
{
    struct wire_agent_calls *calls = thread->calls;
    while (calls->count > 0) {
        const struct wire_agent_pending *top = &calls->items[calls->count - 1];
        if (top->slot < low || top->slot >= high)
            break;
        finish(thread, calls->items, calls->count - 1, now);
        calls->count--;
        agent_lose(WIRE_AGENT_LOSS_PUT_BACK);
    }
}

/* Who is inside may be about to change the list: he is told. Of several such times the first counts. */
static void remember_put_back(struct agent_thread *thread, uint64_t low, uint64_t high)
{
    struct agent_put_back *before = &thread->put_back;
    if (before->high == 0) {
        before->low = low;
        before->ticks = agent_ticks() - thread->spent;
    } else if (low < before->low) {
        before->low = low;
    }
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (high > before->high)
        before->high = high;
}

static void settle_put_back(struct agent_thread *thread)
{
    const struct agent_put_back before = thread->put_back;
    if (__builtin_expect(before.high == 0, 1))
        return;
    thread->put_back.high = 0;
    forget_put_back(thread, before.low, before.high, before.ticks + thread->spent);
}

/* `thread`: its record, or NULL: as far as a walk finds the stack. `inside`: it was not entered, since it is
 * inside already. */
static void put_back(struct agent_thread *thread, bool inside, const struct agent_frame *frame)
{
    const struct wire_agent_calls *calls = thread != NULL ? thread->calls : NULL;
    uint64_t low = (uint64_t)&frame->return_address;
    uint64_t most = agent_process()->state == WIRE_AGENT_FREE ? highest_stray(low) : 0;
    for (uint32_t i = 0; calls != NULL && i < calls->count; i++)
        if (calls->items[i].slot > most)
            most = calls->items[i].slot;
    uint64_t high = agent_return_put_back(inside ? NULL : thread, frame, most);
    if (calls == NULL)
        return;
    if (inside && calls->count > 0) {
        remember_put_back(thread, low, high);
    } else if (!inside) {
        settle_put_back(thread);
        forget_put_back(thread, low, high, agent_ticks());
    }
}

/* What is pending on other stacks is forgotten: words there are strays. */
static void abandon(struct agent_thread *thread, const struct agent_frame *frame)
{
    put_back(thread, false, frame);
    if (thread != NULL && thread->calls != NULL)
        sweep(thread->calls, UINT64_MAX);
}

void agent_function_abandon(const struct agent_frame *frame)
{
    uint64_t sp = (uint64_t)(&frame->return_address + 1);
    if (agent_own() == NULL) /* none is replaced */
        return;
    struct agent_thread *thread = agent_thread_come_back(agent_thread_pointer(), sp);
    abandon(thread, frame);
    if (thread != NULL)
        agent_thread_leave(thread);
}

/* The calls may stand on a stack that another thread goes on with (a coroutine's): words there are strays.
 * The end of none of them will be seen. */
void agent_function_forget(struct agent_thread *thread)
{
    struct wire_agent_calls *calls = thread->calls;
    if (calls == NULL)
        return;
    settle_put_back(thread);
    for (uint32_t i = 0; i < calls->count; i++)
        if (calls->items[i].how == 0)
            agent_lose(WIRE_AGENT_LOSS_UNTIMED);
    sweep(calls, UINT64_MAX);
}

/* --- calls --- */

/* The cell of the function below its caller's stack. */
static uint32_t cell_of(struct agent_thread *thread, const struct agent_frame *frame)
{
    uint32_t caller = agent_stack_node(thread, frame, WIRE_AGENT_FUNCTION);
    uint64_t function = frame->hook->function;
    struct agent_link *link = &thread->functions[(function >> 4 ^ caller) % AGENT_FUNCTIONS];
    if (__builtin_expect(link->node == 0 || link->pc != function || link->parent != caller, 0)) {
        struct wire_agent_module module = {.cookie = 0};
        agent_stack_module(function, &module);
        uint32_t node = agent_node_child(caller, function, module.cookie, WIRE_AGENT_NODE_EXACT);
        if (node == 0)
            return 0;
        *link = (struct agent_link){function, caller, node};
    }
    return agent_cell_of(link->node, thread->group);
}

uint64_t agent_function_await(struct agent_thread *thread, const struct agent_frame *frame,
                              const struct wire_agent_pending *call, bool *seen)
{
    const struct wire_agent_process *process = agent_process();
    *seen = false;
    if (__builtin_expect(thread->calls == NULL, 0)) /* none may be replaced here, or there was no room */
        agent_thread_find_calls(thread);
    struct wire_agent_calls *calls = thread->calls;
    if (__builtin_expect(calls == NULL, 0))
        return 0;
    bool silent = process->silent != 0; /* what was loaded since may unwind unseen */
    if (__builtin_expect(silent && calls->count > 0, 0))
        abandon(thread, frame);
    settle_put_back(thread);
    uint64_t slot = (uint64_t)&frame->return_address;
    bool same = agent_return_real(frame->return_address) != frame->return_address;
    drop_left(thread, calls, slot, same);
    bool timed = process->timed != 0 && !silent && (call->how != 0 || agent_may(WIRE_AGENT_CALL_TICKS)) &&
                 agent_stack_is_known(thread, slot); /* or an unwinder would find what cannot be put back */
    uint64_t block = same || !timed ? 0 : agent_return_block(frame->return_address);
    *seen = (block != 0 || same) && has_room(calls, slot);
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

static uint64_t begin(struct agent_thread *thread, const struct agent_frame *frame)
{
    const struct wire_agent_pending call = {.cell = cell_of(thread, frame)};
    bool seen;
    if (__builtin_expect(call.cell == 0, 0)) {
        agent_lose(WIRE_AGENT_LOSS_NO_CELL);
        return 0;
    }
    agent_cell_count(thread, call.cell);
    agent_rest_count(thread);
    uint64_t block = agent_function_await(thread, frame, &call, &seen);
    if (__builtin_expect(!seen, 0))
        agent_lose(WIRE_AGENT_LOSS_UNTIMED);
    return block;
}

uint64_t agent_wrap_function(const struct agent_frame *frame);
void agent_wrap_return(uint64_t slot, uint64_t thread_pointer);
uint64_t agent_wrap_unwind(const struct agent_frame *frame);

uint64_t agent_wrap_function(const struct agent_frame *frame)
{
    if (frame->thread == 0) { /* before there is a thread: nothing of ours stays on its stack */
        agent_lose(WIRE_AGENT_LOSS_NO_RECORD);
        return 0;
    }
    struct agent_thread *thread = agent_thread_enter(frame);
    if (thread == NULL)
        return 0;
    uint64_t block = agent_rest_takes(thread) ? 0 : begin(thread, frame);
    agent_thread_leave(thread);
    return block;
}

/* --- returns --- */

/* Takes out one entry below others that go on: of another stack. */
static void take_out(struct agent_thread *thread, struct wire_agent_calls *calls, uint32_t index,
                     uint64_t now)
{
    const struct wire_agent_pending *call = &calls->items[index];
    finish(thread, calls->items, index, now);
    if (call->how != 0)
        agent_descriptor_returned(thread, call,
                                  ((const uint64_t *)call->slot)[-1]); /* rax: agent_x86_64_return.S */
    for (uint32_t i = index; i + 1 < calls->count; i++)
        calls->items[i] = calls->items[i + 1];
    calls->count--;
}

/* The pending call whose slot it is returns; those above it have ended without a return, if they are on its
 * stack. */
static bool end(struct agent_thread *thread, uint64_t slot, uint64_t now)
{
    struct wire_agent_calls *calls = thread->calls;
    if (calls == NULL)
        return false;
    settle_put_back(thread);
    uint32_t found = calls->count;
    while (found > 0 && calls->items[found - 1].slot != slot)
        found--;
    if (found == 0)
        return false;
    drop_left(thread, calls, slot, true);
    for (uint32_t i = found; i > 0 && calls->items[i - 1].slot == slot; i--)
        take_out(thread, calls, i - 1, now);
    return true;
}

void agent_wrap_return(uint64_t slot, uint64_t thread_pointer)
{
    uint64_t now = agent_ticks();
    if (!agent_process_is_counted() || agent_process()->state != WIRE_AGENT_RUNNING)
        return;
    struct agent_thread *thread = agent_thread_come_back(thread_pointer, slot + 8);
    bool known = thread != NULL && end(thread, slot, now);
    if (__builtin_expect(!known && agent_process()->parent == 0, 0))
        agent_lose(WIRE_AGENT_LOSS_FORGOTTEN);
    if (thread != NULL)
        agent_thread_leave(thread);
}

/* --- unwinders --- */

/* Does its caller unwind? Of what answers unwinders and others, only calls by modules that unwind count, and
 * by those that are not known (yet). */
static bool unwinds(const struct agent_frame *frame)
{
    struct wire_agent_module module;
    return wire_agent_cookie_family(frame->hook->cookie) == WIRE_AGENT_UNWINDER ||
           !agent_stack_module(frame->return_address - 1, &module) ||
           (module.flags & WIRE_AGENT_MODULE_UNWINDS) != 0;
}

/* A process that is not counted has its parent's stack, and needs no record. A second entry of the same
 * thread (an allocator that looks at its stack, a handler that interrupted us and throws) only reads the
 * record. */
uint64_t agent_wrap_unwind(const struct agent_frame *frame)
{
    bool running = agent_process()->state == WIRE_AGENT_RUNNING;
    if (running && !unwinds(frame))
        return 0;
    struct agent_thread *thread = running ? agent_thread_enter(frame) : NULL;
    bool inside = thread == NULL;
    if (inside && running)
        thread = agent_thread_quick(frame->thread);
    put_back(thread, inside, frame);
    if (!inside)
        agent_thread_leave(thread);
    return 0;
}
