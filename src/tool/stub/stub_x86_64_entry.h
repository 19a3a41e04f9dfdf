/* stub_x86_64_entry.h - hooks at the entries of functions that are called by address.
 *
 * The function's first bytes are replaced by a jump to the *hook*, which counts (return address, function),
 * then does what the replaced instructions did and goes on behind them:
 *
 *   entry:  jmp hook                            hook:    rsp = the mark's? jump to marked
 *           (rest of the last instruction)               push rcx
 *   behind: ...                                          rcx = return address
 *                                               look:    rcx = this hook's first return address? count it
 *                                                        else jump to other
 *                                               done:    pop rcx
 *                                               body:    the replaced instructions, moved; jmp behind
 *                                               other:   the pair is where it should be in the thread's table
 *                                                        (stub_block.h)? count it, to done; else call
 *                                                        recorder; to done
 *                                               marked:  rcx = the mark, if it is still there; to look
 *
 * In the form THREAD rax is saved too, and holds the block. What seldom runs lies last, so that the usual way
 * takes no jump but the two that lead there and back, and touches one register.
 *
 * Direct calls of a hooked function that are counted at their sites go to `body`, past the hook, or have the
 * body in their own stub, so that each call is counted once. Arrivals by a tail jump are distinguished from
 * calls by the jump's mark (stub_block.h). One return address is kept in the hook's own words, because most
 * functions called by address have one busy caller; the recorder's table holds the others, any number, until
 * it is full: those are counted as calls from elsewhere (`overflow`), never lost.
 *
 * ENDBR: a function that begins with endbr64 needs no moving. The jump's four lower bytes replace endbr64,
 * and the byte after it stays and is the displacement's top: the hook must lie in one window of 16 MiB.
 * `body` is entry + 4, and a thread or a branch may be anywhere. SHORT: where five bytes cannot change,
 * because the function is shorter or loops back to one of them, a jump of two bytes leads to five bytes of
 * padding, the *island*, and a jump there to the hook. Otherwise the hook replaces at least five bytes.
 * Refused are functions with a branch to any of them (also to the start: a loop would count as calls), with
 * another entry among them, or shorter than five bytes without padding. A thread that stands on a boundary
 * among them must be moved to the same instruction in the body before the bytes change:
 * stub_x86_64_entry_body_of.
 *
 * Stack: what lies below rsp at a function's entry is dead; the hook uses 80 bytes there at most. No register
 * changes; flags do. Pure: bytes in, bytes out. Context: tool. */
#ifndef STUB_X86_64_ENTRY_H
#define STUB_X86_64_ENTRY_H

#include "stub_x86_64_site.h"

#define STUB_X86_64_ENTRY_MOVED 8 /* instructions that may have to move: at most five */

struct stub_x86_64_entry {
    enum stub_kind kind; /* STUB_ENTRY, STUB_ENTRY_ENDBR or STUB_ENTRY_SHORT */
    uint8_t length;      /* replaced and moved bytes, whole instructions; ENDBR: 4 */
    uint64_t address;    /* run-time, of the function */
    const uint8_t *old;  /* `length` bytes; ENDBR: 5 */
    uint64_t island;     /* run-time, of a SHORT one */
    bool brief; /* 74 bytes less, and other callers than the first take longer: the recorder does it all */
};

/* Where things came to lie. */
struct stub_x86_64_hook {
    uint64_t body;  /* run-time: what direct calls go to */
    uint64_t slow;  /* run-time: behind body and jump, what of the hook seldom runs */
    bool copied;    /* the body is the replaced bytes as they were: they do the same at any address */
    unsigned count; /* boundaries among the replaced bytes */
    uint8_t from[STUB_X86_64_ENTRY_MOVED]; /* offset from entry of each moved instruction, from[0] = 0 */
    uint8_t to[STUB_X86_64_ENTRY_MOVED];   /* its offset from body */
};

#define STUB_X86_64_ENTRY_JUMP  5 /* bytes of the jump over a function's first ones */
#define STUB_X86_64_ENTRY_SHORT 2 /* of a SHORT one */

/* How many bytes must move from the function at `bytes` (of which `size` belong to it or are padding behind
 * it), so that a jump of `jump` bytes takes their place, or 0 and the reason. */
unsigned stub_x86_64_entry_length(const uint8_t *bytes, size_t size, unsigned jump, enum stub_reason *reason);

/* Appends the hook to `code`. `recorder` is where stub_x86_64_entry_recorder's code lies; counter->index is
 * the first of the hook's STUB_HOOK_WORDS words. */
void stub_x86_64_entry_hook(struct stub_x86_64_code *code, const struct stub_x86_64_entry *entry,
                            const struct stub_x86_64_counter *counter, uint64_t recorder,
                            struct stub_x86_64_hook *hook);

/* Appends the body alone (not of an ENDBR): the moved instructions, then the jump behind them. Fills
 * `hook`. */
void stub_x86_64_entry_body(struct stub_x86_64_code *code, const struct stub_x86_64_entry *entry,
                            struct stub_x86_64_hook *hook);

/* The bytes that lead to the hook: 5, of an ENDBR 4, of a SHORT one 2, which lead to the island
 * (stub_x86_64_site_island gives its five); returns how many, 0: out of reach. */
unsigned stub_x86_64_entry_bytes(const struct stub_x86_64_entry *entry, uint64_t hook, uint8_t fresh[5]);

/* The window [*low, *high] of addresses where the hook of an ENDBR function can begin. */
void stub_x86_64_entry_window(const struct stub_x86_64_entry *entry, uint64_t *low, uint64_t *high);

/* Where a thread that stands at `pc` among the replaced bytes goes on in the body; 0: `pc` is no boundary. */
uint64_t stub_x86_64_entry_body_of(const struct stub_x86_64_entry *entry, const struct stub_x86_64_hook *hook,
                                   uint64_t pc);

/* Appends the code that hooks call when the return address is not the first one: one for a slab.
 * counter->index is ignored. Convention: rax = address of the hook's words, rcx = return address; both and
 * flags are lost. */
void stub_x86_64_entry_recorder(struct stub_x86_64_code *code, const struct stub_x86_64_counter *counter);

#endif
