/* test_walk.c - walks over stacks and rows made by hand, for both machines.
 *
 * Code lies at CODE, one row every 16 bytes, so "the function of row n" is CODE + 16 n; the stack lies at
 * STACK. Every case is walked three times: without a cache, with a cold one and with a warm one, all with the
 * same outcome. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "rows_blob.h"

#define CODE  UINT64_C(0x400000)
#define STACK UINT64_C(0x7ff000)
#define WORDS 64

struct world {
    struct rows_blob blob;
    struct unwind_rows rows;
    struct unwind_space space;
    struct unwind_memory memory;
    struct arch_registers registers;
    uint64_t stack[WORDS];
    struct unwind_frame frames[16];
    bool has_rows;
    uint64_t outside_at, outside_word; /* what read_outside knows */
};

static uint64_t function(unsigned row)
{
    return CODE + 16 * row;
}

static bool find(void *context, uint64_t pc, struct unwind_place *place)
{
    struct world *world = context;
    if (pc < CODE || pc >= CODE + 0x1000)
        return false;
    *place = (struct unwind_place){world->has_rows ? &world->rows : NULL, CODE, 7};
    return true;
}

static bool read_outside(void *context, uint64_t address, uint64_t *word)
{
    struct world *world = context;
    *word = world->outside_word + (address - world->outside_at);
    return address == world->outside_at;
}

static void set(struct world *world, unsigned number, uint64_t value)
{
    world->registers.value[number] = value;
    world->registers.valid |= UINT64_C(1) << number;
}

/* Row n holds rules[n] for [16 n, 16 n + 16); the stack is full of words that lead nowhere. */
static struct world *make(const struct arch *arch, const struct wire_rule *rules, unsigned count)
{
    struct world *world = calloc(1, sizeof *world);
    struct rows_blob_row rows[ROWS_BLOB_ROWS];
    for (unsigned i = 0; i < count; i++)
        rows[i] = (struct rows_blob_row){16 * i, rules[i]};
    rows[count] = (struct rows_blob_row){16 * count, {.cfa_kind = WIRE_CFA_NONE}};
    rows_blob_make(&world->blob, arch->machine, 0, 1, rows, count + 1);
    assert_true(unwind_rows_open(&world->rows, &world->blob, world->blob.header.byte_count));
    world->has_rows = true;
    world->space = (struct unwind_space){arch, find, world, 1, false};
    world->memory =
        (struct unwind_memory){STACK, STACK + sizeof world->stack, (uint8_t *)world->stack, NULL, world};
    for (unsigned i = 0; i < WORDS; i++)
        world->stack[i] = 0xdead0000 + i;
    set(world, arch->sp, STACK);
    set(world, arch->fp, 0);
    return world;
}

static void start_at(struct world *world, uint64_t pc)
{
    set(world, world->space.arch->pc, pc);
}

static struct unwind_result walk(struct world *world)
{
    struct unwind_cache *cache = calloc(1, unwind_cache_size());
    struct unwind_frame first[16];
    struct unwind_result plain =
        unwind_walk(&world->space, &world->memory, &world->registers, NULL, first, 16);
    for (unsigned i = 0; i < 3; i++) {
        struct unwind_result cached =
            unwind_walk(&world->space, &world->memory, &world->registers, cache, world->frames, 16);
        assert_memory_equal(&cached.count, &plain.count, sizeof plain.count);
        assert_int_equal(cached.end, plain.end);
        assert_int_equal(cached.frame_pointer_frames, plain.frame_pointer_frames);
        assert_memory_equal(world->frames, first, plain.count * sizeof first[0]);
    }
    free(cache);
    return plain;
}

#define SP_RULE(offset)                                                                                      \
    {                                                                                                        \
        .cfa_kind = WIRE_CFA_REGISTER, .cfa_register = 7, .cfa_offset = (offset), .ra_slot = -1,             \
        .save_kinds = WIRE_SAVE_CFA << 4                                                                     \
    }
