/* test_process.c - walking this very process: against libunwind, and against what the program itself knows.
 *
 * The functions write down the return address of each call they make on the way down; libunwind's unw_step
 * walks from the same registers. Both must be what unwind_walk says: in a function, in a signal handler, in
 * one on an alternate stack, and from arch_host_capture. */
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "process_space.h"

#define MOST 64

static struct process_space process; /* a signal handler has no other way to it */
static uint64_t known[MOST];
static unsigned known_count;
static unsigned checked;

static void registers_of(const ucontext_t *context, struct arch_registers *registers)
{
    static const int order[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
                                REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
    for (unsigned i = 0; i < sizeof order / sizeof order[0]; i++)
        registers->value[i] = (uint64_t)context->uc_mcontext.gregs[order[i]];
    registers->valid = 0x1ffff;
}

static size_t walk(const struct arch_registers *registers, struct unwind_frame *frames)
{
    static uint64_t cache[1 << 14]; /* 128 KiB */
    uint64_t sp = registers->value[arch_host()->sp];
    struct unwind_memory memory = {sp, sp + 512, (const uint8_t *)sp, process_space_word, &process};
    assert_true(unwind_cache_size() <= sizeof cache);
    struct unwind_result result =
        unwind_walk(&process.space, &memory, registers, (struct unwind_cache *)cache, frames, MOST);
    assert_int_equal(result.end, UNWIND_OUTERMOST);
    assert_int_equal(result.frame_pointer_frames, 0);
    return result.count;
}

/* The addresses that the functions wrote down come in this order, innermost first, somewhere in the walk. */
static void holds_what_is_known(const struct unwind_frame *frames, size_t count)
{
    size_t at = 0;
    for (unsigned i = known_count; i-- > 0;) {
        while (at < count && frames[at].pc != known[i])
            at++;
        assert_true(at < count);
    }
}

static void check_here(void)
{
    unw_context_t context;
    unw_cursor_t cursor;
    unw_word_t pc;
    struct arch_registers registers;
    struct unwind_frame frames[MOST];
    size_t i = 0;
    unw_getcontext(&context);
    registers_of(&context, &registers);
    size_t count = walk(&registers, frames);
    unw_init_local(&cursor, &context);
    do {
        unw_get_reg(&cursor, UNW_REG_IP, &pc);
        assert_true(i < count && frames[i].pc == pc);
        i++;
    } while (unw_step(&cursor) > 0);
    assert_int_equal(i, count);
    holds_what_is_known(frames, count);
    arch_host_capture(&registers);
    size_t captured = walk(&registers, frames);
    assert_int_equal(captured, count);
    holds_what_is_known(frames, captured);
    checked++;
}

#define KNOW_CALLER() (known[known_count++] = (uint64_t)__builtin_return_address(0))

__attribute__((noinline)) static int descend(int depth, void (*bottom)(void))
{
    volatile char room[72];
    KNOW_CALLER();
    room[depth] = (char)depth;
    if (depth == 0)
        bottom();
    else
        descend(depth - 1, bottom);
    known_count--;
    return room[depth];
}

__attribute__((noinline)) static int realigned(int depth, void (*bottom)(void))
{
    __attribute__((aligned(128))) volatile char room[128];
    KNOW_CALLER();
    room[depth] = (char)descend(depth, bottom);
    known_count--;
    return room[depth];
}

static void handle(int number)
{
    known_count++; /* of our own return address the kernel decides */
    known[known_count - 1] = (uint64_t)__builtin_return_address(0);
    volatile int sum = descend(2, check_here);
    (void)(sum + number);
    known_count--;
}

static void raise_signal(void)
{
    KNOW_CALLER();
    raise(SIGUSR1);
    known_count--;
}

static void install(int flags)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = flags};
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
}

static void in_a_function(void **state)
{
    (void)state;
    checked = 0;
    descend(10, check_here);
    realigned(5, check_here);
    assert_int_equal(checked, 2);
}

static void in_a_signal_handler(void **state)
{
    (void)state;
    checked = 0;
    install(0);
    descend(6, raise_signal);
    realigned(3, raise_signal);
    assert_int_equal(checked, 2);
}

static void on_an_alternate_stack(void **state)
{
    (void)state;
    stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16}, before;
    checked = 0;
    assert_int_equal(sigaltstack(&stack, &before), 0);
    install(SA_ONSTACK);
    descend(6, raise_signal);
    assert_int_equal(checked, 1);
    sigaltstack(&before, NULL);
    free(stack.ss_sp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_a_function),
        cmocka_unit_test(in_a_signal_handler),
        cmocka_unit_test(on_an_alternate_stack),
    };
    if (!process_space_read(&process, getpid()))
        return 1;
    process.space.frame_pointers = false;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    process_space_free(&process);
    return failed;
}
