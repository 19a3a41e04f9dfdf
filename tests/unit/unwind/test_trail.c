/* Walks with a trail give what unwind_walk gives, whatever happened to the stack since the last one; and so
 * does a stack that is known from before.
 *
 * This process walks itself: random call trees, frames of fixed and of moving size (their CFA is then by
 * frame pointer), handlers on the same and on an alternate stack, and stacks that were left and entered again
 * with old words still on them. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "process_space.h"
#include "rows_blob.h"
#include "unwind_cache.h"
#include "unwind_known.h"

#define AWAY __attribute__((noinline, noclone))
#define MOST 20000 /* stacks that are kept in a test */

static struct process_space process;
static struct unwind_cache *cache, *other_cache;
static struct unwind_trail trail;
static struct unwind_known *known;
static unsigned walks, same, full, found;
static uint64_t stack_end;
static uint32_t random_state = 7;

static uint32_t draw(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

static uint32_t unchanged_from(const struct arch_registers *registers)
{
    const struct arch *arch = arch_host();
    return unwind_trail_unchanged(&trail, registers->value[arch->sp], arch->code_mask);
}

/* Values that stacks were kept with: the numbers of what walks found, from 1 on. */
struct kept {
    uint32_t count;
    uint64_t pcs[UNWIND_TRAIL_FRAMES];
};
static struct kept kepts[MOST];
static uint32_t kept_count;

/* What is known of a stack is what a walk found. */
static void look_for(const struct arch_registers *registers, uint64_t high, const struct unwind_frame *frames,
                     uint32_t count)
{
    const struct arch *arch = arch_host();
    struct unwind_known_start start = {registers->value[arch->pc] + 1, registers->value[arch->sp],
                                       registers->value[arch->fp], unwind_known_scope(1, 1)};
    uint32_t value = unwind_known_find(known, &start, high);
    if (value != 0) {
        found++;
        assert_int_equal(kepts[value - 1].count, count);
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(kepts[value - 1].pcs[i], frames[i].pc);
        return;
    }
    if (kept_count == MOST)
        return;
    kepts[kept_count].count = count;
    for (uint32_t i = 0; i < count; i++)
        kepts[kept_count].pcs[i] = frames[i].pc;
    unwind_known_insert(known, &start, &trail, arch->code_mask, ++kept_count);
}

/* The table of rules is direct-mapped: where the loader has put two of a walk's places 16 KiB apart, one time in four for two that lie
 * alike in their pages, rules come and go, and what walks have in common is not found. How much is found is asserted where none are. */
static uint64_t seen[256];
static unsigned seen_count;

static void note_places(const struct unwind_frame *frames, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        unsigned at = 0;
        while (at < seen_count && seen[at] != frames[i].pc)
            at++;
        if (at == seen_count && seen_count < sizeof seen / sizeof *seen)
            seen[seen_count++] = frames[i].pc;
    }
}

static bool share_slots(void)
{
    for (unsigned i = 0; i < seen_count; i++)
        for (unsigned j = 0; j < i; j++)
            if (unwind_cache_slot(cache, seen[i] - 1) == unwind_cache_slot(cache, seen[j] - 1))
                return true;
    return false;
}

/* Compares both walks from our caller on. */
static AWAY void look(void)
{
    struct arch_registers registers;
    struct unwind_frame frames[UNWIND_TRAIL_FRAMES];
    arch_host_capture(&registers);
    const struct arch *arch = arch_host();
    uint64_t sp = registers.value[arch->sp];
    struct unwind_memory memory = {sp, sp, (const uint8_t *)sp, process_space_word, &process};
    memory.high =
        sp < stack_end && stack_end - sp < 1 << 20 ? stack_end : sp + 1024; /* else: the alternate stack */
    struct unwind_trail_result result =
        unwind_trail_walk(&trail, unchanged_from(&registers), &process.space, &memory, &registers, cache);
    registers.value[arch->pc]--;
    struct unwind_result expected =
        unwind_walk(&process.space, &memory, &registers, other_cache, frames, UNWIND_TRAIL_FRAMES);
    assert_int_equal(result.count, expected.count);
    assert_int_equal(result.end, expected.end);
    frames[0].pc++;
    for (uint32_t i = 0; i < result.count; i++) {
        uint32_t at = result.count - 1 - i;
        assert_int_equal(trail.last[at].pc, frames[i].pc);
        assert_int_equal(trail.last[at].cookie, frames[i].cookie);
        assert_int_equal(trail.last[at].flags, frames[i].flags);
    }
    assert_true(result.same <= result.count);
    look_for(&registers, memory.high, frames, result.count);
    note_places(frames, result.count);
    walks++;
    same += result.same;
    full += result.count;
}

static AWAY void still(unsigned depth);

/* A frame whose size changes: its CFA is by frame pointer. */
static AWAY void moving(unsigned depth)
{
    volatile char *room = __builtin_alloca(16 * (draw() % 8 + 1));
    room[0] = 1;
    still(depth);
    if (draw() % 4 == 0)
        still(depth);
    __asm__ volatile("" ::"r"(room));
}

