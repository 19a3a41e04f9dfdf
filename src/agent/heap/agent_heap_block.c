/* Live blocks: address -> size and cell, without locks.
 *
 * An address that an allocator gave out belongs to one thread until it is given back: nobody else inserts it,
 * and who removes it got it from the thread that inserted it. So a slot needs no lock: it is taken by one
 * compare and swap of the key, and freed by a store. Tables are never moved. When the newest has no room near
 * a block's home, a new one is made, as large as all before it; blocks stay where they are until they are
 * released. A look-up goes from the newest table to the oldest: half of the slots are in the newest, so it
 * takes two on average, and one in a program that does not grow.
 *
 * Tables of the first thread. As long as only one thread allocates, tables are made into which no other
 * inserts: there a store takes a slot, and no locked instruction (agent_cell.c says why that is safe). The
 * first block of another thread has a table made that is for all, and so are those that come later. So that
 * it can be made, its memory is mapped before the last table of the first thread is: where that may not be,
 * and in the largest table, all threads insert. When the first thread finds that it is alone no more, it
 * makes all tables tables for all. Only it can: it knows that it is not about to store in one.
 *
 * Where empty pages are looked for (--empty) all tables are for all: a size is then where the agent reads.
 *
 * Past the ceiling. In the largest table one slot of each bucket is kept for blocks that are samples
 * (wire_agent_block.h: levels), so that these find a place near their home though all else is full: a sample
 * that found none would be missing in every figure. When they begin to crowd there, the level rises: fewer
 * come, and each stands for more.
 *
 * Where a block's home is. The page of its address is hashed; within it, each 256 bytes have the next bucket.
 * So blocks that are neighbours in memory are so here, and a walk over a table's memory costs the program no
 * more TLB misses than its own. Of the bucket's slots, each 32 bytes prefer another one: mostly it is the
 * first that is looked at, and the only cache line. */
#include "agent_heap_block.h"

#include "agent_memory.h"
#include "wire_agent_block.h"

#define PROBES 8 /* buckets from the home on */

static struct wire_agent_bucket *bucket_at(unsigned table, uint64_t number)
{
    struct wire_agent_bucket *buckets = (struct wire_agent_bucket *)agent_parameters.blocks;
    uint64_t count = wire_agent_table_buckets(table);
    return buckets + wire_agent_table_before(table) + (number & (count - 1));
}

static uint64_t home_of_address(uint64_t address)
{
    uint64_t page = (address >> 12) * UINT64_C(0x9e3779b97f4a7c15);
    return (page >> 20 ^ page >> 42) + (address >> 8 & 15);
}

static uint64_t key_of_address(uint64_t address)
{
    return address >> 3 & WIRE_AGENT_KEY_MASK;
}

static struct wire_agent_slot pack_slot(uint64_t address, struct agent_heap_block block)
{
    return (struct wire_agent_slot){key_of_address(address) | block.size >> 28 << 44,
                                    block.size << 36 | (uint64_t)block.level << 32 | block.cell};
}

static unsigned preferred_slot(uint64_t key)
{
    unsigned number = (unsigned)(key >> 2) & 7;
    return number < WIRE_AGENT_SLOTS ? number : 0;
}

/* `alone`: nobody else inserts here. */
static inline bool claim_slot(struct wire_agent_slot *slot, struct wire_agent_slot wanted, bool alone)
{
    uint64_t there = __atomic_load_n(&slot->key, __ATOMIC_ACQUIRE); /* who freed it has cleared its value */
    if (there != 0)
        return false;
    if (alone)
        __atomic_store_n(&slot->key, wanted.key, __ATOMIC_RELAXED);
    else if (!__atomic_compare_exchange_n(&slot->key, &there, wanted.key, false, __ATOMIC_ACQ_REL,
                                          __ATOMIC_RELAXED))
        return false;
    __atomic_store_n(&slot->value, wanted.value, __ATOMIC_RELEASE);
    return true;
}

static bool take_slot(struct wire_agent_bucket *bucket, struct wire_agent_slot wanted, unsigned slots,
                      bool alone)
{
    unsigned preferred = preferred_slot(wanted.key);
    if (__builtin_expect(preferred < slots && claim_slot(&bucket->slots[preferred], wanted, alone), 1))
        return true;
    for (unsigned i = 0; i < slots; i++)
        if (claim_slot(&bucket->slots[i], wanted, alone))
            return true;
    return false;
}

/* A block that is to have a slot. */
struct insertion {
    uint64_t home;
    struct wire_agent_slot wanted;
    bool by_first; /* thread: it may go to tables that are not for all */
};

