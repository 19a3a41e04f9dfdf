/* The tree of nodes and its index.
 *
 * Nodes are numbered as they come and never go. The index is open addressing over their numbers; a slot is
 * filled by one compare and swap, when the node is complete. It grows by copying: one thread makes a table
 * twice as large, fills it, and then publishes it. Who fills a slot of the old table in that moment makes a
 * node that the new one does not know, and another node of the same path will be made later: their figures
 * add up where they are read (wire_agent_node.h), so that is allowed, and nobody waits as long as there are
 * slots.
 *
 * A thread that grows the table may get no processor until the slots are used up, or never come back (it was
 * interrupted by whoever looks, or its handler left by a jump). It is waited for, two milliseconds at most;
 * then its turn is taken, and what it makes in the end is given up. So each table has its own space, and only
 * the one that takes the place of the table that it was made of is published. */
#include "agent_node.h"

#include "agent_memory.h"

#define FIRST_BITS 8
#define WAITS      20 /* for the thread that grows the table, two milliseconds in all */
#define TURNS      3  /* that one waits for, or takes */
#define FULL       UINT32_MAX

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

/* Space for a table, behind all others; 0: there is none. */
static uint64_t take_space(struct wire_agent_process *process, uint64_t bytes)
{
    struct wire_agent_layout layout = wire_agent_layout(agent_control()->memory);
    uint64_t used = __atomic_load_n(&process->index_used, __ATOMIC_RELAXED), first;
    do {
        first = used != 0 ? used : sizeof(uint32_t) << FIRST_BITS;
        if (first + bytes > layout.index_bytes || !agent_memory_has(WIRE_AGENT_PART_INDEX, first + bytes))
            return 0;
    } while (!__atomic_compare_exchange_n(&process->index_used, &used, first + bytes, false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    return first;
}

/* Of the nodes that have a number; behind what is mapped, numbers are nobody's (agent_memory_number). */
static uint32_t count_nodes(const struct wire_agent_process *process)
{
    uint64_t count = __atomic_load_n(&process->node_count, __ATOMIC_ACQUIRE);
    uint64_t mapped = __atomic_load_n(&agent_parameters.mapped[WIRE_AGENT_PART_NODES], __ATOMIC_ACQUIRE);
    uint64_t most = mapped / sizeof(struct wire_agent_node) - 1;
    return (uint32_t)(count < most ? count : most);
}

/* At most half full, with the nodes that have no slot in `place`, too: of threads that came second. The
 * longest pause that the agent ever makes in a hook: some microseconds per thousand nodes, each time their
 * number has doubled. */
static void make_index(struct wire_agent_process *process, uint64_t place)
{
    uint64_t bits = (place & 255) + 1, before = place == FIRST_BITS ? 0 : place;
    uint32_t node_count = count_nodes(process);
    while (node_count * UINT64_C(2) > UINT64_C(1) << bits)
        bits++;
    uint64_t first = take_space(process, sizeof(uint32_t) << bits);
    if (first == 0)
        return;
    fill_index(first << 8 | bits, node_count);
    __atomic_compare_exchange_n(&process->index_place, &before, first << 8 | bits, false, __ATOMIC_RELEASE,
                                __ATOMIC_RELAXED);
}

/* index_lock: whose turn it is to grow the table, 0: nobody's. True: it was one's own. */
static bool grow_index(struct wire_agent_process *process, uint64_t place, uint32_t turn_before)
{
    uint32_t turn = turn_before + 1;
    if (!__atomic_compare_exchange_n(&process->index_lock, &turn_before, turn, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
        return false;
    if (present_place(process) == place)
        make_index(process, place);
    __atomic_compare_exchange_n(&process->index_lock, &turn, 0, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    return true;
}

/* All slots are used. True: there is another table than the one at `place`. */
static bool await_index(struct wire_agent_process *process, uint64_t place)
{
    for (unsigned turns = 0; turns < TURNS && present_place(process) == place; turns++) {
        uint32_t turn = __atomic_load_n(&process->index_lock, __ATOMIC_RELAXED);
        for (unsigned waits = 0; waits < WAITS && turn != 0 && present_place(process) == place &&
                                 __atomic_load_n(&process->index_lock, __ATOMIC_RELAXED) == turn;
             waits++)
            agent_memory_wait();
        if (grow_index(process, place, turn))
            break;
    }
    return present_place(process) != place;
}

static uint32_t make_node(struct wire_agent_process *process, const struct wire_agent_node *wanted)
{
    struct wire_agent_layout layout = wire_agent_layout(agent_control()->memory);
    uint32_t number = agent_memory_number(&process->node_count, layout.node_count, WIRE_AGENT_PART_NODES,
                                          sizeof(struct wire_agent_node));
    if (number == 0)
        return 0;
    struct wire_agent_node *node = agent_node_at(number);
    *node = *wanted;
    __atomic_store_n(&node->ready, 1, __ATOMIC_RELEASE);
    return number;
}

/* 0: there is no room for a node; FULL: no slot in this table. */
static uint32_t child_in(struct wire_agent_process *process, uint64_t place,
                         const struct wire_agent_node *wanted)
{
    uint32_t *slots = slots_at(place), mask = (uint32_t)((UINT64_C(1) << (place & 255)) - 1), made = 0;
    for (uint32_t at = wanted->hash & mask, probes = 0; probes <= mask; at = (at + 1) & mask, probes++) {
        uint32_t there = __atomic_load_n(&slots[at], __ATOMIC_ACQUIRE);
        if (there == 0) {
            /* The node is complete before the slot shows it. Of two threads that come here at once one keeps
             * a node without a slot; fill_index gives it one. */
            if (made == 0)
                made = make_node(process, wanted);
            if (made == 0)
                return 0;
            if (__atomic_compare_exchange_n(&slots[at], &there, made, false, __ATOMIC_ACQ_REL,
                                            __ATOMIC_ACQUIRE)) {
                if (made * UINT64_C(2) > mask)
                    grow_index(process, place, 0);
                return made;
            }
        }
        const struct wire_agent_node *node = agent_node_at(there);
        if (node->pc == wanted->pc && node->parent == wanted->parent && node->cookie == wanted->cookie &&
            node->flags == wanted->flags)
            return there;
    }
    return made != 0 ? made : FULL;
}

uint32_t agent_node_child(uint32_t parent, uint64_t pc, uint32_t cookie, uint32_t flags)
{
    struct wire_agent_process *process = agent_process();
    struct wire_agent_node wanted = {pc, parent, cookie, 0, flags, 0, hash_of(parent, pc, cookie)};
    uint64_t place = present_place(process);
    uint32_t child = child_in(process, place, &wanted);
    if (child == FULL && await_index(process, place))
        child = child_in(process, present_place(process), &wanted);
    return child != FULL ? child : 0;
}