#define END_RULE                                                                                             \
    {                                                                                                        \
        .cfa_kind = WIRE_CFA_END                                                                             \
    }

/* Row 0: 24 bytes of frame. Row 1: ends. Row 2: by rbp, as after push %rbp; mov %rsp,%rbp. Row 3: push %rbp.
 */
static const struct wire_rule plain[] = {
    SP_RULE(24),
    END_RULE,
    {.cfa_kind = WIRE_CFA_REGISTER,
     .cfa_register = 6,
     .cfa_offset = 16,
     .fp_slot = -2,
     .ra_slot = -1,
     .save_kinds = WIRE_SAVE_CFA | WIRE_SAVE_CFA << 4},
    {.cfa_kind = WIRE_CFA_REGISTER,
     .cfa_register = 7,
     .cfa_offset = 16,
     .fp_slot = -2,
     .ra_slot = -1,
     .save_kinds = WIRE_SAVE_CFA | WIRE_SAVE_CFA << 4},
};

static void check_frames(const struct world *world, struct unwind_result result, const uint64_t *pcs,
                         size_t count, enum unwind_end end)
{
    assert_int_equal(result.end, end);
    assert_int_equal(result.count, count);
    for (size_t i = 0; i < count; i++)
        assert_true(world->frames[i].pc == pcs[i]);
}

static void walks_sp_and_fp_frames(void **state)
{
    (void)state;
    struct world *world = make(&arch_x86_64, plain, 4);
    const uint64_t pcs[] = {function(0), function(3) + 5, function(2) + 5, function(0) + 5, function(1) + 3};
    start_at(world, pcs[0]);
    world->stack[2] = pcs[1];         /* frame 0: 24 bytes */
    world->stack[3] = STACK + 10 * 8; /* frame 1 saved rbp here */
    world->stack[4] = pcs[2];
    world->stack[10] = 0x1234; /* frame 2: rbp points here; the rbp before */
    world->stack[11] = pcs[3];
    world->stack[14] = pcs[4];
    struct unwind_result result = walk(world);
    check_frames(world, result, pcs, 5, UNWIND_OUTERMOST);
    assert_int_equal(world->frames[2].cookie, 7);
    assert_int_equal(world->frames[2].flags, 0);
    free(world);
}

/* A call may be the last instruction of its function: the return address then belongs to the next one. */
static void looks_up_callers_one_byte_early(void **state)
{
    (void)state;
    struct world *world = make(&arch_x86_64, plain, 4);
    const uint64_t pcs[] = {function(0), function(1), function(2)};
    start_at(world, pcs[0]);
    world->stack[2] = pcs[1]; /* at the first byte of row 1, which ends: but it is row 0's caller */
    world->stack[5] = pcs[2]; /* ... and this is row 1's end, the outermost */
    check_frames(world, walk(world), pcs, 3, UNWIND_OUTERMOST);
    free(world);
}

static void says_why_it_ended(void **state)
{
    (void)state;
    static const struct wire_rule rules[] = {
        SP_RULE(24),
        SP_RULE(8 * WORDS + 8),
        {.cfa_kind = WIRE_CFA_ODD},
        SP_RULE(0),
        {.cfa_kind = WIRE_CFA_REGISTER, .cfa_register = 12, .ra_slot = -1, .save_kinds = WIRE_SAVE_CFA << 4},
        {.cfa_kind = WIRE_CFA_REGISTER,
         .cfa_register = 7,
         .cfa_offset = 12,
         .ra_slot = -1,
         .save_kinds = WIRE_SAVE_CFA << 4},
        {.cfa_kind = WIRE_CFA_REGISTER,
         .cfa_register = 7,
         .cfa_offset = 24,
         .ra_slot = -9,
         .save_kinds = WIRE_SAVE_CFA << 4}};
    static const struct {
        unsigned row;
        enum unwind_end end;
    } ends[] = {{1, UNWIND_CUT},         {2, UNWIND_ODD_RULE}, {3, UNWIND_NO_PROGRESS}, {4, UNWIND_ODD_RULE},
                {5, UNWIND_NO_PROGRESS}, {6, UNWIND_BAD_READ}, {7, UNWIND_NO_ROWS}};
    for (unsigned i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        struct world *world = make(&arch_x86_64, rules, 7);
        const uint64_t pcs[] = {function(0), function(ends[i].row) + 4};
        start_at(world, pcs[0]);
        world->stack[2] = pcs[1];
        check_frames(world, walk(world), pcs, 2, ends[i].end);
        free(world);
    }
    struct world *world = make(&arch_x86_64, rules, 7);
    const uint64_t pcs[] = {function(0), 0x1234};
    start_at(world, pcs[0]);
    world->stack[2] = pcs[1];
    check_frames(world, walk(world), pcs, 2, UNWIND_NO_MAPPING);
    assert_true(world->frames[1].cookie == UNWIND_NO_COOKIE);
    world->stack[2] = 0; /* a return address of 0 ends a stack, too */
    check_frames(world, walk(world), pcs, 1, UNWIND_OUTERMOST);
    free(world);
}

