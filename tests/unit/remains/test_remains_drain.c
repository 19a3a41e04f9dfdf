/* What keeps memory mapped as --calls leaves a process: words on a stack, as given by the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "helper_trace.h"
#include "loader_unmap.h"
#include "proc_target.h"
#include "remains_drain.h"

enum { CODE = 0xac4000, SIZE = 0x2000, FILLED = 0x1000, ELSEWHERE = 0x7000000, STACK = 0x900000, AT = 0x100 };

static struct {
    struct trace_stop_thread thread;
    struct proc_target_call asleep;
    uint8_t code[SIZE]; /* zeros from FILLED on */
    uint64_t stack[26];
    unsigned unmapped;
} world;

int __wrap_helper_trace_threads(struct helper *helper, pid_t pid, struct trace_stop_thread **threads,
                                size_t *count, struct base_error *error);
int __wrap_loader_unmap(const struct loader_target *target, const struct loader_range *ranges, size_t count,
                        uint64_t *left, struct base_error *error);
size_t __wrap_proc_target_read(pid_t pid, uint64_t address, void *bytes, size_t size);
size_t __wrap_proc_target_stack(pid_t pid, uint64_t sp, uint64_t *words, size_t size);
int __wrap_proc_target_call(pid_t pid, pid_t tid, struct proc_target_call *call);

int __wrap_helper_trace_step_out(struct helper *helper, pid_t pid, pid_t tid,
                                 const struct trace_step_range *ranges, size_t count,
                                 struct base_error *error);

int __wrap_helper_trace_step_out(struct helper *helper, pid_t pid, pid_t tid,
                                 const struct trace_step_range *ranges, size_t count,
                                 struct base_error *error)
{
    (void)helper, (void)pid, (void)tid, (void)ranges, (void)count;
    return base_fail(error, BASE_EBUSY, "it cannot be moved");
}

int __wrap_helper_trace_threads(struct helper *helper, pid_t pid, struct trace_stop_thread **threads,
                                size_t *count, struct base_error *error)
{
    (void)helper, (void)pid, (void)error;
    *threads = malloc(sizeof world.thread);
    assert_non_null(*threads);
    **threads = world.thread;
    *count = 1;
    return BASE_OK;
}

int __wrap_loader_unmap(const struct loader_target *target, const struct loader_range *ranges, size_t count,
                        uint64_t *left, struct base_error *error)
{
    (void)target, (void)ranges, (void)count, (void)left, (void)error;
    world.unmapped++;
    return BASE_OK;
}

size_t __wrap_proc_target_read(pid_t pid, uint64_t address, void *bytes, size_t size)
{
    (void)pid;
    if (address < CODE || address + size > CODE + SIZE)
        return 0;
    memcpy(bytes, world.code + (address - CODE), size);
    return size;
}

size_t __wrap_proc_target_stack(pid_t pid, uint64_t sp, uint64_t *words, size_t size)
{
    (void)pid, (void)size;
    if (sp != STACK)
        return 0;
    memcpy(words, world.stack, sizeof world.stack);
    return sizeof world.stack / sizeof *world.stack;
}

int __wrap_proc_target_call(pid_t pid, pid_t tid, struct proc_target_call *call)
{
    (void)pid, (void)tid;
    *call = world.asleep;
    return BASE_OK;
}

/* --- */

static int begin(void **state)
{
    (void)state;
    memset(&world, 0, sizeof world);
    memset(world.code, 0x90, FILLED);
    world.thread =
        (struct trace_stop_thread){.tid = 1, .state = TRACE_STOP_STOPPED, .pc = ELSEWHERE, .sp = STACK};
    return 0;
}

static bool is_unmapped(void)
{
    struct loader_range code = {CODE, SIZE, true, false};
    const struct remains_ranges ranges = {&code, 1, 1};
    uint64_t left = 0;
    world.unmapped = 0;
    assert_int_equal(remains_drain_memory(&(struct remains_memory){.pid = 1, .ranges = &ranges, .stay = true},
                                          &left, NULL),
                     BASE_OK);
    assert_int_equal(left, world.unmapped ? 0 : SIZE);
    return world.unmapped != 0;
}

static void put_code(const char *bytes, size_t size) /* up to CODE + AT */
{
    memcpy(world.code + AT - size, bytes, size);
}

/* What fstat says of a pipe: its number, one link, its mode, its owner. */
static void a_number_keeps_nothing(void **state)
{
    (void)state;
    const uint64_t pipe[] = {CODE + AT, 1, 0x1180, 0};
    memcpy(world.stack, pipe, sizeof pipe);
    assert_true(is_unmapped());
}

static void a_signals_frame_keeps(void **state)
{
    (void)state;
    enum { PC = 21, COUNT = PC + 5 };
    const uint64_t frame[COUNT] = {[PC] = CODE + AT, 0x246, 0x2b000000000033};
    memcpy(world.stack, frame, sizeof frame);
    assert_false(is_unmapped());
    world.stack[PC] = CODE + FILLED + 16; /* nothing was ever written there */
    assert_true(is_unmapped());
}

static void a_return_address_keeps(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
    } calls[] = {
        {"\xe8\x00\x00\x10\x00", 5},         /* out of our code */
        {"\xff\xd0", 2},                     /* call *%rax */
        {"\x41\xff\xd3", 3},                 /* call *%r11 */
        {"\xff\x15\x00\x10\x00\x00", 6},     /* call *slot(%rip) */
        {"\xff\x14\x25\x00\x10\x00\x00", 7}, /* call *slot */
    };
    world.stack[1] = CODE + AT;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        memset(world.code, 0x90, FILLED);
        put_code(calls[i].bytes, calls[i].size);
        assert_false(is_unmapped());
    }
}

static void a_return_address_behind_a_call_of_ours_keeps_nothing(void **state)
{
    (void)state;
    put_code("\xe8\x00\x01\x00\x00", 5);
    world.stack[1] = CODE + AT;
    assert_true(is_unmapped());
}

static void a_thread_there_keeps(void **state)
{
    (void)state;
    const struct trace_stop_thread asleep = {.process = 1, .tid = 1, .state = TRACE_STOP_KERNEL};
    world.thread.pc = CODE + AT;
    assert_false(is_unmapped());
    world.thread = asleep;
    world.asleep = (struct proc_target_call){.number = -1, .pc = ELSEWHERE, .sp = STACK};
    assert_false(is_unmapped()); /* it may come back anywhere */
    world.asleep.number = 58;
    assert_true(is_unmapped());
    world.asleep.pc = CODE + AT;
    assert_false(is_unmapped());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_number_keeps_nothing, begin),
        cmocka_unit_test_setup(a_signals_frame_keeps, begin),
        cmocka_unit_test_setup(a_return_address_keeps, begin),
        cmocka_unit_test_setup(a_return_address_behind_a_call_of_ours_keeps_nothing, begin),
        cmocka_unit_test_setup(a_thread_there_keeps, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
