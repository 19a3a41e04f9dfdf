/* May a held process be detached: the pcs and the stacks of its threads. The thread is the test's own, its
 * stack a local array and what lies above it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "trace_detach.h"

/* Addresses that no word of this stack has by chance: none is of user space. */
#define FUNCTION UINT64_C(0x5a5a120000001000)
#define LENGTH   64u

static const struct trace_step_range range = {FUNCTION, FUNCTION + LENGTH};

/* The answer for a thread at `pc` on whose stack `word` lies. */
static int check(uint64_t pc, uint64_t word, struct base_error *why)
{
    volatile uint64_t stack[64] = {0};
    struct trace_stop_thread thread = {.tid = getpid(),
                                       .process = getpid(),
                                       .state = TRACE_STOP_STOPPED,
                                       .life = TRACE_FOLLOW_KNOWN,
                                       .pc = pc,
                                       .sp = (uint64_t)(uintptr_t)stack};
    struct trace_follow_space space = {.stop = {.pid = getpid(), .threads = &thread, .count = 1}};
    const struct trace_step_range ranges[] = {{1, 2}, range};
    *why = (struct base_error){0};
    stack[20] = word;
    return trace_detach_check(&space, ranges, 2, why);
}

static void a_thread_elsewhere_may_be_detached(void **state)
{
    (void)state;
    struct base_error why;
    assert_int_equal(check(0x1000, 0, &why), BASE_OK);
    assert_int_equal(check(FUNCTION + LENGTH, FUNCTION + LENGTH + 1, &why), BASE_OK);
}

static void a_thread_there_stays_attached(void **state)
{
    (void)state;
    struct base_error why;
    assert_int_equal(check(FUNCTION, 0, &why), BASE_EBUSY);
    assert_non_null(strstr(why.text, "about to"));
    assert_int_equal(check(FUNCTION + LENGTH - 1, 0, &why), BASE_EBUSY);
}

static void a_thread_that_returns_there_stays_attached(void **state)
{
    (void)state;
    struct base_error why;
    assert_int_equal(check(0x1000, FUNCTION + 5, &why), BASE_EBUSY);
    assert_non_null(strstr(why.text, "returns into"));
    assert_int_equal(check(0x1000, FUNCTION + LENGTH - 1, &why), BASE_EBUSY);
}

/* ld.so's dl_main stays on the stack of every program that the kernel started. */
static void a_pointer_to_the_function_is_no_return_address(void **state)
{
    (void)state;
    struct base_error why;
    assert_int_equal(check(0x1000, FUNCTION, &why), BASE_OK);
    assert_int_equal(check(0x1000, FUNCTION - 1, &why), BASE_OK);
}

static void an_unreadable_stack_stays_attached(void **state)
{
    (void)state;
    struct trace_stop_thread thread = {.tid = getpid(),
                                       .process = getpid(),
                                       .state = TRACE_STOP_STOPPED,
                                       .life = TRACE_FOLLOW_KNOWN,
                                       .sp = 8};
    struct trace_follow_space space = {.stop = {.pid = getpid(), .threads = &thread, .count = 1}};
    struct base_error why = {0};
    assert_int_equal(trace_detach_check(&space, &range, 1, &why), BASE_EBUSY);
    assert_non_null(strstr(why.text, "cannot be read"));
    thread.state = TRACE_STOP_RUNNING;
    assert_int_equal(trace_detach_check(&space, &range, 1, &why), BASE_EBUSY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_elsewhere_may_be_detached),
        cmocka_unit_test(a_thread_there_stays_attached),
        cmocka_unit_test(a_thread_that_returns_there_stays_attached),
        cmocka_unit_test(a_pointer_to_the_function_is_no_return_address),
        cmocka_unit_test(an_unreadable_stack_stays_attached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