static void stops_when_full_or_without_registers(void **state)
{
    (void)state;
    struct world *world = make(&arch_x86_64, plain, 4);
    start_at(world, function(0));
    for (unsigned i = 2; i < WORDS; i += 3)
        world->stack[i] = function(0) + 4;
    struct unwind_result result = walk(world);
    assert_int_equal(result.end, UNWIND_FULL);
    assert_int_equal(result.count, 16);
    world->registers.valid = 0;
    result = walk(world);
    assert_int_equal(result.end, UNWIND_BAD_READ);
    assert_int_equal(result.count, 0);
    free(world);
}

static void follows_the_linkers_plt(void **state)
{
    (void)state;
    static const struct wire_rule rules[] = {
        {.cfa_kind = WIRE_CFA_PLT, .cfa_register = 7, .cfa_offset = 11, .ra_slot = -1, .save_kinds = 0x10},
        END_RULE};
    for (unsigned byte = 0; byte < 16; byte++) {
        struct world *world = make(&arch_x86_64, rules, 2);
        const uint64_t pcs[] = {function(0) + byte, function(1) + 4};
        start_at(world, pcs[0]);
        world->stack[byte >= 11] = pcs[1]; /* from byte 11 on the index has been pushed */
        check_frames(world, walk(world), pcs, 2, UNWIND_OUTERMOST);
        free(world);
    }
}

/* CFA = *(rbp - 8) and rbp at rbp: gcc's realigned frames. */
static void follows_realigned_stacks(void **state)
{
    (void)state;
    static const struct wire_rule rules[] = {{.cfa_kind = WIRE_CFA_DEREFERENCE,
                                              .cfa_register = 6,
                                              .cfa_offset = -8,
                                              .cfa_add = 1,
                                              .ra_slot = -1,
                                              .save_kinds = WIRE_SAVE_FP | WIRE_SAVE_CFA << 4},
                                             END_RULE};
    struct world *world = make(&arch_x86_64, rules, 2);
    const uint64_t pcs[] = {function(0), function(0) + 8, function(1) + 4};
    start_at(world, pcs[0]);
    set(world, 6, STACK + 10 * 8);
    world->stack[9] = STACK + 15 * 8;  /* + 8: the CFA */
    world->stack[10] = STACK + 30 * 8; /* the rbp before */
    world->stack[15] = pcs[1];
    world->stack[29] = STACK + 40 * 8;
    world->stack[40] = pcs[2];
    check_frames(world, walk(world), pcs, 3, UNWIND_OUTERMOST);
    free(world);
}

