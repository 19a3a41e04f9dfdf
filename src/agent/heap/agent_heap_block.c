/* Live blocks: address -> size and cell, without locks.
 *
 * An address that an allocator gave out belongs to one thread until it is given back: nobody else inserts it,
 * and who removes it got it from the thread that inserted it. So a slot needs no lock: it is taken by one
 * compare and swap of the key, and freed by a store. Tables are never moved. When the newest has no room near
 * a block's home, a new one is made, as large as all before it; blocks stay where they are until they are
 * released. A look-up goes from the newest table to the oldest: half of the slots are in the newest, so it
 * takes two on average, and one in a program that does not grow.
 *
 * Past the ceiling. In the largest table one slot of each bucket is kept for blocks that are samples
 * (wire_agent_block.h: levels), so that these find a place near their home though all else is full: a sample
 * that found none would be missing in every figure. When they begin to crowd there, the level rises: fewer
 * come, and each stands for more.
 *
 * Where a block's home is. The page of its address is hashed; within it, each 256 bytes have the next bucket.
 * So blocks that are neighbours in memory are so here, and a walk over a table's memory costs the program no
 * more TLB misses than its own. */
#include "agent_heap_block.h"

#include "agent_memory.h"
#include "wire_agent_block.h"

#define PROBES 8 /* buckets from the home on */

static inline __attribute__((always_inline)) struct wire_agent_bucket *bucket_at(unsigned table,
                                                                                 uint64_t number)
{
    struct wire_agent_layout layout = wire_agent_layout(agent_control()->memory);
    struct wire_agent_bucket *buckets = agent_part(layout.blocks);
    uint64_t count = wire_agent_table_buckets(table);
    return buckets + wire_agent_table_before(table) + (number & (count - 1));
}

static uint64_t home_of_address(uint64_t address)
{
    uint64_t page = (address >> 12) * UINT64_C(0x9e3779b97f4a7c15);
    return (page >> 20 ^ page >> 42) + (address >> 8 & 15);
}

static struct wire_agent_slot pack_slot(uint64_t address, struct agent_heap_block block)
{
    return (struct wire_agent_slot){(address >> 3 & WIRE_AGENT_KEY_MASK) | block.size >> 28 << 44,
                                    block.size << 36 | (uint64_t)block.level << 32 | block.cell};
}

static bool take_slot(struct wire_agent_bucket *bucket, struct wire_agent_slot wanted, unsigned slots)
{
    for (unsigned i = 0; i < slots; i++) {
        struct wire_agent_slot *slot = &bucket->slots[i];
        uint64_t there = __atomic_load_n(&slot->key, __ATOMIC_RELAXED);
        if (there == 0 && __atomic_compare_exchange_n(&slot->key, &there, wanted.key, false, __ATOMIC_ACQ_REL,
                                                      __ATOMIC_RELAXED)) {
            __atomic_store_n(&slot->value, wanted.value, __ATOMIC_RELEASE);
            return true;
        }
    }
    return false;
}

/* How many buckets from its home the block is; PROBES: there is no room. */
static unsigned insert_in_table(unsigned table, uint64_t home, struct wire_agent_slot wanted, unsigned slots)
{
    struct wire_agent_bucket *first = bucket_at(table, home);
    if (__builtin_expect(take_slot(first, wanted, slots), 1))
        return 0;
    /* Counted first: while it is 0, nobody looks for a block behind its home. */
    __atomic_fetch_add(&first->passed, 1, __ATOMIC_ACQ_REL);
    for (unsigned i = 1; i < PROBES; i++)
        if (take_slot(bucket_at(table, home + i), wanted, slots))
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

/* One more table; false: there is no room. `tables`: how many the caller has seen full. */
static bool add_table(struct wire_agent_process *process, uint32_t tables)
{
    struct wire_agent_layout layout = wire_agent_layout(agent_control()->memory);
    uint64_t end = end_of_table(tables);
    if (end > layout.block_bytes || !agent_memory_has(WIRE_AGENT_PART_BLOCKS, end))
        return false;
    if (__atomic_compare_exchange_n(&process->block_tables, &tables, tables + 1, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        __atomic_store_n(&process->block_used, end, __ATOMIC_RELAXED);
    return true;
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

static inline void prefetch_bucket(const struct wire_agent_bucket *bucket)
{
    __builtin_prefetch(bucket);
    __builtin_prefetch(&bucket->slots[4]);
}

void agent_heap_block_expect(uint64_t address)
{
    uint32_t tables = __atomic_load_n(&agent_process()->block_tables, __ATOMIC_RELAXED);
    if (tables > 0)
        prefetch_bucket(bucket_at(tables - 1, home_of_address(address)));
}

/* Into the older tables, where room may have come up. */
static unsigned insert_in_older_tables(uint32_t tables, uint64_t home, struct wire_agent_slot wanted)
{
    unsigned distance = PROBES;
    for (uint32_t i = tables; i-- > 1 && distance == PROBES;)
        distance = insert_in_table(i - 1, home, wanted, WIRE_AGENT_SLOTS);
    return distance;
}

bool agent_heap_block_insert(uint64_t address, struct agent_heap_block block)
{
    struct wire_agent_process *process = agent_process();
    struct wire_agent_slot wanted = pack_slot(address, block);
    uint64_t home = home_of_address(address);
    for (;;) {
        uint32_t tables = __atomic_load_n(&process->block_tables, __ATOMIC_ACQUIRE);
        unsigned slots = block.level != 0 || tables == 0 ? WIRE_AGENT_SLOTS : common_slots(tables - 1);
        unsigned distance = tables > 0 ? insert_in_table(tables - 1, home, wanted, slots) : PROBES;
        if (__builtin_expect(distance < PROBES && block.level == 0, 1))
            return true;
        if (distance == PROBES && add_table(process, tables))
            continue;
        if (distance == PROBES)
            distance = insert_in_older_tables(tables, home, wanted);
        if (distance == PROBES || block.level != 0)
            raise_level(process, block.level, distance);
        return distance < PROBES;
    }
}

static struct wire_agent_slot *search_bucket(struct wire_agent_bucket *bucket, uint64_t key)
{
    for (unsigned i = 0; i < WIRE_AGENT_SLOTS; i++)
        if ((__atomic_load_n(&bucket->slots[i].key, __ATOMIC_RELAXED) & WIRE_AGENT_KEY_MASK) == key)
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

/* Half of the blocks are in the newest table, a quarter in the one before, which is fetched meanwhile. */
bool agent_heap_block_remove(uint64_t address, struct agent_heap_block *block)
{
    uint64_t home = home_of_address(address), key = address >> 3 & WIRE_AGENT_KEY_MASK;
    uint32_t tables = __atomic_load_n(&agent_process()->block_tables, __ATOMIC_ACQUIRE);
    if (tables > 1)
        prefetch_bucket(bucket_at(tables - 2, home));
    for (uint32_t i = tables < 64 ? tables : 64; i-- > 0;)
        if (remove_from_table(i, home, key, block))
            return true;
    return false;
}
