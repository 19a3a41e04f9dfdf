/* Mapped memory: ranges of addresses, each with the figures of who mapped it.
 *
 * A skip list of disjoint ranges, by their starts, in the region's part `maps`; range 0 is the head. Mapping
 * is rare beside allocating, and goes through one lock of the kernel anyway: so here it is one lock too,
 * taken for a moment and never across a system call of the program's. While it is held all signals are
 * blocked: no handler can come in between, nor leave by a jump. Nobody waits for it: who does not get it at
 * once writes the change down, and whoever has the lock makes all that are written down, in their order,
 * before a change of its own and before it gives the lock back. Where many are written down their writers
 * rest a little, two milliseconds at most; where there is no place for one more, it is a counted loss. So are
 * those that wait when the process ends, by tally (shared_heap.c).
 *
 * Order. The kernel maps and unmaps before this table learns of it, in whatever order threads come here. What
 * is unmapped may be mapped again by another thread, and be entered, before the first one comes to strike it
 * out. So a number is drawn before each system call that unmaps, and one after each that maps: only what is
 * older is struck out. */
#include "agent_heap_range.h"

#include <stdbool.h>
#include <sys/syscall.h>

#include "agent_cell.h"
#include "agent_may.h"
#include "agent_memory.h"
#include "wire_agent_range.h"

#define LEVELS       8
#define SPINS        500
#define REST_EVERY   16    /* changes that wait */
#define REST_NS      50000 /* and about as much again until the thread runs */
#define REST_MOST_NS 2000000

enum { FREE, WRITING, WAITING }; /* wire_agent_change.state */

struct range {
    uint64_t start, end, number;
    uint32_t cell, levels;
    uint32_t next[LEVELS];
};
_Static_assert(sizeof(struct range) == WIRE_AGENT_RANGE_BYTES, "as the layout counts them");

static struct range *range_at(uint32_t number)
{
    return (struct range *)agent_part(wire_agent_layout(agent_control()->memory).ranges) + number;
}

/* --- the list --- */

/* The last range on each level that ends at or before `address`. */
static void find_ranges(uint64_t address, uint32_t before[LEVELS])
{
    uint32_t at = 0;
    for (unsigned level = LEVELS; level-- > 0;) {
        uint32_t next = range_at(at)->next[level];
        while (next != 0 && range_at(next)->end <= address) {
            at = next;
            next = range_at(at)->next[level];
        }
        before[level] = at;
    }
}

/* 0: no room. */
static uint32_t take_range(struct wire_agent_process *process)
{
    uint32_t number = process->range_free;
    if (number != 0) {
        process->range_free = range_at(number)->next[0];
        return number;
    }
    if (process->range_count + UINT64_C(1) >=
            wire_agent_layout(agent_control()->memory).range_bytes / WIRE_AGENT_RANGE_BYTES ||
        !agent_memory_has(WIRE_AGENT_PART_RANGES,
                          (process->range_count + UINT64_C(2)) * WIRE_AGENT_RANGE_BYTES))
        return 0;
    return ++process->range_count;
}

/* One in four goes up one more: by the bits of a number that is another one each time. */
static uint32_t levels_of(uint64_t number)
{
    uint64_t bits = (number + 1) * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    uint32_t levels = 1;
    for (; levels < LEVELS && (bits & 3) == 0; levels++)
        bits >>= 2;
    return levels;
}

static bool link_range(uint64_t start, uint64_t end, uint64_t number, uint32_t cell)
{
    struct wire_agent_process *process = agent_process();
    uint32_t before[LEVELS], made = take_range(process);
    if (made == 0)
        return false;
    find_ranges(start, before);
    struct range *range = range_at(made);
    range->start = start, range->end = end, range->number = number, range->cell = cell;
    range->levels = levels_of(process->range_seed++);
    for (unsigned level = 0; level < range->levels; level++) {
        range->next[level] = range_at(before[level])->next[level];
        range_at(before[level])->next[level] = made;
    }
    return true;
}