/* Frame 0 may compute its CFA from any register, its callers may not; rbx is followed through callers. */
static void knows_other_registers_where_it_can(void **state)
{
    (void)state;
    static const struct wire_rule rules[] = {{.cfa_kind = WIRE_CFA_REGISTER,
                                              .cfa_register = 10,
                                              .cfa_offset = 16,
                                              .base_slot = -2,
                                              .ra_slot = -1,
                                              .save_kinds = 0x10},
                                             {.cfa_kind = WIRE_CFA_REGISTER,
                                              .cfa_register = 3,
                                              .cfa_offset = 8,
                                              .ra_slot = -1,
                                              .save_kinds = 0x10},
                                             END_RULE,
                                             {.cfa_kind = WIRE_CFA_REGISTER,
                                              .cfa_register = 7,
                                              .cfa_offset = 8,
                                              .ra_slot = 5,
                                              .save_kinds = WIRE_SAVE_REGISTER << 4}};
    struct world *world = make(&arch_x86_64, rules, 4);
    const uint64_t pcs[] = {function(0), function(1) + 4, function(2) + 4};
    start_at(world, pcs[0]);
    set(world, 10, STACK + 24);
    world->stack[3] = STACK + 20 * 8; /* rbx, at CFA - 16 */
    world->stack[4] = pcs[1];
    world->stack[20] = pcs[2];
    check_frames(world, walk(world), pcs, 3, UNWIND_OUTERMOST);
    start_at(world, function(3)); /* the return address in rdi, as in vfork */
    set(world, 5, pcs[2]);
    assert_int_equal(walk(world).end, UNWIND_OUTERMOST);
    assert_true(world->frames[1].pc == pcs[2]);
    free(world);
}

/* In an epilogue behind pop %rbp the slot is below sp, perhaps out of reach; the register has the value. */
static void keeps_a_register_that_was_popped(void **state)
{
    (void)state;
    static const struct wire_rule rules[] = {{.cfa_kind = WIRE_CFA_REGISTER,
                                              .cfa_register = 7,
                                              .cfa_offset = 8,
                                              .fp_slot = -2,
                                              .ra_slot = -1,
                                              .save_kinds = WIRE_SAVE_CFA | WIRE_SAVE_CFA << 4},
                                             END_RULE,
                                             plain[2]};
    struct world *world = make(&arch_x86_64, rules, 3);
    const uint64_t pcs[] = {function(0), function(2) + 4, function(1) + 4};
    start_at(world, pcs[0]);
    set(world, 6, STACK + 8 * 8);
    world->stack[0] = pcs[1];
    world->stack[9] = pcs[2];
    check_frames(world, walk(world), pcs, 3, UNWIND_OUTERMOST);
    free(world);
}

static void put_context(struct world *world, uint64_t *context, uint64_t pc, uint64_t sp, uint64_t fp)
{
    const struct arch *arch = world->space.arch;
    for (unsigned i = 0; i < arch->signal_count; i++) {
        const struct arch_signal_slot *slot = &arch->signal_slots[i];
        unsigned number = slot->register_number;
        context[slot->offset / 8] = number == arch->pc   ? pc
                                    : number == arch->sp ? sp
                                    : number == arch->fp ? fp
                                                         : 0;
    }
}

/* The interrupted frame's pc is no return address, and its stack may be another one, below this one even. */
static void crosses_signal_frames(void **state)
{
    (void)state;
    static const struct wire_rule rules[] = {
        SP_RULE(24), {.cfa_kind = WIRE_CFA_SIGNAL}, END_RULE, SP_RULE(16)};
    struct world *world = make(&arch_x86_64, rules, 4);
    const uint64_t pcs[] = {function(0), function(1) + 4, function(3), function(2) + 4};
    const uint64_t other = 0x100000; /* where the interrupted stack is */
    start_at(world, pcs[0]);
    world->stack[2] = pcs[1];
    put_context(world, &world->stack[3 + 5], pcs[2], other, 0);
    world->outside_at = other + 8;
    world->outside_word = pcs[3];
    assert_int_equal(walk(world).end, UNWIND_BAD_READ); /* not CUT: a larger copy would not help */
    world->memory.read_outside = read_outside;
    check_frames(world, walk(world), pcs, 4, UNWIND_OUTERMOST);
    assert_int_equal(world->frames[2].flags, UNWIND_SIGNAL);
    assert_int_equal(world->frames[3].flags, 0);
    world->memory.high = STACK + 8 * 20; /* the copy ends inside the context: cut */
    assert_int_equal(walk(world).end, UNWIND_CUT);
    free(world);
}

