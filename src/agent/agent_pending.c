/* The list of a thread's calls whose return is to be seen. agent_call_function.c explains it. */
#include "agent_pending.h"

#include "agent_cell.h"
#include "agent_latency.h"
#include "agent_memory.h"

#define NEAR   (UINT64_C(256) << 10) /* distance of slots on one stack, mostly */
#define CHAIN  16                    /* pending calls at one slot: functions that left by tail calls */
#define PROBES 64

void agent_pending_open(struct agent_thread *thread)
{
    struct wire_agent_own *own = agent_own();
    uint32_t number = agent_thread_number(thread);
    uint64_t end = offsetof(struct wire_agent_own, calls) + (number + UINT64_C(1)) * sizeof *own->calls;
    if (own == NULL || !agent_memory_has(WIRE_AGENT_PART_OWN, end))
        return;
    __atomic_fetch_or(&own->known.used[number / 64], UINT64_C(1) << number % 64, __ATOMIC_RELAXED);
    thread->calls = &own->calls[number];
}

/* --- stale slots --- */

/* NULL: there is no room for another page. */
static struct wire_agent_stale *stale_page_of(struct wire_agent_known *known, uint64_t page)
{
    uint32_t at = (uint32_t)(page * UINT64_C(0x9e3779b97f4a7c15) >> 48) % WIRE_AGENT_STALE_COUNT;
    for (unsigned i = 0; i < PROBES; i++, at = (at + 1) % WIRE_AGENT_STALE_COUNT) {
        struct wire_agent_stale *stale = &known->stale[at];
        uint64_t there = __atomic_load_n(&stale->page, __ATOMIC_RELAXED);
        if (there == page ||
            (there == 0 && (__atomic_compare_exchange_n(&stale->page, &there, page, false, __ATOMIC_RELAXED,
                                                        __ATOMIC_RELAXED) ||
                            there == page)))
            return stale;
    }
    return NULL;
}

/* Never removed: only reading other threads' stacks could show that no word of ours is left. Kept as a bit
 * map a page. */
static void add_stale_slot(uint64_t slot)
{
    struct wire_agent_known *known = &agent_own()->known;
    uint64_t offset = slot % WIRE_AGENT_STALE_PAGE;
    struct wire_agent_stale *stale = slot % 8 == 0 ? stale_page_of(known, slot - offset) : NULL;
    if (stale == NULL)
        __atomic_store_n(&known->stale_lost, 1, __ATOMIC_RELAXED);
    else
        __atomic_fetch_or(&stale->slots[offset / 512], UINT64_C(1) << offset / 8 % 64, __ATOMIC_RELAXED);
}

/* In a process that is not counted, whose parent's words stand on its stacks, and which nothing describes:
 * the highest slot above `low` where there may be one; 0: there is none. */
uint64_t agent_pending_highest_stale(uint64_t low)
{
    const struct wire_agent_own *own = agent_own();
    uint64_t highest = 0;
    if (own == NULL)
        return 0;
    if (own->known.stale_lost)
        return low + AGENT_PENDING_STACK_MOST - WIRE_AGENT_STALE_PAGE;
    for (uint32_t i = 0; i < WIRE_AGENT_STALE_COUNT; i++) {
        uint64_t last = own->known.stale[i].page + WIRE_AGENT_STALE_PAGE - 8;
        if (last >= low && last - low < AGENT_PENDING_STACK_MOST && last > highest)
            highest = last;
    }
    return highest;
}

/* --- the list --- */

void agent_pending_inherit(void)
{
    struct wire_agent_own *own = agent_own();
    for (uint32_t i = 0; own != NULL && i < WIRE_AGENT_THREADS; i++) {
        struct wire_agent_calls *calls = &own->calls[i];
        if ((own->known.used[i / 64] >> i % 64 & 1) == 0)
            continue;
        for (uint32_t k = 0; k < calls->count; k++)
            add_stale_slot(calls->items[k].slot);
        calls->count = 0;
        own->known.used[i / 64] &= ~(UINT64_C(1) << i % 64);
    }
}

/* Adds what a call took to its stack's cell, and to the call that it is in. */
void agent_pending_finish(struct agent_thread *thread, struct wire_agent_pending *pendings, uint32_t index,
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
    /* Calls that open descriptors have no time of their own: the one around them is charged. */
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

void agent_pending_drop_left(struct agent_thread *thread, struct wire_agent_calls *calls, uint64_t slot,
                             bool same)
{
    struct wire_agent_pending *items = calls->items;
    uint32_t count = calls->count;
    if (__builtin_expect(count == 0 || !is_left(&items[count - 1], slot, same), 1))
        return;
    uint64_t now = agent_ticks();
    while (count > 0 && is_left(&items[count - 1], slot, same)) {
        agent_pending_finish(thread, items, count - 1, now);
        if (items[count - 1].slot != slot)
            add_stale_slot(items[count - 1].slot);
        calls->count = --count;
    }
}

/* No room: whatever is below the slot goes, however far; it is not known to be over, and not timed. When it
 * returns, that is a loss; of one that may open descriptors it is another one. */
void agent_pending_sweep(struct wire_agent_calls *calls, uint64_t slot)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < calls->count; i++) {
        if (calls->items[i].slot >= slot) {
            calls->items[kept++] = calls->items[i];
            continue;
        }
        add_stale_slot(calls->items[i].slot);
        if (calls->items[i].how != 0)
            agent_lose(WIRE_AGENT_LOSS_NO_RESULT);
    }
    calls->count = kept;
}

bool agent_pending_has_room(struct wire_agent_calls *calls, uint64_t slot)
{
    uint32_t count = calls->count;
    if (__builtin_expect(count >= CHAIN && calls->items[count - CHAIN].slot == slot, 0))
        return false;
    if (__builtin_expect(count >= WIRE_AGENT_PENDING, 0))
        agent_pending_sweep(calls, slot);
    return calls->count < WIRE_AGENT_PENDING;
}

/* --- addresses that were put back --- */

/* Calls whose return will not be seen are over for us, since `now`. */
void agent_pending_forget_put_back(struct agent_thread *thread, uint64_t low, uint64_t high, uint64_t now)
{
    struct wire_agent_calls *calls = thread->calls;
    while (calls->count > 0) {
        const struct wire_agent_pending *top = &calls->items[calls->count - 1];
        if (top->slot < low || top->slot >= high)
            break;
        agent_pending_finish(thread, calls->items, calls->count - 1, now);
        calls->count--;
        agent_lose(WIRE_AGENT_LOSS_PUT_BACK);
    }
}

/* Who is inside may be about to change the list: it is noted for that one. Of several such times the first
 * counts. */
void agent_pending_remember_put_back(struct agent_thread *thread, uint64_t low, uint64_t high)
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

void agent_pending_settle_put_back(struct agent_thread *thread)
{
    const struct agent_put_back before = thread->put_back;
    if (__builtin_expect(before.high == 0, 1))
        return;
    thread->put_back.high = 0;
    agent_pending_forget_put_back(thread, before.low, before.high, before.ticks + thread->spent);
}

/* The calls may stand on a stack that another thread goes on with (a coroutine's): words there are stale
 * slots. The end of none of them will be seen. */
void agent_pending_forget(struct agent_thread *thread)
{
    struct wire_agent_calls *calls = thread->calls;
    if (calls == NULL)
        return;
    agent_pending_settle_put_back(thread);
    for (uint32_t i = 0; i < calls->count; i++)
        if (calls->items[i].how == 0)
            agent_lose(WIRE_AGENT_LOSS_UNTIMED);
    agent_pending_sweep(calls, UINT64_MAX);
}