/* Leaves what it found on the stack where it was, as uninitialised locals do. */
static AWAY void hollow(unsigned depth)
{
    volatile char room[200];
    __asm__ volatile("" ::"r"(room));
    still(depth);
    __asm__ volatile("" ::"r"(room));
}

static AWAY void still(unsigned depth)
{
    if (depth == 0) {
        look();
        return;
    }
    for (unsigned i = draw() % 3 + 1; i > 0; i--)
        switch (draw() % 4) {
        case 0:
            moving(depth - 1);
            break;
        case 1:
            hollow(depth - 1);
            break;
        case 2:
            look();
            break;
        default:
            still(depth - 1);
            break;
        }
    __asm__ volatile("");
}

static void begin(void)
{
    memset(&trail, 0, sizeof trail);
    memset(known, 0, sizeof *known);
    walks = same = full = found = kept_count = seen_count = 0;
}

static void test_random_trees(void **state)
{
    (void)state;
    begin();
    for (unsigned i = 0; i < 300; i++)
        still(draw() % 9);
    assert_true(walks > 2000);
    assert_true(same < full);
    if (share_slots())
        return;
    assert_true(same > full / 2); /* most frames were not walked again */
    assert_true(found > walks / 20);
}

static void handler(int number)
{
    (void)number;
    look();
    still(2);
}

static void raise_with(int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    for (unsigned i = 0; i < 20; i++) {
        raise(SIGUSR1);
        look();
        still(2);
    }
}

static void test_handlers(void **state)
{
    (void)state;
    begin();
    raise_with(0);
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536}, none = {.ss_flags = SS_DISABLE};
    assert_int_equal(sigaltstack(&stack, NULL), 0);
    raise_with(SA_ONSTACK);
    assert_int_equal(sigaltstack(&none, NULL), 0);
    free(stack.ss_sp);
    assert_true(walks > 80);
}

static AWAY void deep(unsigned levels)
{
    if (levels == 0)
        look();
    else
        deep(levels - 1);
    __asm__ volatile("");
}

/* More frames than a trail keeps, and back. */
static void test_deep(void **state)
{
    (void)state;
    begin();
    for (unsigned i = 0; i < 60; i++)
        deep(draw() % 160);
    for (unsigned i = 100; i < 140; i++) {
        deep(i);
        deep(i - 1);
    }
    assert_int_equal(walks, 140);
}

/* Frames of one size at the same places, whose return addresses are others each time. */
#define BRANCH(name, other, same)                                                                            \
    static AWAY void name(unsigned path, unsigned depth)                                                     \
    {                                                                                                        \
        if (depth == 0)                                                                                      \
            look();                                                                                          \
        else if (path & 1)                                                                                   \
            other(path >> 1, depth - 1);                                                                     \
        else                                                                                                 \
            same(path >> 1, depth - 1);                                                                      \
        __asm__ volatile("");                                                                                \
    }

static void left(unsigned path, unsigned depth);
static void right(unsigned path, unsigned depth);
BRANCH(left, right, left)
BRANCH(right, left, right)

/* One in four goes one deeper, so that it lies elsewhere; one in four through a frame that moves. */
static void test_branches(void **state)
{
    (void)state;
    begin();
    for (unsigned i = 0; i < 2000; i++) {
        unsigned path = draw() % 128;
        left(path, 9 + (draw() % 4 == 0));
        if (draw() % 4 == 0)
            moving(2);
    }
    assert_true(walks >= 2000);
    assert_true(same < full);
    assert_true(share_slots() || found > walks / 5);
}

static jmp_buf back;
static AWAY void jump(unsigned levels)
{
    if (levels > 0)
        jump(levels - 1);
    look();
    if (levels == 0)
        longjmp(back, 1);
}

static void test_jumps(void **state)
{
    (void)state;
    begin();
    for (volatile unsigned i = 0; i < 50; i++) {
        if (setjmp(back) == 0)
            jump(i % 7);
        look();
    }
    assert_int_equal(walks, 100);
}

/* --- stacks of drawn words --- */

#define CODE  UINT64_C(0x400000)
#define WORDS 48
#define RULES (sizeof rules / sizeof *rules)

#define SP_RULE(size, ...)                                                                                   \
    {                                                                                                        \
        .cfa_kind = WIRE_CFA_REGISTER, .cfa_register = 7, .cfa_offset = (size), .ra_slot = -1, __VA_ARGS__   \
    }
/* Frames by sp that leave fp alone, or have saved it; frames by fp; the outermost. */
static const struct wire_rule rules[] = {
    SP_RULE(8, .save_kinds = WIRE_SAVE_CFA << 4),
    SP_RULE(16, .save_kinds = WIRE_SAVE_CFA << 4),
    SP_RULE(16, .fp_slot = -2, .save_kinds = WIRE_SAVE_CFA | WIRE_SAVE_CFA << 4),
    SP_RULE(24, .fp_slot = -3, .save_kinds = WIRE_SAVE_CFA | WIRE_SAVE_CFA << 4),
    {.cfa_kind = WIRE_CFA_REGISTER,
     .cfa_register = 6,
     .cfa_offset = 16,
     .ra_slot = -1,
     .fp_slot = -2,
     .save_kinds = WIRE_SAVE_CFA | WIRE_SAVE_CFA << 4},
    {.cfa_kind = WIRE_CFA_REGISTER,
     .cfa_register = 6,
     .cfa_offset = 8,
     .ra_slot = -1,
     .save_kinds = WIRE_SAVE_CFA << 4},
    {.cfa_kind = WIRE_CFA_END},
};

