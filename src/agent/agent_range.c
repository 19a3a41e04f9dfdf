/* Mapped memory: ranges of addresses, each with the figures of who mapped it.
 *
 * A skip list of disjoint ranges, by their starts, in the region's part `maps`; range 0 is the head. Mapping
 * is rare beside allocating, and goes through one lock of the kernel anyway: so here it is one lock too,
 * taken for a moment and never across a system call of the program's. While it is held all signals are
 * blocked: no handler can come in between, nor leave by a jump. Who does not get it in time gives up, which
 * is a counted loss.
 *
 * Order. The kernel maps and unmaps before this table learns of it, in whatever order threads come here. What
 * is unmapped may be mapped again by another thread, and be entered, before the first one comes to strike it
 * out. So a number is drawn before each system call that unmaps, and one after each that maps: only what is
 * older is struck out. */
#include "agent.h"

#include <sys/syscall.h>

#define LEVELS      8
#define SPINS       500
#define RESTS       8000 /* less than a second in all: who has it was only put aside for others to run */
#define RESTS_STUCK 8    /* ... or stands still: then nobody waits that long again */
#define REST_NS     50000
#define SIG_SETMASK 2

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

static struct wire_agent_cell *cell_at(uint32_t number)
{
    return (struct wire_agent_cell *)agent_part(wire_agent_layout(agent_control()->memory).cells) + number;
}

/* --- the lock --- */

static bool acquire(struct wire_agent_process *process)
{
    uint32_t *lock = &process->range_lock;
    unsigned tries = SPINS + (__atomic_load_n(&process->range_stuck, __ATOMIC_RELAXED) ? RESTS_STUCK : RESTS);
    for (unsigned i = 0; i < tries; i++) {
        if (__atomic_load_n(lock, __ATOMIC_RELAXED) == 0 &&
            __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) == 0) {
            __atomic_store_n(&process->range_stuck, 0, __ATOMIC_RELAXED);
            return true;
        }
        int64_t rest[2] = {0, REST_NS};
        if (i >= SPINS && agent_may(WIRE_AGENT_CALL_FUTEX)) /* nobody wakes: it ends by itself */
            arch_host_syscall(SYS_futex, (uint64_t)lock, AGENT_FUTEX_WAIT, 1, (uint64_t)rest, 0, 0);
    }
    __atomic_store_n(&process->range_stuck, 1, __ATOMIC_RELAXED);
    return false;
}

static bool lock_ranges(uint64_t *signals)
{
    const uint64_t all = UINT64_MAX;
    if (!agent_may(WIRE_AGENT_CALL_MASK)) {
        agent_lose(WIRE_AGENT_LOSS_NO_RANGE);
        return false;
    }
    arch_host_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (uint64_t)&all, (uint64_t)signals, sizeof all, 0, 0);
    if (acquire(agent_process()))
        return true;
    arch_host_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (uint64_t)signals, 0, sizeof all, 0, 0);
    agent_lose(WIRE_AGENT_LOSS_NO_RANGE);
    return false;
}

static void unlock_ranges(const uint64_t *signals)
{
    __atomic_store_n(&agent_process()->range_lock, 0, __ATOMIC_RELEASE);
    arch_host_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (uint64_t)signals, 0, sizeof *signals, 0, 0);
}

/* --- the list --- */

/* The last range on each level that ends at or before `address`. */
static void find(uint64_t address, uint32_t before[LEVELS])
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
static uint32_t take(struct wire_agent_process *process)
{
    uint32_t number = process->range_free;
    if (number != 0) {
        process->range_free = range_at(number)->next[0];
        return number;
    }
    if (process->range_count + UINT64_C(1) >=
            wire_agent_layout(agent_control()->memory).range_bytes / WIRE_AGENT_RANGE_BYTES ||
        !agent_room(WIRE_AGENT_PART_RANGES, (process->range_count + UINT64_C(2)) * WIRE_AGENT_RANGE_BYTES))
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

static bool link(uint64_t start, uint64_t end, uint64_t number, uint32_t cell)
{
    struct wire_agent_process *process = agent_process();
    uint32_t before[LEVELS], made = take(process);
    if (made == 0)
        return false;
    find(start, before);
    struct range *range = range_at(made);
    range->start = start, range->end = end, range->number = number, range->cell = cell;
    range->levels = levels_of(process->range_seed++);
    for (unsigned level = 0; level < range->levels; level++) {
        range->next[level] = range_at(before[level])->next[level];
        range_at(before[level])->next[level] = made;
    }
    return true;
}

static void unlink(uint32_t gone)
{
    struct wire_agent_process *process = agent_process();
    struct range *range = range_at(gone);
    uint32_t before[LEVELS];
    find(range->start, before);
    for (unsigned level = 0; level < range->levels && level < LEVELS; level++)
        if (range_at(before[level])->next[level] == gone)
            range_at(before[level])->next[level] = range->next[level];
    range->next[0] = process->range_free;
    process->range_free = gone;
}

/* --- what changes --- */

static void release(uint32_t cell, uint64_t bytes)
{
    cell_at(cell)->freed_own += bytes;
}

/* Takes [start, end) out of a range that has some of it. False: no room for what is left beyond. */
static bool cut(uint32_t number, uint64_t start, uint64_t end)
{
    struct range *range = range_at(number);
    uint64_t first = range->start, last = range->end;
    uint64_t from = start > first ? start : first, to = end < last ? end : last;
    release(range->cell, to - from);
    if (from == first && to == last) {
        unlink(number);
    } else if (from == first) {
        range->start = to;
    } else {
        range->end = from;
        if (to < last && !link(to, last, range->number, range->cell)) {
            release(range->cell, last - to);
            return false;
        }
    }
    return true;
}

/* Of what is older than `number`. */
static bool strike(uint64_t start, uint64_t end, uint64_t number)
{
    uint32_t before[LEVELS];
    bool room = true;
    find(start, before);
    uint32_t at = range_at(before[0])->next[0];
    while (at != 0 && range_at(at)->start < end) {
        uint32_t next = range_at(at)->next[0];
        if (range_at(at)->number < number)
            room &= cut(at, start, end);
        at = next;
    }
    return room;
}

uint64_t agent_range_number(void)
{
    return __atomic_add_fetch(&agent_process()->range_number, 1, __ATOMIC_RELAXED);
}

void agent_range_remove(uint64_t start, uint64_t end, uint64_t number)
{
    uint64_t signals;
    if (start >= end || !lock_ranges(&signals))
        return;
    bool room = strike(start, end, number);
    unlock_ranges(&signals);
    if (!room)
        agent_lose(WIRE_AGENT_LOSS_NO_RANGE);
}

void agent_range_add(uint64_t start, uint64_t end, uint32_t cell)
{
    uint64_t signals;
    if (start >= end || !lock_ranges(&signals))
        return;
    bool room = strike(start, end, UINT64_MAX); /* the kernel has replaced what was there */
    cell_at(cell)->total += end - start;
    cell_at(cell)->count++;
    if (!link(start, end, agent_range_number(), cell)) {
        release(cell, end - start);
        room = false;
    }
    unlock_ranges(&signals);
    if (!room)
        agent_lose(WIRE_AGENT_LOSS_NO_RANGE);
}
