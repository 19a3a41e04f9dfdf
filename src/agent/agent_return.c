/* Return addresses that are replaced: each by a block of code that knows it. agent_function.c has the essay.
 *
 * The table is hashed by address and only ever filled. A word of it is written once, before anybody can come
 * to its block, so neither a lock nor a moment matters. It lies in the image, because a block reads it before
 * it has a register to spare, and a copy in the region, for tally. */
#include "agent.h"

#define PROBES    32
#define CALL_MOST 7 /* bytes of a call */
#define PAGE      UINT64_C(4096)

__attribute__((visibility("hidden"))) uint64_t agent_returns[WIRE_AGENT_RETURNS];

static uint64_t *told(void)
{
    return agent_part(wire_agent_layout(agent_control()->memory).returns);
}

void agent_return_tell(void)
{
    uint64_t *copy = told();
    for (uint32_t i = 0; i < WIRE_AGENT_RETURNS; i++)
        if (agent_returns[i] != 0)
            copy[i] = agent_returns[i];
}

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

/* Only addresses in code that somebody described, and that called: at the first instruction of a program no
 * return address is on the stack, and assembly may keep something else there. Who reads his own stack is told
 * to us as such (a runtime's collector). */
static bool may_be_replaced(uint64_t address)
{
    struct wire_agent_module module;
    return agent_stack_module(address - 1, &module) && (module.flags & WIRE_AGENT_MODULE_READS) == 0 &&
           address - module.start > CALL_MOST && is_behind_call(address);
}

static uint64_t block_at(uint32_t number)
{
    return (uint64_t)agent_return_blocks + (uint64_t)number * WIRE_AGENT_BLOCK;
}

uint64_t agent_return_block(uint64_t address)
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
            __atomic_store_n(&told()[at], address, __ATOMIC_RELEASE);
            return block_at(at);
        }
    }
    return 0;
}

static void put_back_word(uint64_t *word)
{
    uint64_t there = __atomic_load_n(word, __ATOMIC_RELAXED);
    uint64_t real = agent_return_real(there);
    if (__builtin_expect(real != there, 0) &&
        (there - (uint64_t)agent_return_blocks) % WIRE_AGENT_BLOCK == WIRE_AGENT_BLOCK_BACK)
        __atomic_compare_exchange_n(word, &there, real, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* The frame's own return address, which is a block where a function left by a tail call, and all words from
 * the caller's sp to where a walk of ours came: the memory of frames that are in use, so nobody else writes
 * or unmaps it. Where the walk did not come to the end, the thread's own calls tell how far there are more;
 * in between is stack as well. */
uint64_t agent_return_put_back(struct agent_thread *thread, const struct agent_frame *frame, uint64_t most)
{
    struct agent_window window;
    bool whole = agent_stack_window(thread, frame, &window);
    while (!whole && most >= window.high && most - window.low < AGENT_STACK_MOST &&
           agent_stack_is_readable(window.high))
        window.high += PAGE;
    put_back_word((uint64_t *)(uint64_t)&frame->return_address);
    for (uint64_t at = (window.low + 7) & ~UINT64_C(7); at + 8 <= window.high; at += 8)
        put_back_word((uint64_t *)at);
    return window.high;
}
