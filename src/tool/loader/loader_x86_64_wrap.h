/* loader_x86_64_wrap.h - the code through which a function's calls go to the agent (wire_hook.h).
 *
 * All of one hook is one slot, which says by itself how to undo it: a tally that finds it in a process,
 * left by one that was killed long ago, can put the function back. A function with two hooks has two
 * slots: the first bytes lead to the outer one, whose body is the code of the one *beneath*. Each works as
 * if it were alone. Pure: bytes in, bytes out. Context: tool. */
#ifndef LOADER_X86_64_WRAP_H
#define LOADER_X86_64_WRAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan.h"
#include "stub_x86_64_entry.h"
#include "wire_hook.h"

#define LOADER_X86_64_WRAP_JUMP 5 /* bytes of the function that change */
#define LOADER_X86_64_WRAP_CODE 120

struct loader_x86_64_wrap {
    struct wire_hook hook; /* function 0: the slot is free */
    uint8_t length;        /* bytes that moved */
    uint8_t beneath;       /* 1: only another slot leads here, which undoes both */
    uint8_t zero[6];
    uint8_t old[PLAN_HOOK_MAX + 5]; /* `length` of them: the first five are to be put back */
    uint8_t code[LOADER_X86_64_WRAP_CODE + 8];
};
_Static_assert(sizeof(struct loader_x86_64_wrap) == 192, "shared layout");

/* A function that is to be hooked: its address, its first `length` bytes, and how (wire_hook.h). */
struct loader_x86_64_wrapped {
    uint64_t function;
    const uint8_t *old;
    uint8_t length;
    bool whole;
};

/* Makes the slot that will lie at `address`. `moved` (may be NULL) is filled for
 * stub_x86_64_entry_body_of. STUB_FINE, or why it cannot be made. */
enum stub_reason loader_x86_64_wrap_make(struct loader_x86_64_wrap *wrap, uint64_t address,
                                         const struct loader_x86_64_wrapped *wrapped,
                                         struct stub_x86_64_hook *moved);

/* Makes the slot that will lie at `address` the outer one of the function whose slot, `beneath`, lies at
 * `below`. Refused, STUB_REASON_OUT_OF_REACH: that one is as before. */
enum stub_reason loader_x86_64_wrap_over(struct loader_x86_64_wrap *wrap, uint64_t address,
                                         struct loader_x86_64_wrap *beneath, uint64_t below, bool whole);

/* The run-time address of the code of a slot at `address`. */
static inline uint64_t loader_x86_64_wrap_code(uint64_t address)
{
    return address + offsetof(struct loader_x86_64_wrap, code);
}

/* The bytes that lead from the function to the slot. */
void loader_x86_64_wrap_jump(uint64_t function, uint64_t address, uint8_t fresh[LOADER_X86_64_WRAP_JUMP]);

#endif
