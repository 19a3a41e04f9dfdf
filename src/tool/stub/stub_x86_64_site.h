/* stub_x86_64_site.h - the bytes of stubs, and of the sites that lead to them.
 *
 * A *site* is an instruction (or a few, a *group*) that calls or jumps to another function. Its bytes are
 * changed so that it reaches a *stub*, which counts and then goes where the site went. What a stub may
 * change:
 *
 *   registers   none, general or vector: GCC's -fipa-ra lets callers keep values in any of them across a
 *               local call. Flags are lost; they are dead at calls (ABI), and for jumps the planner proves
 *               it.
 *   stack       calls: the form THREAD pushes one word, where nothing is live at a function's entry.
 *               jumps: nothing at all, so that a red zone survives even where the planner was wrong.
 *
 *   kind            site before             site after               stub
 *   CALL            e8 d32, prefixed        the same, new d32        count; jmp target
 *   JUMP            e9 d32                  the same, new d32        count; jmp target
 *   BRANCH          0f 8x d32               the same, new d32        count; jmp target      (only when taken)
 *   JUMP_SHORT      eb d8                   eb to an island          count; jmp target      island: e9 d32
 *   BRANCH_SHORT    7x d8                   7x to an island          count; jmp target      island: e9 d32
 *   CALL_INDIRECT   ff /2, 5 bytes or more  [2e..] [40] e8 d32       count; jmp operand
 *   JUMP_INDIRECT   ff /4, 5 bytes or more  [2e..] [40] e9 d32       count; jmp operand
 *   CALL_GROUP      instructions, ff /2     [2e..] [40] e8 d32       instructions; count; jmp operand
 *   JUMP_GROUP      instructions, ff /4     [2e..] [40] e9 d32       instructions; count; jmp operand
 *   JUMP_GROUP_SHORT  instructions, eb d8   [2e..] [40] e9 d32       instructions; count; jmp target
 *   JUMP_INDIRECT_SHORT  ff /4, below 5 bytes  [2e..] eb to an island  count; jmp operand     island: e9 d32
 *
 * Where a hook may wait at the callee (indirect kinds, linkage stubs), jumps also leave a mark for it and
 * calls remove one, by plain stores (stub_block.h); not in the form LOCK.
 *
 * Among a group's instructions before a jump may be branches: taken, they leave the stub and count nothing.
 *
 * Where one callee is known to be called nearly always by an indirect site, its stub may compare first:
 *
 *   instructions; compare; jne miss; count the pair; jmp past the callee's hook      miss: count; jmp operand
 *
 * The comparison is of all 64 bits with a constant in the stub, so nobody can change it under a thread, and
 * what is not a function's address (0, say) goes where it went. A register is compared as it is; a call's
 * operand in memory is loaded into one that is saved on the stack; jumps through memory, which have no stack
 * to save one on, are refused.
 *
 * `call *GOT(%rip)` and `jmp *GOT(%rip)` are of the indirect kinds. The replaced bytes of one instruction
 * stay one instruction (prefixes that mean nothing fill it up), so return addresses and every pc that a
 * thread may have stay right. Only a group has boundaries inside, which vanish: a thread that stands on one
 * must be moved on before the bytes are written. Pure: bytes in, bytes out. Context: tool. Source: Intel SDM
 * volume 2. */
#ifndef STUB_X86_64_SITE_H
#define STUB_X86_64_SITE_H

#include "stub_x86_64_code.h"

enum stub_kind { /* stored in plans: numbers stay */
                 STUB_CALL = 1,
                 STUB_JUMP = 2,
                 STUB_BRANCH = 3,
                 STUB_JUMP_SHORT = 4,
                 STUB_BRANCH_SHORT = 5,
                 STUB_CALL_INDIRECT = 6,
                 STUB_JUMP_INDIRECT = 7,
                 STUB_CALL_GROUP = 8,
                 STUB_ENTRY = 9, /* hooks: stub_x86_64_entry.h */
                 STUB_ENTRY_ENDBR = 10,
                 STUB_JUMP_GROUP = 11,
                 STUB_ENTRY_SHORT = 12,
                 STUB_JUMP_GROUP_SHORT = 13,
                 STUB_JUMP_INDIRECT_SHORT = 14,
                 STUB_KIND_END
};

enum stub_form { STUB_PLAIN, STUB_THREAD, STUB_LOCK }; /* of a counter: stub_block.h */

/* Where the counter is. */
struct stub_x86_64_counter {
    enum stub_form form;
    uint64_t block; /* PLAIN, LOCK: run-time address of the process's block */
    uint32_t word;  /* THREAD: gs offset of the thread's block */
    uint32_t index; /* at least STUB_BLOCK_WORDS */
};

#define STUB_X86_64_SITE_MAX 15 /* bytes that a site replaces */

struct stub_x86_64_request {
    enum stub_kind kind;
    uint8_t length;     /* of the replaced bytes, all of them */
    uint64_t address;   /* run-time, of the first one */
    const uint8_t *old; /* `length` bytes */
    uint64_t target;    /* of the direct kinds: where the stub goes on, run-time */
    uint64_t island;    /* of kinds that have one: run-time address of five unused bytes */
    bool by_slot;       /* of the direct kinds: `target` is a linkage stub, and a hook may lie behind it */
    bool quiet;         /* of the indirect kinds: the callee has no hook, so nobody would take a mark */
};

/* Appends the site's stub to `code` (begun at the stub's run-time address). Look at code->refused. */
void stub_x86_64_site(struct stub_x86_64_code *code, const struct stub_x86_64_request *site,
                      const struct stub_x86_64_counter *counter);

/* The callee that an indirect site's stub tries first. */
struct stub_x86_64_guess {
    uint64_t callee; /* run-time */
    uint64_t past;   /* where its calls go on, past its hook; run-time */
    uint32_t index;  /* of the counter of such calls, which the site's own does not count */
};

/* The same with a guess, for indirect kinds. As long whatever the guess is. */
void stub_x86_64_site_guessing(struct stub_x86_64_code *code, const struct stub_x86_64_request *site,
                               const struct stub_x86_64_counter *counter,
                               const struct stub_x86_64_guess *guess);

/* The bytes that replace site->old, so that it leads to `stub`. BRANCH_INTO etc. are decided by the planner;
 * what can fail here is OUT_OF_REACH. Of kinds with an island these lead there; its own 5 bytes
 * stub_x86_64_site_island gives. */
enum stub_reason stub_x86_64_site_bytes(const struct stub_x86_64_request *site, uint64_t stub,
                                        uint8_t fresh[STUB_X86_64_SITE_MAX]);
enum stub_reason stub_x86_64_site_island(uint64_t island, uint64_t stub, uint8_t fresh[5]);

/* Appends the increment alone. Flags are lost; THREAD uses the stack unless `is_jump`. */
void stub_x86_64_site_count(struct stub_x86_64_code *code, const struct stub_x86_64_counter *counter,
                            bool is_jump);

/* Are there instructions before the last one, which move into the stub? */
bool stub_x86_64_site_is_group(enum stub_kind kind);
/* Does it name where it goes, a function or a linkage stub? */
bool stub_x86_64_site_is_direct(enum stub_kind kind);
/* Is it a jump, whose stub must leave the stack alone? */
bool stub_x86_64_site_is_jump(enum stub_kind kind);
/* Does it lead to its stub over an island? */
bool stub_x86_64_site_has_island(enum stub_kind kind);

#endif