static void uses_frame_pointers_only_when_allowed(void **state)
{
    (void)state;
    struct world *world = make(&arch_x86_64, plain, 4);
    world->has_rows = false; /* generated code: mapped, but nobody describes it */
    const uint64_t pcs[] = {function(9), function(10), function(11)};
    start_at(world, pcs[0]);
    set(world, 6, STACK + 4 * 8);
    world->stack[4] = STACK + 8 * 8;
    world->stack[5] = pcs[1];
    world->stack[8] = 0;
    world->stack[9] = pcs[2];
    check_frames(world, walk(world), pcs, 1, UNWIND_NO_ROWS);
    world->space.frame_pointers = true;
    struct unwind_result result = walk(world);
    check_frames(world, result, pcs, 3, UNWIND_NO_ROWS);
    assert_int_equal(result.frame_pointer_frames, 2);
    assert_int_equal(world->frames[1].flags, UNWIND_BY_FRAME_POINTER);
    world->stack[4] = STACK; /* a record that leads downwards is none */
    assert_int_equal(walk(world).count, 1);
    world->stack[4] = STACK + 8 * 8;
    world->stack[5] = 0x99; /* nor one whose return address is no code */
    assert_int_equal(walk(world).count, 1);
    free(world);
}

/* After a call through a null pointer the word at sp is the return address. */
static void sees_through_a_call_to_nowhere(void **state)
{
    (void)state;
    struct world *world = make(&arch_x86_64, plain, 4);
    static const uint64_t nowhere[] = {0, 1, 0x1234567, UINT64_MAX};
    for (unsigned i = 0; i < 4; i++) {
        const uint64_t pcs[] = {nowhere[i], function(0) + 4, function(1) + 4};
        start_at(world, pcs[0]);
        world->stack[0] = pcs[1];
        world->stack[3] = pcs[2];
        world->space.frame_pointers = false;
        check_frames(world, walk(world), pcs, 1, UNWIND_NO_MAPPING);
        world->space.frame_pointers = true;
        check_frames(world, walk(world), pcs, 3, UNWIND_OUTERMOST);
    }
    free(world);
}

/* A reused address must not meet the rule of the code that was there before. */
static void a_new_generation_forgets(void **state)
{
    (void)state;
    static const struct wire_rule before[] = {SP_RULE(8), END_RULE}, after[] = {SP_RULE(24), END_RULE};
    struct unwind_cache *cache = calloc(1, unwind_cache_size());
    struct world *world = make(&arch_x86_64, before, 2), *later = make(&arch_x86_64, after, 2);
    start_at(world, function(0));
    start_at(later, function(0));
    world->stack[0] = function(1) + 4;
    later->stack[2] = function(1) + 8;
    unwind_walk(&world->space, &world->memory, &world->registers, cache, world->frames, 16);
    assert_true(world->frames[1].pc == function(1) + 4);
    unwind_walk(&later->space, &later->memory, &later->registers, cache, later->frames, 16);
    assert_true(later->frames[1].pc != function(1) + 8); /* as it would without: the old rule */
    later->space.generation = 2;
    struct unwind_result result =
        unwind_walk(&later->space, &later->memory, &later->registers, cache, later->frames, 16);
    assert_int_equal(result.end, UNWIND_OUTERMOST);
    assert_true(later->frames[1].pc == function(1) + 8);
    free(world);
    free(later);
    free(cache);
}

static sigjmp_buf away;

static void jump_away(int number)
{
    siglongjmp(away, number);
}

