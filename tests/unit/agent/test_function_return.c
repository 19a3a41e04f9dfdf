/* Return addresses that are replaced: the place of each, and how they are put back. */
#include "function_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#include <cmocka.h>

#include "agent_rig.h"

static AWAY long unwinding_body(long value)
{
    function_seen = RETURN_ADDRESS();
    long result = function_unwinder(value);
    function_seen_after = *(uint64_t *)((uint64_t)__builtin_frame_address(0) + 8);
    return result;
}

/* --- agent_return.c --- */

static void test_a_word_for_each_place(void **state)
{
    (void)state;
    assert_int_equal(function_caller(0), 5);
    uint64_t first = function_seen;
    assert_false(function_is_in((const void *)function_caller, first)); /* it is replaced */
    assert_int_equal(function_second_caller(0), 6);
    assert_int_not_equal(function_seen, first);
    assert_int_equal(function_caller(0), 5);
    assert_int_equal(function_seen, first); /* always the same */
    const uint64_t *returns = (const void *)((uintptr_t)function_rig.process + function_rig.layout.returns);
    unsigned used = 0;
    for (unsigned i = 0; i < WIRE_AGENT_RETURNS; i++)
        used += returns[i] != 0;
    assert_int_equal(used, 2);
    function_no_losses();
}

/* What reads return addresses finds them as they were, and the call that it was in ends as far as times are
 * concerned. */
static void test_put_back(void **state)
{
    (void)state;
    timed_function *old = function_timed;
    function_timed =
        (timed_function *)agent_rig_hook_whole(&function_rig, "agent_entry_function", (void *)unwinding_body);
    function_seen_after = 0;
    assert_int_equal(function_caller(4), 5);
    assert_false(function_is_in((const void *)function_caller, function_seen));
    assert_true(function_is_in((const void *)function_caller, function_seen_after));
    assert_int_equal(function_rig.process->losses[WIRE_AGENT_LOSS_PUT_BACK], 1);
    assert_int_equal(function_rig.process->losses[WIRE_AGENT_LOSS_FORGOTTEN], 0);
    assert_int_equal(function_calls_in_histograms(function_rig.process), 1);
    function_timed = old;
}

static timed_function *loaded;

static AWAY long loading_body(long value)
{
    function_seen = RETURN_ADDRESS();
    long result = value > 10 ? function_timed(value - 1) : loaded(value);
    function_seen_after = *(uint64_t *)((uint64_t)__builtin_frame_address(0) + 8);
    return result;
}

/* As if another thread had found that nobody answers. */
static AWAY long silent_body(long value)
{
    function_rig.process->silent = 1;
    long result = value > 10 ? function_timed(value - 1) : value;
    function_seen_after = *(uint64_t *)((uint64_t)__builtin_frame_address(0) + 8);
    return result;
}

/* Nobody answers the loader's doorbell: what is loaded then is not hooked, and finds a stack without any word
 * of ours. */
static void test_abandoned(void **state)
{
    (void)state;
    timed_function *old = function_timed;
    function_timed =
        (timed_function *)agent_rig_hook_whole(&function_rig, "agent_entry_function", (void *)loading_body);
    loaded = (timed_function *)agent_rig_hook(&function_rig, "agent_entry_objects",
                                              (void *)function_unwinder_body);
    function_rig.control->patience_ms = 1;
    function_seen_after = 0;
    function_caller(13);
    assert_int_equal(function_rig.process->silent, 1);
    assert_true(
        function_is_in((const void *)function_caller, function_seen_after)); /* of the outermost of four */
    assert_int_equal(function_rig.process->losses[WIRE_AGENT_LOSS_NO_ANSWER], 1);
    assert_int_equal(function_rig.process->losses[WIRE_AGENT_LOSS_PUT_BACK], 4);
    function_caller(4); /* nor is any replaced again */
    assert_true(function_is_in((const void *)function_caller, function_seen));
    assert_int_equal(function_rig.process->losses[WIRE_AGENT_LOSS_UNTIMED], 1);
    assert_int_equal(function_rig.process->losses[WIRE_AGENT_LOSS_FORGOTTEN], 0);
    function_timed = old;
}

/* Another thread's stack is put back when it comes to the agent. */
static void test_abandoned_elsewhere(void **state)
{
    (void)state;
    timed_function *old = function_timed;
    function_timed =
        (timed_function *)agent_rig_hook_whole(&function_rig, "agent_entry_function", (void *)silent_body);
    function_seen_after = 0;
    function_caller(11);
    assert_true(function_is_in((const void *)function_caller, function_seen_after));
    assert_int_equal(function_rig.process->losses[WIRE_AGENT_LOSS_PUT_BACK], 1);
    assert_int_equal(function_rig.process->losses[WIRE_AGENT_LOSS_UNTIMED], 1);
    function_timed = old;
}

enum { SPIN_TICKS = 50000000 };

static void *(*allocating)(size_t size);
static char block[64];

static AWAY void *looking_allocator(size_t size)
{
    function_unwinder((long)size);
    return block;
}

static AWAY long allocating_body(long value)
{
    function_seen = RETURN_ADDRESS();
    allocating((size_t)value);
    function_seen_after = *(uint64_t *)((uint64_t)__builtin_frame_address(0) + 8);
    for (uint64_t end = __builtin_ia32_rdtsc() + SPIN_TICKS; __builtin_ia32_rdtsc() < end;) {
    }
    return 5;
}

