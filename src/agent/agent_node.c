/* The tree of nodes and its index.
 *
 * Nodes are numbered as they come and never go. The index is open addressing over their numbers; a slot is
 * filled by one compare and swap, when the node is complete. It grows by copying: one thread makes a table
 * twice as large, fills it, and then publishes it. Who fills a slot of the old table in that moment makes a
 * node that the new one does not know, and another node of the same path will be made later: their figures
 * add up where they are read (wire_agent.h), so that is allowed, and nobody waits. */
#include "agent.h"

#define FIRST_BITS 8

static uint32_t hash_of(uint32_t parent, uint64_t pc, uint32_t cookie)
{
    uint64_t mixed = (pc ^ (uint64_t)parent << 44 ^ (uint64_t)cookie << 24) * UINT64_C(0x9e3779b97f4a7c15);
    mixed ^= mixed >> 32;
    return (uint32_t)(mixed * UINT64_C(0xd6e8feb86659fd93) >> 32);
}

static uint32_t *slots_at(uint64_t place)
{
    return (uint32_t *)((uint8_t *)agent_part(wire_agent_layout(agent_control()->memory).index) +
                        (place >> 8));
}

static uint64_t present_place(const struct wire_agent_process *process)
{
    uint64_t place = __atomic_load_n(&process->index_place, __ATOMIC_ACQUIRE);
    return place != 0 ? place : FIRST_BITS;
}

static void fill_index(uint64_t place, uint32_t node_count)
{
    uint32_t *slots = slots_at(place), mask = (uint32_t)((UINT64_C(1) << (place & 255)) - 1);
    for (uint32_t i = 1; i <= node_count; i++) {
        const struct wire_agent_node *node = agent_node_at(i);
        if (!__atomic_load_n(&node->ready, __ATOMIC_ACQUIRE))
            continue;
        uint32_t at = node->hash & mask;
        while (slots[at] != 0)
            at = (at + 1) & mask;
        slots[at] = i;
    }
}

/* The longest pause that the agent ever makes in a hook: some microseconds per thousand nodes, each time
 * their number has doubled. */
static void grow_index(struct wire_agent_process *process, uint32_t node_count)
{
    struct wire_agent_layout layout = wire_agent_layout(agent_control()->memory);
    uint64_t place = present_place(process), bits = (place & 255) + 1;
    uint64_t used = process->index_used != 0 ? process->index_used : sizeof(uint32_t) << FIRST_BITS;
    if (node_count * UINT64_C(2) <= UINT64_C(1) << (place & 255) ||
        used + (sizeof(uint32_t) << bits) > layout.index_bytes ||
        !agent_room(WIRE_AGENT_PART_INDEX, used + (sizeof(uint32_t) << bits)))
        return;
    if (__atomic_exchange_n(&process->index_lock, 1, __ATOMIC_ACQUIRE) != 0)
        return;
    if (present_place(process) == place) {
        process->index_used = used + (sizeof(uint32_t) << bits);
        fill_index(used << 8 | bits, node_count);
        __atomic_store_n(&process->index_place, used << 8 | bits, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&process->index_lock, 0, __ATOMIC_RELEASE);
}

static uint32_t make_node(struct wire_agent_process *process, const struct wire_agent_node *wanted)
{
    struct wire_agent_layout layout = wire_agent_layout(agent_control()->memory);
    uint32_t number = agent_take_number(&process->node_count, layout.node_count, WIRE_AGENT_PART_NODES,
                                        sizeof(struct wire_agent_node));
    if (number == 0)
        return 0;
    struct wire_agent_node *node = agent_node_at(number);
    *node = *wanted;
    __atomic_store_n(&node->ready, 1, __ATOMIC_RELEASE);
    return number;
}

uint32_t agent_node_child(uint32_t parent, uint64_t pc, uint32_t cookie, uint32_t flags)
{
    struct wire_agent_process *process = agent_process();
    uint64_t place = present_place(process);
    uint32_t *slots = slots_at(place), mask = (uint32_t)((UINT64_C(1) << (place & 255)) - 1);
    uint32_t hash = hash_of(parent, pc, cookie), made = 0;
    for (uint32_t at = hash & mask, probes = 0; probes <= mask; at = (at + 1) & mask, probes++) {
        uint32_t there = __atomic_load_n(&slots[at], __ATOMIC_ACQUIRE);
        if (there == 0) {
            if (made == 0) {
                struct wire_agent_node wanted = {pc, parent, cookie, 0, flags, 0, hash};
                made = make_node(process, &wanted);
            }
            if (made == 0)
                return 0;
            if (__atomic_compare_exchange_n(&slots[at], &there, made, false, __ATOMIC_ACQ_REL,
                                            __ATOMIC_ACQUIRE)) {
                grow_index(process, made);
                return made;
            }
        }
        const struct wire_agent_node *node = agent_node_at(there);
        if (node->pc == pc && node->parent == parent && node->cookie == cookie && node->flags == flags)
            return there;
    }
    return made; /* a full index: only where it could not grow any more */
}
