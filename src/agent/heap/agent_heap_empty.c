/* Empty pages: what of a block nobody made use of (--empty).
 *
 * Only whole pages within what was asked for are looked at, when the block is about to be released: it still
 * is the program's then, and nobody else's. A program may have forbidden reading a part of it (a guard page
 * in an aligned block, which free would hand to munmap unseen), so each page is tried by a system call before
 * it is read. To read a page that was never touched maps the kernel's page of zeros there: that costs a fault
 * and counts as nobody's memory.
 *
 * Filling. Every byte of a fresh block gets the pattern, but for calloc's, whose zeros are promised. What
 * realloc adds is filled from behind what the allocator says was usable: a program may have written up to
 * there. The pattern's phase goes by the address, so that pages moved by realloc or mremap (by multiples of
 * 16) keep it. */
#include "agent_heap_empty.h"

#include "agent_readable.h"
#include "wire_agent_empty.h"

#define PAGE  UINT64_C(4096)
#define WORDS (PAGE / sizeof(uint64_t))

bool agent_heap_empty_fills(void)
{
    return (agent_control()->flags & WIRE_AGENT_FILL) != 0;
}

static bool is_only(const uint64_t *page, uint64_t word)
{
    for (uint64_t i = 0; i < WORDS; i++)
        if (__atomic_load_n(&page[i], __ATOMIC_RELAXED) != word)
            return false;
    return true;
}

uint64_t agent_heap_empty_bytes(uint64_t block, uint64_t size)
{
    uint64_t empty = 0, end = (block + size) & ~(PAGE - 1);
    for (uint64_t page = (block + PAGE - 1) & ~(PAGE - 1); page < end; page += PAGE)
        if (agent_readable(page) &&
            is_only((const uint64_t *)page, wire_agent_empty_word(agent_control()->flags)))
            empty += PAGE;
    return empty;
}

void agent_heap_empty_fill(uint64_t from, uint64_t to)
{
    for (; from < to && from % sizeof(uint64_t) != 0; from++)
        *(uint8_t *)from = (uint8_t)(WIRE_AGENT_PATTERN >> from % sizeof(uint64_t) * 8);
    for (; from + sizeof(uint64_t) <= to; from += sizeof(uint64_t))
        __atomic_store_n((uint64_t *)from, WIRE_AGENT_PATTERN, __ATOMIC_RELAXED);
    for (; from < to; from++)
        *(uint8_t *)from = (uint8_t)(WIRE_AGENT_PATTERN >> from % sizeof(uint64_t) * 8);
}
