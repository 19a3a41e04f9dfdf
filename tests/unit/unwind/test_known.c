/* Stacks that were kept are found while every word that their walk has read is what it was, and no others.
 * That what is found is what a walk would find on live stacks is test_trail.c's. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unwind_known.h"

#define DEPTH      6 /* frames: each of a word of its own and the return address */
#define GENERATION 3
#define ROOT       11
#define FIRST_PC   UINT64_C(0x400000)
#define FP         UINT64_C(0x1234)

static uint64_t stack[2 * 128], far_stack[UINT16_MAX + 8];
static struct unwind_trail trail;
static struct unwind_known *known;
static struct unwind_known_start start;

static uint64_t address(const uint64_t *word)
{
    return (uint64_t)(uintptr_t)word;
}

/* A trail of frames by sp, as a walk would leave it; the return addresses are drawn from `seed`. */
static void make(uint32_t depth, uint64_t seed)
{
    memset(&trail, 0, sizeof trail);
    trail.count = depth;
    trail.end = UNWIND_OUTERMOST;
    uint64_t pc = FIRST_PC;
    for (uint32_t i = 0; i < depth; i++) {
        struct unwind_trail_frame *frame = &trail.last[depth - 1 - i];
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
        *frame = (struct unwind_trail_frame){.pc = pc,
                                             .sp = address(&stack[2 * i]),
                                             .fp = FP,
                                             .rarer = -1,
                                             .return_at = address(&stack[2 * i + 1])};
        pc = FIRST_PC + (seed >> 60);
        stack[2 * i] = seed;
        stack[2 * i + 1] = pc;
    }
    trail.last[0].return_at = 0; /* it says that it is the outermost */
    start = (struct unwind_known_start){FIRST_PC, address(stack), FP, unwind_known_scope(ROOT, GENERATION)};
}

static void keep(uint32_t value)
{
    unwind_known_insert(known, &start, &trail, UINT64_MAX, value);
}

static uint32_t find(void)
{
    return unwind_known_find(known, &start, address(stack + sizeof stack / sizeof *stack));
}

static int set_up(void **state)
{
    *state = known = calloc(1, sizeof *known);
    return known == NULL;
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

/* --- what is compared --- */

static void test_words(void **state)
{
    (void)state;
    make(DEPTH, 1);
    assert_int_equal(find(), 0);
    keep(7);
    assert_int_equal(find(), 7);
    for (uint32_t i = 0; i < DEPTH; i++) {
        stack[2 * i]++; /* a variable */
        assert_int_equal(find(), 7);
        stack[2 * i + 1]++; /* the return address; the outermost frame's was never read */
        assert_int_equal(find(), i == DEPTH - 1 ? 7 : 0);
        stack[2 * i + 1]--;
        assert_int_equal(find(), 7);
    }
}

static void test_start(void **state)
{
    (void)state;
    make(DEPTH, 1);
    keep(7);
    const struct unwind_known_start first = start;
    start.pc++;
    assert_int_equal(find(), 0);
    start = first;
    start.sp += 16;
    assert_int_equal(find(), 0);
    start = first;
    start.scope++; /* the generation */
    assert_int_equal(find(), 0);
    start = first;
    start.scope += UINT64_C(1) << 32; /* the root */
    assert_int_equal(find(), 0);
    keep(8);
    assert_int_equal(find(), 8);
    start = first;
    assert_int_equal(find(), 7);
}

/* Stacks of one shape: the one that was found last is tried first, and is not taken for another. */
static void test_turns(void **state)
{
    (void)state;
    enum { STACKS = 4 };
    for (unsigned i = 1; i <= STACKS; i++) {
        make(DEPTH, i);
        keep(i);
    }
    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 1; i <= STACKS; i++) {
            make(DEPTH, i);
            for (unsigned again = 0; again <= round; again++)
                assert_int_equal(find(), i);
        }
    make(DEPTH, STACKS + 1);
    assert_int_equal(find(), 0);
}

/* No word is read that is not known to be readable. */
static void test_high(void **state)
{
    (void)state;
    make(DEPTH, 1);
    keep(7);
    uint64_t high = address(&stack[2 * DEPTH - 2]); /* behind the last word that was read */
    assert_int_equal(unwind_known_find(known, &start, high), 7);
    assert_int_equal(unwind_known_find(known, &start, high - 8), 0);
}

/* A register like others, unless a frame is found by it. */
static void test_fp(void **state)
{
    (void)state;
    make(DEPTH, 1);
    keep(1);
    start.fp++;
    assert_int_equal(find(), 1);

    make(DEPTH, 2);
    trail.last[2].by_fp = 1; /* and nobody saved it further in */
    keep(2);
    assert_int_equal(find(), 2);
    start.fp++;
    assert_int_equal(find(), 0);

    make(DEPTH, 3);
    trail.last[2].by_fp = 1;
    trail.last[4].fp_at = address(&stack[2]); /* saved by the one but innermost */
    stack[2] = FP;
    keep(3);
    assert_int_equal(find(), 3);
    start.fp++;
    assert_int_equal(find(), 3);
    stack[2]++;
    assert_int_equal(find(), 0);

    make(DEPTH, 4);
    trail.last[4].by_fp = 1;
    trail.last[2].fp_at = address(&stack[6]); /* by one that is further out: nobody needs it there */
    stack[6] = FP;
    keep(4);
    stack[6]++;
    assert_int_equal(find(), 4);
    start.fp++;
    assert_int_equal(find(), 0);
}

