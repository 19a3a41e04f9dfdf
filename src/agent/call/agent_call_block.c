/* Blocks: which return addresses may be replaced, and by what. agent_return.c has the table. */
#include "agent_call_block.h"

#include <stdbool.h>

#include "agent_module.h"
#include "agent_return.h"

#define PROBES    32
#define CALL_MOST 7 /* bytes of a call */

/* Do the bytes before the address look like a call? E8 rel32; FF /2 in its lengths. */
static bool is_behind_call(uint64_t address)
{
    const uint8_t *end = (const uint8_t *)address;
    if (end[-5] == 0xe8)
        return true;
    for (unsigned length = 2; length <= CALL_MOST; length++)
        if (end[-(int)length] == 0xff && (end[1 - (int)length] >> 3 & 7) == 2)
            return true;
    return false;
}

/* Only addresses in code that is described, and behind a call: at the first instruction of a program no
 * return address is on the stack, and assembly may keep something else there. A module that reads its own
 * return addresses (a runtime's collector) is marked by tally: WIRE_AGENT_MODULE_READS. */
static bool may_be_replaced(uint64_t address)
{
    struct wire_agent_module module;
    return agent_module_find(address - 1, &module) && (module.flags & WIRE_AGENT_MODULE_READS) == 0 &&
           address - module.start > CALL_MOST && is_behind_call(address);
}

static uint64_t block_at(uint32_t number)
{
    return (uint64_t)agent_return_blocks + (uint64_t)number * WIRE_AGENT_BLOCK;
}

uint64_t agent_call_block(uint64_t address)
{
    uint32_t at = (uint32_t)(address * UINT64_C(0x9e3779b97f4a7c15) >> 48) % WIRE_AGENT_RETURNS;
    for (unsigned i = 0; i < PROBES; i++, at = (at + 1) % WIRE_AGENT_RETURNS) {
        uint64_t there = __atomic_load_n(&agent_returns[at], __ATOMIC_ACQUIRE);
        if (__builtin_expect(there == address, 1))
            return block_at(at);
        if (there != 0)
            continue;
        if (!may_be_replaced(address))
            return 0;
        if (__atomic_compare_exchange_n(&agent_returns[at], &there, address, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE) ||
            there == address) {
            __atomic_store_n(&agent_return_copy()[at], address, __ATOMIC_RELEASE);
            return block_at(at);
        }
    }
    return 0;
}
