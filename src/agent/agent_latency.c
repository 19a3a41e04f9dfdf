/* Histograms of how long calls took, one for each function and group of threads.
 *
 * A cell of a function's stack knows its histogram by number (wire_agent_cell.largest), so that a call's end
 * finds it in the line it writes anyway. Who has none yet looks in a table that is hashed by function and
 * group, and only ever filled. Like cells, histograms of one thread are written without locked instructions;
 * group 0, which everybody shares who came late, has atomic ones, and so has the group that functions fall
 * back to once half of the table is used. */
#include "agent_latency.h"

#include "agent_cell.h"
#include "agent_memory.h"
#include "agent_node.h"
#include "wire_agent_latency.h"

#define PROBES 64

static struct wire_agent_latency *latency_at(uint32_t number)
{
    struct wire_agent_layout layout = wire_agent_layout(agent_control()->memory);
    return (struct wire_agent_latency *)agent_part(layout.latencies) + number;
}

static bool is_of(uint32_t number, uint64_t function, uint32_t cookie, uint32_t group)
{
    const struct wire_agent_latency *latency = latency_at(number);
    return latency->function == function && latency->cookie == cookie && latency->group == group;
}

static uint32_t make_histogram(uint64_t function, uint32_t cookie, uint32_t group)
{
    uint32_t number = agent_memory_number(&agent_process()->latency_count, WIRE_AGENT_LATENCIES,
                                          WIRE_AGENT_PART_LATENCIES, sizeof(struct wire_agent_latency));
    if (number == 0)
        return 0;
    struct wire_agent_latency *latency = latency_at(number);
    latency->function = function;
    latency->cookie = cookie;
    latency->group = group;
    return number;
}

/* The number of the one of a function, made if need be; 0: there is none. It is complete before others can
 * find it, so nobody waits; of two that are made at once, one is nobody's. A module may be gone and another
 * one be where it was: then the cookie is another. */
static uint32_t find_histogram(uint64_t function, uint32_t cookie, uint32_t group)
{
    uint32_t *slots = agent_part(wire_agent_layout(agent_control()->memory).latency_slots), made = 0;
    uint64_t key = function ^ (uint64_t)(group + 1) << 56;
    /* by the highest bits: only these distinguish groups */
    uint32_t at = (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 52) % WIRE_AGENT_LATENCY_SLOTS;
    for (unsigned i = 0; i < PROBES; i++, at = (at + 1) % WIRE_AGENT_LATENCY_SLOTS) {
        uint32_t there = __atomic_load_n(&slots[at], __ATOMIC_ACQUIRE);
        if (there == 0) {
            /* Complete before a slot shows it, and made once, however many slots others take first. */
            made = made != 0 ? made : make_histogram(function, cookie, group);
            if (made == 0 || __atomic_compare_exchange_n(&slots[at], &there, made, false, __ATOMIC_ACQ_REL,
                                                         __ATOMIC_ACQUIRE))
                return made;
        }
        if (is_of(there, function, cookie, group))
            return there;
    }
    return 0;
}

static uint32_t find_for(const struct wire_agent_cell *cell)
{
    const struct wire_agent_node *node = agent_node_at((uint32_t)cell->node);
    bool crowded = agent_process()->latency_count >= WIRE_AGENT_LATENCIES / 2;
    uint32_t number = crowded ? 0 : find_histogram(node->pc, node->cookie, cell->group);
    return number != 0 ? number : find_histogram(node->pc, node->cookie, 0);
}

static void keep_larger(uint64_t *place, uint64_t value, bool shared)
{
    uint64_t there = __atomic_load_n(place, __ATOMIC_RELAXED);
    while (__builtin_expect(value > there, 0)) {
        if (!shared)
            __atomic_store_n(place, value, __ATOMIC_RELAXED);
        if (!shared ||
            __atomic_compare_exchange_n(place, &there, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return;
    }
}

static inline __attribute__((always_inline)) void add_figure(uint64_t *place, uint64_t more, bool shared)
{
    if (__builtin_expect(shared, 0))
        __atomic_fetch_add(place, more, __ATOMIC_RELAXED);
    else
        *place += more;
}

void agent_latency_add(const struct agent_thread *thread, uint32_t number, uint64_t ticks)
{
    struct wire_agent_cell *cell = agent_cell_at(number);
    if (__builtin_expect(cell->largest == 0, 0)) {
        cell->largest = find_for(cell);
        if (cell->largest == 0) {
            agent_lose(WIRE_AGENT_LOSS_NO_HISTOGRAM);
            return;
        }
    }
    struct wire_agent_latency *latency = latency_at((uint32_t)cell->largest);
    bool shared = latency->group == 0 || latency->group != thread->group;
    uint64_t ns = (uint64_t)((unsigned __int128)ticks * agent_control()->ns_of_ticks >> 32);
    add_figure(&latency->sum, ticks, shared);
    keep_larger(&latency->most, ns, shared);
    keep_larger(&latency->least, ~ns, shared);
    add_figure(&latency->buckets[wire_latency_bucket(ns)], 1, shared);
}