/* A handler that jumps away while a rule is being looked up leaves no half of an entry. */
static void a_look_up_that_was_left_counts_for_nothing(void **state)
{
    (void)state;
    enum { PAGE = 4096 };
    struct sigaction jump = {.sa_handler = jump_away}, before;
    struct unwind_cache *cache = calloc(1, unwind_cache_size());
    struct world *world = make(&arch_x86_64, plain, 4);
    const uint64_t pcs[] = {function(0), function(1) + 4};
    void *rules = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(rules, world->rows.rules, world->blob.header.rule_count * sizeof *world->rows.rules);
    world->rows.rules = rules;
    start_at(world, pcs[0]);
    world->stack[2] = pcs[1];
    mprotect(rules, PAGE, PROT_NONE);
    sigaction(SIGSEGV, &jump, &before);
    if (sigsetjmp(away, 1) == 0) {
        unwind_walk(&world->space, &world->memory, &world->registers, cache, world->frames, 16);
        fail();
    }
    sigaction(SIGSEGV, &before, NULL);
    mprotect(rules, PAGE, PROT_READ);
    struct unwind_result result =
        unwind_walk(&world->space, &world->memory, &world->registers, cache, world->frames, 16);
    check_frames(world, result, pcs, 2, UNWIND_OUTERMOST);
    munmap(rules, PAGE);
    free(world);
    free(cache);
}

/* AArch64: row 0 a leaf, row 1 a frame of 32 with x29, x30 at its bottom, row 2 ends, row 3 by x29. */
static const struct wire_rule arm[] = {
    {.cfa_kind = WIRE_CFA_REGISTER, .cfa_register = 31},
    {.cfa_kind = WIRE_CFA_REGISTER,
     .cfa_register = 31,
     .cfa_offset = 32,
     .fp_slot = -4,
     .ra_slot = -3,
     .save_kinds = WIRE_SAVE_CFA | WIRE_SAVE_CFA << 4},
    END_RULE,
    {.cfa_kind = WIRE_CFA_REGISTER,
     .cfa_register = 29,
     .cfa_offset = 16,
     .fp_slot = -2,
     .ra_slot = -1,
     .save_kinds = WIRE_SAVE_CFA | WIRE_SAVE_CFA << 4},
};
#define SIGNED UINT64_C(0x002a000000000000) /* a pointer authentication code */

static void aarch64_uses_the_link_register_in_leaves(void **state)
{
    (void)state;
    struct world *world = make(&arch_aarch64, arm, 4);
    const uint64_t pcs[] = {function(0), function(1) + 8, function(3) + 8, function(2) + 8};
    start_at(world, pcs[0]);
    set(world, 30, pcs[1] | SIGNED);
    world->stack[0] = STACK + 8 * 8;
    world->stack[1] = pcs[2] | SIGNED;
    world->stack[8] = 0;
    world->stack[9] = pcs[3] | SIGNED;
    check_frames(world, walk(world), pcs, 4, UNWIND_OUTERMOST);
    const uint64_t wrong[] = {function(1),
                              function(0) + 8}; /* a leaf's rule in a caller: no link register there */
    start_at(world, wrong[0]);
    world->stack[1] = wrong[1];
    check_frames(world, walk(world), wrong, 2, UNWIND_NO_PROGRESS);
    free(world);
}

/* Interrupted in a leaf: the link register is good once more, right behind the signal frame. */
static void aarch64_crosses_signal_frames(void **state)
{
    (void)state;
    struct wire_rule rules[] = {arm[0], arm[1], arm[2], {.cfa_kind = WIRE_CFA_SIGNAL}};
    struct world *world = make(&arch_aarch64, rules, 4);
    static uint64_t stack[128];
    const uint64_t pcs[] = {function(1), function(3) + 4, function(0), function(2) + 8};
    world->memory = (struct unwind_memory){STACK, STACK + sizeof stack, (uint8_t *)stack, NULL, NULL};
    start_at(world, pcs[0]);
    stack[1] = pcs[1];
    put_context(world, &stack[4 + 312 / 8], pcs[2], STACK + 100 * 8, 0);
    stack[4 + 312 / 8 + 30] = pcs[3] | SIGNED;
    check_frames(world, walk(world), pcs, 4, UNWIND_OUTERMOST);
    free(world);
}