/* How many buckets from its home the block is; PROBES: there is no room, or not for this thread. */
static unsigned insert_in_table(const struct insertion *it, struct wire_agent_tables tables, unsigned table,
                                unsigned slots)
{
    bool alone = table < tables.shared;
    if (alone && !it->by_first)
        return PROBES;
    struct wire_agent_bucket *first = bucket_at(table, it->home);
    if (__builtin_expect(take_slot(first, it->wanted, slots, alone), 1))
        return 0;
    /* Counted first: while it is 0, nobody looks for a block behind its home. */
    __atomic_fetch_add(&first->passed, 1, __ATOMIC_ACQ_REL);
    for (unsigned i = 1; i < PROBES; i++)
        if (take_slot(bucket_at(table, it->home + i), it->wanted, slots, alone))
            return i;
    __atomic_fetch_sub(&first->passed, 1, __ATOMIC_ACQ_REL);
    return PROBES;
}

/* Bytes of the tables up to this one. */
static uint64_t end_of_table(uint32_t table)
{
    return (wire_agent_table_before(table) + wire_agent_table_buckets(table)) *
           sizeof(struct wire_agent_bucket);
}

/* Slots of a bucket that a block which is no sample may have. */
static unsigned common_slots(uint32_t table)
{
    struct wire_agent_layout layout = wire_agent_layout(agent_control()->memory);
    return WIRE_AGENT_SLOTS - (end_of_table(table + 1) > layout.block_bytes); /* no larger one will come */
}

/* May the next table be the first thread's? Not unless the one behind it, which is then for others, has its
 * memory. */
static bool may_be_alone(const struct insertion *it, struct wire_agent_tables tables, uint64_t most_bytes)
{
    uint64_t end_of_next = end_of_table(tables.count + 1);
    return it->by_first && tables.shared == tables.count &&
           __atomic_load_n(&agent_process()->thread_count, __ATOMIC_RELAXED) == 1 &&
           (agent_control()->flags & WIRE_AGENT_EMPTY) == 0 && end_of_next <= most_bytes &&
           agent_memory_reserve(WIRE_AGENT_PART_BLOCKS, end_of_next);
}