static bool find_drawn(void *context, uint64_t pc, struct unwind_place *place)
{
    *place = (struct unwind_place){context, CODE, 1};
    return pc - CODE < 16 * RULES;
}

/* A return address, mostly, or a place of the stack, as an fp may be, or anything. */
static uint64_t drawn_word(const uint64_t *stack)
{
    uint32_t kind = draw() % 16;
    return kind < 12   ? CODE + 16 * (draw() % RULES) + 4
           : kind < 15 ? (uint64_t)(uintptr_t)&stack[draw() % WORDS]
                       : draw();
}

/* Of the same stack again and again, some words of which are others each time: a walk with a trail and what is
 * known say what a walk without them says. */
static void test_drawn_words(void **state)
{
    (void)state;
    static uint64_t stack[WORDS];
    const struct arch *arch = arch_host();
    struct rows_blob blob;
    struct rows_blob_row rows[RULES + 1] = {{16 * RULES, {.cfa_kind = WIRE_CFA_NONE}}};
    struct unwind_rows opened;
    struct unwind_frame frames[UNWIND_TRAIL_FRAMES];
    struct arch_registers registers = {.valid = UINT64_C(0x1f0c8)};
    uint64_t *sp = stack, pc = CODE + 4;
    unsigned ended = 0;
    rows[RULES] = rows[0];
    for (unsigned i = 0; i < RULES; i++)
        rows[i] = (struct rows_blob_row){16 * i, rules[i]};
    rows_blob_make(&blob, arch->machine, 0, 1, rows, RULES + 1);
    assert_true(unwind_rows_open(&opened, &blob, blob.header.byte_count));
    const struct unwind_space space = {arch, find_drawn, &opened, 1, false};
    begin();
    memset(cache, 0, unwind_cache_size());
    memset(other_cache, 0, unwind_cache_size());
    for (unsigned i = 0; i < 1000000; i++) {
        for (unsigned k = i == 0 ? 20 * WORDS : draw() % 4; k > 0; k--)
            stack[draw() % WORDS] = drawn_word(stack);
        if (draw() % 8 == 0) {
            sp = &stack[draw() % 4 * 2];
            pc = CODE + 16 * (draw() % (RULES - 1)) + 4;
        }
        struct unwind_memory memory = {(uint64_t)(uintptr_t)sp, (uint64_t)(uintptr_t)(stack + WORDS),
                                       (const uint8_t *)sp, NULL, NULL};
        registers.value[arch->sp] = memory.low;
        registers.value[arch->pc] = pc;
        if (draw() % 4 == 0)
            registers.value[arch->fp] = drawn_word(stack);
        struct unwind_trail_result result =
            unwind_trail_walk(&trail, unchanged_from(&registers), &space, &memory, &registers, cache);
        registers.value[arch->pc]--;
        struct unwind_result expected =
            unwind_walk(&space, &memory, &registers, other_cache, frames, UNWIND_TRAIL_FRAMES);
        frames[0].pc++;
        assert_int_equal(result.count, expected.count);
        assert_int_equal(result.end, expected.end);
        for (uint32_t k = 0; k < result.count; k++)
            assert_int_equal(trail.last[result.count - 1 - k].pc, frames[k].pc);
        look_for(&registers, memory.high, frames, result.count);
        ended += result.end == UNWIND_OUTERMOST && result.count > 2;
        same += result.same;
        full += result.count;
    }
    memset(cache, 0, unwind_cache_size());
    memset(other_cache, 0, unwind_cache_size());
    assert_true(ended > 10000);
    assert_true(same > full / 10);
    assert_true(found > 10000);
}

static int set_up(void **state)
{
    (void)state;
    cache = calloc(1, unwind_cache_size());
    other_cache = calloc(1, unwind_cache_size());
    known = calloc(1, sizeof *known);
    return known != NULL && cache != NULL && other_cache != NULL && process_space_read(&process, getpid())
               ? 0
               : -1;
}

static int tear_down(void **state)
{
    (void)state;
    process_space_free(&process);
    free(cache);
    free(other_cache);
    free(known);
    return 0;
}

int main(int argc, char **argv)
{
    (void)argc;
    stack_end = (uint64_t)argv & ~UINT64_C(7); /* behind libc's first frames */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_trees), cmocka_unit_test(test_handlers),
        cmocka_unit_test(test_deep),         cmocka_unit_test(test_branches),
        cmocka_unit_test(test_jumps),        cmocka_unit_test(test_drawn_words),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