static void unlink_range(uint32_t gone)
{
    struct wire_agent_process *process = agent_process();
    struct range *range = range_at(gone);
    uint32_t before[LEVELS];
    find_ranges(range->start, before);
    for (unsigned level = 0; level < range->levels && level < LEVELS; level++)
        if (range_at(before[level])->next[level] == gone)
            range_at(before[level])->next[level] = range->next[level];
    range->next[0] = process->range_free;
    process->range_free = gone;
}

/* --- what changes --- */

static void release_bytes(uint32_t cell, uint64_t bytes)
{
    agent_cell_at(cell)->freed_own += bytes;
}

/* Takes [start, end) out of a range that has some of it. False: no room for what is left beyond. */
static bool cut_range(uint32_t number, uint64_t start, uint64_t end)
{
    struct range *range = range_at(number);
    uint64_t first = range->start, last = range->end;
    uint64_t from = start > first ? start : first, to = end < last ? end : last;
    release_bytes(range->cell, to - from);
    if (from == first && to == last) {
        unlink_range(number);
    } else if (from == first) {
        range->start = to;
    } else {
        range->end = from;
        if (to < last && !link_range(to, last, range->number, range->cell)) {
            release_bytes(range->cell, last - to);
            return false;
        }
    }
    return true;
}

/* Of what is older than `number`. */
static bool strike_ranges(uint64_t start, uint64_t end, uint64_t number)
{
    uint32_t before[LEVELS];
    bool room = true;
    find_ranges(start, before);
    uint32_t at = range_at(before[0])->next[0];
    while (at != 0 && range_at(at)->start < end) {
        uint32_t next = range_at(at)->next[0];
        if (range_at(at)->number < number)
            room &= cut_range(at, start, end);
        at = next;
    }
    return room;
}

/* False: no room for all of it. */
static bool make_change(const struct wire_agent_change *change)
{
    if (change->cell == 0)
        return strike_ranges(change->start, change->end, change->number);
    uint64_t bytes = change->end - change->start;
    bool room =
        strike_ranges(change->start, change->end, UINT64_MAX); /* the kernel has replaced what was there */
    agent_cell_at(change->cell)->total += bytes;
    agent_cell_at(change->cell)->count++;
    if (link_range(change->start, change->end, change->number, change->cell))
        return room;
    release_bytes(change->cell, bytes);
    return false;
}

static void make_change_or_lose(const struct wire_agent_change *change)
{
    if (!make_change(change))
        agent_lose(WIRE_AGENT_LOSS_NO_RANGE);
}

/* --- who makes it --- */

static bool acquire_ranges(struct wire_agent_process *process, unsigned spins)
{
    uint32_t *lock = &process->range_lock;
    for (unsigned i = 0; i < spins; i++)
        if (__atomic_load_n(lock, __ATOMIC_RELAXED) == 0 &&
            __atomic_exchange_n(lock, 1, __ATOMIC_SEQ_CST) == 0)
            return true;
    return false;
}

static struct wire_agent_change *waiting_changes(void)
{
    return agent_part(wire_agent_layout(agent_control()->memory).changes);
}

/* Of those that wait the one that comes first; NULL: none waits. */
static struct wire_agent_change *first_waiting_change(void)
{
    struct wire_agent_change *first = NULL, *all = waiting_changes();
    for (unsigned i = 0; i < WIRE_AGENT_CHANGES; i++)
        if (__atomic_load_n(&all[i].state, __ATOMIC_ACQUIRE) == WAITING &&
            (first == NULL || all[i].number < first->number))
            first = &all[i];
    return first;
}