/* One more table; false: there is no room. `word`: process.block_tables, as the caller has seen it. */
static bool add_table(struct wire_agent_process *process, const struct insertion *it, uint32_t word)
{
    uint64_t most_bytes = wire_agent_layout(agent_control()->memory).block_bytes;
    struct wire_agent_tables tables = wire_agent_tables(word);
    uint64_t end = end_of_table(tables.count);
    if (end > most_bytes || !agent_memory_has(WIRE_AGENT_PART_BLOCKS, end))
        return false;
    uint32_t shared = may_be_alone(it, tables, most_bytes) ? tables.count + 1 : tables.shared;
    if (__atomic_compare_exchange_n(&process->block_tables, &word,
                                    wire_agent_tables_word(tables.count + 1, shared), false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        __atomic_store_n(&process->block_used, end, __ATOMIC_RELAXED);
    return true;
}

/* By the first thread, which has others beside it now. What it stored is seen by who reads the word. */
static __attribute__((noinline)) void share_tables(struct wire_agent_process *process)
{
    uint32_t word = __atomic_load_n(&process->block_tables, __ATOMIC_RELAXED);
    while (wire_agent_tables(word).shared != 0 &&
           !__atomic_compare_exchange_n(&process->block_tables, &word,
                                        wire_agent_tables_word(wire_agent_tables(word).count, 0), false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
    }
}

/* buckets from its home on: so far away only when a third of the kept slots are in use or more */
#define CROWDED 3
#define EVENTS  16 /* until there are to be fewer samples */

/* A block of `level` is `distance` buckets from its home. The first one that has no place at all begins with
 * samples. */
static void raise_level(struct wire_agent_process *process, uint32_t level, unsigned distance)
{
    if (distance < CROWDED || level == WIRE_AGENT_LEVELS || agent_control()->sample_bytes != 0)
        return;
    if (level != 0 && __atomic_add_fetch(&process->level_failures, 1, __ATOMIC_RELAXED) % EVENTS != 0)
        return;
    __atomic_compare_exchange_n(&process->level, &level, level + 1, false, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
}

void agent_heap_block_expect(uint64_t address)
{
    uint64_t home = home_of_address(address);
    unsigned slot = preferred_slot(key_of_address(address));
    uint32_t word = __atomic_load_n(&agent_process()->block_tables, __ATOMIC_RELAXED);
    uint32_t tables = wire_agent_tables(word).count;
    for (uint32_t i = tables; i > 0 && i + 2 > tables; i--)
        __builtin_prefetch(&bucket_at(i - 1, home)->slots[slot]);
}

/* Into the older tables, where room may have come up. */
static unsigned insert_in_older_tables(const struct insertion *it, struct wire_agent_tables tables)
{
    unsigned distance = PROBES;
    for (uint32_t i = tables.count; i-- > 1 && distance == PROBES;)
        distance = insert_in_table(it, tables, i - 1, WIRE_AGENT_SLOTS);
    return distance;
}

static inline bool must_share(const struct wire_agent_process *process, const struct insertion *it,
                              struct wire_agent_tables tables)
{
    return it->by_first && tables.shared != 0 &&
           __builtin_expect(__atomic_load_n(&process->thread_count, __ATOMIC_RELAXED) != 1, 0);
}

/* All tables are the first thread's: nothing says that they are full. */
static bool has_no_table(const struct insertion *it, struct wire_agent_tables tables)
{
    return !it->by_first && tables.count != 0 && tables.shared == tables.count;
}

bool agent_heap_block_insert(const struct agent_thread *thread, uint64_t address,
                             struct agent_heap_block block)
{
    struct wire_agent_process *process = agent_process();
    struct insertion it = {home_of_address(address), pack_slot(address, block), thread->group == 1};
    for (;;) {
        uint32_t word = __atomic_load_n(&process->block_tables, __ATOMIC_ACQUIRE);
        struct wire_agent_tables tables = wire_agent_tables(word);
        if (must_share(process, &it, tables)) {
            share_tables(process);
            continue;
        }
        uint32_t newest = tables.count - 1;
        unsigned slots = block.level != 0 || tables.count == 0 ? WIRE_AGENT_SLOTS : common_slots(newest);
        unsigned distance = tables.count > 0 ? insert_in_table(&it, tables, newest, slots) : PROBES;
        if (__builtin_expect(distance < PROBES && block.level == 0, 1))
            return true;
        if (distance == PROBES && add_table(process, &it, word))
            continue;
        if (distance == PROBES)
            distance = insert_in_older_tables(&it, tables);
        if ((distance == PROBES || block.level != 0) && !has_no_table(&it, tables))
            raise_level(process, block.level, distance);
        return distance < PROBES;
    }
}

static inline bool has_key(const struct wire_agent_slot *slot, uint64_t key)
{
    return (__atomic_load_n(&slot->key, __ATOMIC_RELAXED) & WIRE_AGENT_KEY_MASK) == key;
}

static struct wire_agent_slot *search_bucket(struct wire_agent_bucket *bucket, uint64_t key)
{
    struct wire_agent_slot *preferred = &bucket->slots[preferred_slot(key)];
    if (__builtin_expect(has_key(preferred, key), 1))
        return preferred;
    for (unsigned i = 0; i < WIRE_AGENT_SLOTS; i++)
        if (has_key(&bucket->slots[i], key))
            return &bucket->slots[i];
    return NULL;
}

static struct agent_heap_block take_block_out(struct wire_agent_slot *slot)
{
    struct agent_heap_block block = {wire_agent_slot_size(slot), wire_agent_slot_cell(slot),
                                     wire_agent_slot_level(slot)};
    __atomic_store_n(&slot->value, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->key, 0, __ATOMIC_RELEASE);
    return block;
}

static bool remove_from_table(unsigned table, uint64_t home, uint64_t key, struct agent_heap_block *block)
{
    struct wire_agent_bucket *first = bucket_at(table, home);
    struct wire_agent_slot *slot = search_bucket(first, key);
    if (__builtin_expect(slot != NULL, 1)) {
        *block = take_block_out(slot);
        return true;
    }
    if (__atomic_load_n(&first->passed, __ATOMIC_ACQUIRE) == 0)
        return false;
    for (unsigned i = 1; i < PROBES; i++) {
        slot = search_bucket(bucket_at(table, home + i), key);
        if (slot != NULL) {
            *block = take_block_out(slot);
            __atomic_fetch_sub(&first->passed, 1, __ATOMIC_ACQ_REL);
            return true;
        }
    }
    return false;
}

bool agent_heap_block_remove(uint64_t address, struct agent_heap_block *block)
{
    uint64_t home = home_of_address(address), key = key_of_address(address);
    uint32_t word = __atomic_load_n(&agent_process()->block_tables, __ATOMIC_ACQUIRE);
    uint32_t tables = wire_agent_tables(word).count;
    for (uint32_t i = tables < 64 ? tables : 64; i-- > 0;)
        if (remove_from_table(i, home, key, block))
            return true;
    return false;
}