/* After a step by frame pointer sp is unknown: sp rules wait until x29 tells it again. */
static void aarch64_frame_pointers_do_not_give_sp(void **state)
{
    (void)state;
    struct world *world = make(&arch_aarch64, arm, 4);
    world->space.frame_pointers = true;
    const uint64_t pcs[] = {function(9), function(1) + 8, function(3) + 8, function(2) + 8};
    start_at(world, pcs[0]);
    set(world, 29, STACK + 4 * 8);
    set(world, 30, 0);
    world->stack[4] = STACK + 12 * 8;
    world->stack[5] = pcs[1];
    world->stack[12] = STACK + 20 * 8;
    world->stack[13] = pcs[2];
    world->stack[20] = 0;
    world->stack[21] = pcs[3];
    struct unwind_result result = walk(world);
    check_frames(world, result, pcs, 4, UNWIND_OUTERMOST);
    assert_int_equal(result.frame_pointer_frames, 2);
    free(world);
}

/* Random stacks and registers: any outcome but a crash, an endless walk, or more frames than there is room.
 */
static void survives_random_stacks(void **state)
{
    (void)state;
    static const struct wire_rule x86[] = {SP_RULE(8),
                                           plain[2],
                                           {.cfa_kind = WIRE_CFA_SIGNAL},
                                           plain[3],
                                           {.cfa_kind = WIRE_CFA_DEREFERENCE,
                                            .cfa_register = 6,
                                            .cfa_offset = -8,
                                            .ra_slot = -1,
                                            .save_kinds = WIRE_SAVE_FP | WIRE_SAVE_CFA << 4}};
    uint64_t random = 99;
    struct unwind_cache *cache = calloc(1, unwind_cache_size());
    for (unsigned i = 0; i < 30000; i++) {
        struct world *world = i & 1 ? make(&arch_x86_64, x86, 5) : make(&arch_aarch64, arm, 4);
        world->space.frame_pointers = i & 2;
        world->space.generation = i;
        for (unsigned k = 0; k < WORDS; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            uint64_t choice = random >> 60;
            world->stack[k] = choice < 6    ? CODE + (random >> 40) % 80
                              : choice < 12 ? STACK + (random >> 40) % sizeof world->stack
                                            : random;
        }
        for (unsigned k = 0; k < ARCH_REGISTERS; k++)
            set(world, k, world->stack[k]);
        start_at(world, CODE + (random >> 33) % 96);
        world->memory.high -= random >> 50 & 15;
        struct unwind_result result =
            unwind_walk(&world->space, &world->memory, &world->registers, cache, world->frames, 16);
        assert_true(result.count <= 16 && result.count > 0 && result.end <= UNWIND_NO_PROGRESS);
        free(world);
    }
    free(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(walks_sp_and_fp_frames),
        cmocka_unit_test(looks_up_callers_one_byte_early),
        cmocka_unit_test(says_why_it_ended),
        cmocka_unit_test(stops_when_full_or_without_registers),
        cmocka_unit_test(follows_the_linkers_plt),
        cmocka_unit_test(follows_realigned_stacks),
        cmocka_unit_test(knows_other_registers_where_it_can),
        cmocka_unit_test(keeps_a_register_that_was_popped),
        cmocka_unit_test(crosses_signal_frames),
        cmocka_unit_test(uses_frame_pointers_only_when_allowed),
        cmocka_unit_test(sees_through_a_call_to_nowhere),
        cmocka_unit_test(a_new_generation_forgets),
        cmocka_unit_test(a_look_up_that_was_left_counts_for_nothing),
        cmocka_unit_test(aarch64_uses_the_link_register_in_leaves),
        cmocka_unit_test(aarch64_crosses_signal_frames),
        cmocka_unit_test(aarch64_frame_pointers_do_not_give_sp),
        cmocka_unit_test(survives_random_stacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