/* An allocator that looks at its stack, inside its own hook: it finds all of it, and the call ends there for
 * us. */
static void test_put_back_inside(void **state)
{
    (void)state;
    timed_function *old = function_timed;
    function_timed = (timed_function *)agent_rig_hook_whole(&function_rig, "agent_entry_function",
                                                            (void *)allocating_body);
    allocating =
        (void *(*)(size_t))agent_rig_hook(&function_rig, "agent_entry_malloc", (void *)looking_allocator);
    uint64_t begun = __builtin_ia32_rdtsc();
    assert_int_equal(function_caller(16), 5);
    uint64_t ended = __builtin_ia32_rdtsc();
    assert_false(function_is_in((const void *)function_caller, function_seen));
    assert_true(function_is_in((const void *)function_caller, function_seen_after));
    function_timed = old;
    assert_int_equal(function_caller(0), 5); /* now it is published */
    assert_int_equal(function_rig.process->losses[WIRE_AGENT_LOSS_PUT_BACK], 1);
    assert_int_equal(function_rig.process->losses[WIRE_AGENT_LOSS_FORGOTTEN], 0);
    assert_int_equal(function_calls_in_histograms(function_rig.process), 2);
    for (uint32_t i = 1; i <= function_rig.process->latency_count; i++)
        assert_true(function_latencies(function_rig.process)[i].most <= ended - begun - SPIN_TICKS);
}

/* A timed function that leaves by a tail call to what unwinds leaves it its own return address. */
static void test_put_back_after_a_tail_call(void **state)
{
    (void)state;
    uint8_t *at = function_rig.code + function_rig.code_used;
    timed_function *old = function_timed;
    memcpy(at, (const uint8_t[]){0x48, 0xb8}, 2); /* mov rax, unwinder; jmp rax */
    memcpy(at + 2, &function_unwinder, sizeof function_unwinder);
    memcpy(at + 10, (const uint8_t[]){0xff, 0xe0}, 2);
    function_rig.code_used += 64;
    function_timed = (timed_function *)agent_rig_hook_whole(&function_rig, "agent_entry_function", at);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(function_caller(4), 5);
        assert_true(function_is_in((const void *)function_caller, function_seen_by_unwinder));
        assert_int_equal(function_rig.process->losses[WIRE_AGENT_LOSS_PUT_BACK], i);
    }
    assert_int_equal(function_rig.process->losses[WIRE_AGENT_LOSS_FORGOTTEN], 0);
    assert_int_equal(function_calls_in_histograms(function_rig.process), 3);
    function_timed = old;
}

/* Also when nothing is counted any more. */
static void test_put_back_while_leaving(void **state)
{
    (void)state;
    timed_function *old = function_timed;
    function_timed =
        (timed_function *)agent_rig_hook_whole(&function_rig, "agent_entry_function", (void *)unwinding_body);
    assert_int_equal(function_caller(4), 5);
    function_rig.process->state = WIRE_AGENT_LEFT;
    assert_int_equal(function_caller(4), 5);
    assert_true(function_is_in((const void *)function_caller, function_seen)); /* not replaced */
    assert_true(function_is_in((const void *)function_caller, function_seen_after));
    function_rig.process->state = WIRE_AGENT_RUNNING;
    assert_int_equal(function_calls_of(function_rig.process), 1);
    function_timed = old;
}

/* Code that nobody described called: its return address is its own. */
static void test_generated_caller(void **state)
{
    (void)state;
    static const uint8_t code[] = {0x48, 0x83, 0xec, 0x08,        /* sub rsp, 8 */
                                   0xff, 0xd6,                    /* call rsi */
                                   0x48, 0x83, 0xc4, 0x08, 0xc3}; /* add rsp, 8; ret */
    uint8_t *at = function_rig.code + function_rig.code_used;
    memcpy(at, code, sizeof code);
    function_rig.code_used += 64;
    long (*generated)(long, timed_function *) = (long (*)(long, timed_function *))(void *)at;
    assert_int_equal(generated(0, function_timed), 5);
    assert_int_equal(function_seen, (uint64_t)at + 6);
    assert_int_equal(function_calls_of(function_rig.process), 1);
    assert_int_equal(function_calls_in_histograms(function_rig.process), 0);
    assert_int_equal(function_rig.process->losses[WIRE_AGENT_LOSS_UNTIMED], 1);
}

static void test_not_timed(void **state)
{
    (void)state;
    function_rig.process->timed = 0;
    assert_int_equal(function_caller(0), 5);
    assert_true(function_is_in((const void *)function_caller, function_seen));
    assert_int_equal(function_calls_of(function_rig.process), 1);
    assert_int_equal(function_rig.process->losses[WIRE_AGENT_LOSS_UNTIMED], 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, function_set_up, function_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_word_for_each_place),  TEST(test_put_back),         TEST(test_put_back_after_a_tail_call),
        TEST(test_put_back_while_leaving), TEST(test_put_back_inside),  TEST(test_abandoned),
        TEST(test_abandoned_elsewhere),    TEST(test_generated_caller), TEST(test_not_timed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