/* --- what is kept --- */

static void test_not_kept(void **state)
{
    (void)state;
    make(DEPTH, 1);
    trail.end = UNWIND_CUT;
    keep(1);
    assert_int_equal(find(), 0);

    make(DEPTH, 1);
    trail.last[DEPTH - 1].rarer = 2;
    keep(1);
    assert_int_equal(find(), 0);

    make(DEPTH, 1);
    stack[3]++; /* somebody wrote it meanwhile */
    keep(1);
    stack[3]--;
    assert_int_equal(find(), 0);

    make(1, 1);
    keep(1);
    assert_int_equal(find(), 0);

    make(UNWIND_SHAPE_WORDS + 2, 1);
    keep(1);
    assert_int_equal(find(), 0);
    make(UNWIND_SHAPE_WORDS + 1, 1);
    keep(1);
    assert_int_equal(find(), 1);
}

static void test_far(void **state)
{
    (void)state;
    make(DEPTH, 1);
    start.sp = address(far_stack);
    for (unsigned i = UINT16_MAX; i <= UINT16_MAX + 1; i++) {
        start.scope += UINT64_C(1) << 32;
        trail.last[1].return_at = address(&far_stack[i]);
        for (unsigned k = 2; k < DEPTH; k++)
            trail.last[k].return_at = address(&far_stack[k]);
        for (unsigned k = 1; k < DEPTH; k++)
            *(uint64_t *)(uintptr_t)trail.last[k].return_at = trail.last[k - 1].pc;
        keep(1);
        uint64_t high = address(far_stack + sizeof far_stack / sizeof *far_stack);
        assert_int_equal(unwind_known_find(known, &start, high), i == UINT16_MAX);
    }
}

/* Of one pc and sp, and from other places. */
static void test_shapes(void **state)
{
    (void)state;
    for (uint32_t i = 2; i < UNWIND_SHAPE_WAYS + 4; i++) {
        make(i, i);
        keep(i);
    }
    for (uint32_t i = 2; i < UNWIND_SHAPE_WAYS + 4; i++) {
        make(i, i);
        assert_int_equal(find(), i < 4 ? 0 : i); /* the oldest made room */
    }
}

/* Many stacks: a search finds the right one or none, and mostly finds it while there is room. */
static void test_many(void **state)
{
    (void)state;
    const uint32_t room = UNWIND_KNOWN_WORDS / DEPTH / 2;
    for (uint32_t last = 1; last < 100 * room; last++) {
        make(DEPTH, last);
        keep(last);
        assert_int_equal(find(), last);
        uint32_t other = last < room ? 1 : last - room + 1;
        make(DEPTH, other);
        uint32_t found = find();
        assert_true(found == 0 || found == other);
    }
    uint32_t found = 0;
    for (uint32_t last = 100 * room - 1; last > 99 * room; last--) {
        make(DEPTH, last);
        found += find() == last;
    }
    assert_true(found > room / 2);
}

/* --- who leaves by a jump --- */

#ifdef __x86_64__
static sigjmp_buf away;
static volatile int steps_left;

static void step(int number)
{
    if (steps_left-- == 0)
        siglongjmp(away, number);
}

static void trace(bool on)
{
    if (on)
        __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "cc", "memory");
    else
        __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "cc", "memory");
}

/* After each instruction of an insertion, or one in so many where a sanitizer made thousands of them: what is
 * found is right, of the new stack and of those before it. */
static void test_left(void **state)
{
    (void)state;
    struct sigaction stepped = {.sa_handler = step}, before;
    volatile uint32_t whole = 0, half = 0, value = 1000;
    sigaction(SIGTRAP, &stepped, &before);
    for (volatile int at = 1; whole == 0 && at < 200000; at += at < 500 ? 1 : at / 20, value++) {
        for (uint32_t i = 0; i < 4; i++) { /* shapes, one of which makes room */
            make(DEPTH + i, i);
            keep(i + 1);
        }
        make(DEPTH + 4, value);
        steps_left = at;
        if (sigsetjmp(away, 1) == 0) {
            trace(true);
            keep(value);
            trace(false);
            whole = 1;
        }
        uint32_t found = find();
        half += found == 0;
        assert_true(found == 0 || found == value);
        make(DEPTH + 4, value - 1);
        found = find();
        assert_true(found == 0 || found == value - 1);
        for (uint32_t i = 0; i < 4; i++) {
            make(DEPTH + i, i);
            found = find();
            assert_true(found == 0 || found == i + 1);
        }
        make(DEPTH + 4, value);
        keep(value);
        assert_int_equal(find(), value);
    }
    sigaction(SIGTRAP, &before, NULL);
    assert_int_equal(whole, 1);
    assert_true(half > 100);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_words, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_start, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_turns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_high, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_fp, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_not_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_far, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_shapes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many, set_up, tear_down),
#ifdef __x86_64__
        cmocka_unit_test_setup_teardown(test_left, set_up, tear_down),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