static void make_waiting_changes(struct wire_agent_process *process)
{
    while (__atomic_load_n(&process->range_waiting, __ATOMIC_SEQ_CST) != 0) {
        struct wire_agent_change *change = first_waiting_change();
        if (change == NULL)
            return; /* its writer is about to look for the lock */
        make_change_or_lose(change);
        __atomic_fetch_sub(&process->range_waiting, 1, __ATOMIC_SEQ_CST);
        __atomic_store_n(&change->state, FREE, __ATOMIC_RELEASE);
    }
}

/* Who has written one down after the last look finds the lock free, or somebody who looks again. */
static void give_ranges_back(struct wire_agent_process *process)
{
    do {
        make_waiting_changes(process);
        __atomic_exchange_n(&process->range_lock, 0, __ATOMIC_SEQ_CST);
    } while (__atomic_load_n(&process->range_waiting, __ATOMIC_SEQ_CST) != 0 && acquire_ranges(process, 1));
}

static bool write_change_down(struct wire_agent_process *process, const struct wire_agent_change *wanted)
{
    struct wire_agent_change *all = waiting_changes();
    for (unsigned i = 0; i < WIRE_AGENT_CHANGES; i++) {
        uint32_t state = FREE;
        if (!__atomic_compare_exchange_n(&all[i].state, &state, WRITING, false, __ATOMIC_ACQUIRE,
                                         __ATOMIC_RELAXED))
            continue;
        all[i].start = wanted->start, all[i].end = wanted->end;
        all[i].number = wanted->number, all[i].cell = wanted->cell;
        __atomic_store_n(&all[i].state, WAITING, __ATOMIC_RELEASE);
        __atomic_fetch_add(&process->range_waiting, 1, __ATOMIC_SEQ_CST);
        return true;
    }
    return false;
}

/* Nobody wakes: it ends by itself. */
static void rest_a_moment(struct wire_agent_process *process, uint64_t ns)
{
    const int64_t moment[2] = {0, (int64_t)(ns < REST_MOST_NS ? ns : REST_MOST_NS)};
    if (ns != 0 && agent_may(WIRE_AGENT_CALL_FUTEX))
        arch_host_syscall(SYS_futex, (uint64_t)&process->range_lock, AGENT_FUTEX_WAIT, 1, (uint64_t)moment, 0,
                          0);
}

/* True: it is made, or written down for whoever has the lock. The more are written down, the longer their
 * writers rest, so that one who was put aside comes to run before there is no place. */
static bool try_change(struct wire_agent_process *process, const struct wire_agent_change *change)
{
    bool mine = acquire_ranges(process, SPINS);
    if (mine) {
        make_waiting_changes(process);
        make_change_or_lose(change);
    } else if (!write_change_down(process, change)) {
        return false;
    } else {
        rest_a_moment(process,
                      __atomic_load_n(&process->range_waiting, __ATOMIC_RELAXED) / REST_EVERY * REST_NS);
    }
    if (mine || acquire_ranges(process, 1))
        give_ranges_back(process);
    return true;
}

static void change_ranges(const struct wire_agent_change *change)
{
    struct wire_agent_process *process = agent_process();
    uint64_t before;
    bool changed = false;
    if (change->start >= change->end)
        return;
    if (agent_may_block(AGENT_SIGNALS_ALL, &before)) {
        changed = try_change(process, change);
        if (!changed) {
            rest_a_moment(process, REST_MOST_NS);
            changed = try_change(process, change);
        }
        agent_may_unblock(before);
    }
    if (!changed)
        agent_lose(WIRE_AGENT_LOSS_NO_RANGE);
}

uint64_t agent_heap_range_number(void)
{
    return __atomic_add_fetch(&agent_process()->range_number, 1, __ATOMIC_RELAXED);
}

void agent_heap_range_remove(uint64_t start, uint64_t end, uint64_t number)
{
    change_ranges(&(struct wire_agent_change){start, end, number, 0, FREE});
}

void agent_heap_range_add(uint64_t start, uint64_t end, uint32_t cell)
{
    change_ranges(&(struct wire_agent_change){start, end, agent_heap_range_number(), cell, FREE});
}
