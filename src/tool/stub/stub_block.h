/* stub_block.h - the memory that stubs count in.
 *
 * A *block* is a header and then counters of 8 bytes; a counter's index counts 8-byte words from the block's
 * start, so the lowest usable one is STUB_BLOCK_WORDS. Where the block lies depends on the form of the
 * counter:
 *
 *   PLAIN, LOCK   one block for the process, within 2 GiB of the slabs
 *   THREAD        one block a thread. gs base + `word` is the block's address, and its first word holds that
 *                 very address: `mov rax, gs:[word]` finds the block, `inc qword gs:[word + 8 * index]`
 *                 reaches the same counter without a register. With gs base 0 the absolute address `word`
 *                 must be a mapped block too, the fallback, of the same size. word + the block's size stays
 *                 below 2 GiB.
 *
 * An entry hook owns three words: the first return address it met, the calls from there, and the calls whose
 * caller found no room. The calls from other return addresses lie in the thread's *table*, an open-addressing
 * one. An entry is claimed by its return address and then given its callee; a signal handler that comes
 * between the two makes an entry of its own, so a pair may stand there twice: readers add up. Nothing is ever
 * removed while stubs can reach it.
 *
 * Marks. A function that is reached by a tail jump finds the return address of an older frame at its entry.
 * Stubs of jumps whose callee may be hooked (indirect ones, those through linkage stubs) therefore leave a
 * *mark*: the stack pointer and the site. The hook that is entered with this very stack pointer takes the
 * mark away and records it as its return address: ~index, negative as no address of a program's code is,
 * where `index` is the site's counter's. A mark that no hook takes (its callee has none) must not meet a
 * later call that has the same stack pointer by chance: the stubs of all calls that may come to a hook
 * (indirect, or through linkage stubs) remove it. What may still go wrong:
 *   - the call that meets the old mark was made where no stub is (a site left alone, an image that was not
 *     chosen), at the same depth of the stack, and no such call was counted since: it is recorded for the
 *     mark's site. When that site has a slot, readers see from the slot that it cannot be; then, as always,
 *     the callee's sum is right;
 *   - a signal handler that comes between jump and hook, and itself makes such calls or jumps, takes the mark
 *     away: the jump is recorded with the return address of the older frame.
 * In the form LOCK several threads share the block, and there are no marks. Context: any; read by the tool
 * while the target writes. */
#ifndef STUB_BLOCK_H
#define STUB_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct stub_block {
    uint64_t self;       /* its own address in the target */
    uint64_t table;      /* address of a struct stub_table in the target; 0: all but first callers overflow */
    uint64_t mark_stack; /* rsp at the mark's jump; 0 or the block's address: there is no mark */
    uint64_t mark_site;  /* ~index of the site's counter */
    uint64_t reserved[4]; /* 0 */
    uint64_t counters[];
};
#define STUB_BLOCK_WORDS 8
_Static_assert(sizeof(struct stub_block) == 8 * STUB_BLOCK_WORDS, "shared layout");

/* Is a recorded return address a mark's? Then: the index of the site's counter in the block. */
static inline bool stub_block_is_mark(uint64_t return_address)
{
    return (int64_t)return_address < 0;
}
static inline uint64_t stub_block_mark_index(uint64_t return_address)
{
    return ~return_address;
}

/* What a hook owns, from its counter index on. calls + overflow + its table entries = all calls it saw. */
struct stub_hook_words {
    uint64_t return_address, calls, overflow;
};
#define STUB_HOOK_WORDS 3
_Static_assert(sizeof(struct stub_hook_words) == 8 * STUB_HOOK_WORDS, "shared layout");

struct stub_table_entry {
    uint64_t return_address; /* 0: free */
    uint64_t callee;         /* the hook's counter index * 8 */
    uint64_t calls, zero;
};
_Static_assert(sizeof(struct stub_table_entry) == 32, "shared layout");

struct stub_table {
    uint64_t mask; /* entries - 1; the number of entries is a power of two */
    uint64_t zero[3];
    struct stub_table_entry entries[];
};
_Static_assert(sizeof(struct stub_table) == 32, "shared layout");

#define STUB_TABLE_PROBES 64 /* so many entries are looked at before a call overflows */

#endif
