/* wire_agent_block.h - live blocks of the heap: address to size and cell.
 *
 * Tables of buckets, table 0 of 2^WIRE_AGENT_TABLE0_BITS buckets, table 1 as large, each later one as large
 * as all before it.
 *
 * When the tables are full, process.level rises from 0: from then on only samples of blocks find a place, by
 * Poisson sampling of bytes at the mean distance of wire_agent_level_bytes, and stand for others: 1/p blocks
 * and S/p bytes of their size S. total and count stay exact, live and peak figures become unbiased estimates.
 * A block's level is in its slot.
 *
 * Context: anywhere. */
#ifndef WIRE_AGENT_BLOCK_H
#define WIRE_AGENT_BLOCK_H

#include <stdint.h>

/* A slot is free when key is 0. key: address / 8 in the low 44 bits, size >> 28 in the high 20; value: low 28
 * bits of the size in the high bits, then 4 of the level, cell in the low 32. A value of 0 is not complete
 * yet. */
struct wire_agent_slot {
    uint64_t key, value;
};
#define WIRE_AGENT_SLOTS 7
struct wire_agent_bucket {
    struct wire_agent_slot slots[WIRE_AGENT_SLOTS];
    uint32_t passed; /* blocks at home here that are in a later bucket */
    uint32_t zero[3];
};
_Static_assert(sizeof(struct wire_agent_bucket) == 128, "two cache lines");
#define WIRE_AGENT_TABLE0_BITS 6 /* 64 buckets, 8 KiB */
#define WIRE_AGENT_KEY_MASK    ((UINT64_C(1) << 44) - 1)

static inline uint64_t wire_agent_slot_address(const struct wire_agent_slot *slot)
{
    return (slot->key & WIRE_AGENT_KEY_MASK) << 3;
}
static inline uint64_t wire_agent_slot_size(const struct wire_agent_slot *slot)
{
    return slot->key >> 44 << 28 | slot->value >> 36;
}
static inline uint32_t wire_agent_slot_cell(const struct wire_agent_slot *slot)
{
    return (uint32_t)slot->value;
}
static inline uint32_t wire_agent_slot_level(const struct wire_agent_slot *slot)
{
    return (uint32_t)(slot->value >> 32) & 15;
}

#define WIRE_AGENT_LEVELS 8
/* The mean distance of samples, bytes; 0 at level 0. */
static inline uint64_t wire_agent_level_bytes(uint32_t level)
{
    return level == 0 ? 0 : UINT64_C(16384) << 2 * (level - 1);
}

/* Buckets of table `number`, and how many are in the tables before it. */
static inline uint64_t wire_agent_table_buckets(unsigned number)
{
    return UINT64_C(1) << (WIRE_AGENT_TABLE0_BITS + (number == 0 ? 0 : number - 1));
}
static inline uint64_t wire_agent_table_before(unsigned number)
{
    return number == 0 ? 0 : wire_agent_table_buckets(number);
}

/* Of the hash of an address: how many live blocks are samples, 255 for good. The agent's own. */
#define WIRE_AGENT_SAMPLED 65536

#endif
