/* Frames of this program's own handlers: the innermost, one of a handler that interrupted another, and those
 * that lie beyond a stack for signals. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "trace_frames.h"

enum { MOST = 8, STACK_BYTES = 64 << 10, STOP = 1 };

/* What the kernel gave the handlers, innermost first, and what was found. */
static struct {
    uint64_t saved[MOST], found[MOST];
    size_t depth, count;
    int result;
    bool stop;
} framed;

static int take(void *context, const struct trace_frame *frame, struct base_error *error)
{
    (void)context, (void)error;
    assert_true(framed.count < MOST);
    assert_int_equal(*(const uint64_t *)frame->at, frame->pc);
    framed.found[framed.count++] = frame->pc;
    return framed.stop ? STOP : BASE_OK;
}

static void look(void)
{
    const struct trace_stop_thread here = {.process = getpid(),
                                           .tid = getpid(),
                                           .state = TRACE_STOP_STOPPED,
                                           .sp = (uint64_t)__builtin_frame_address(0)};
    framed.count = 0;
    framed.result = trace_frames_each(&here, 1, take, NULL, NULL);
}

static void innermost(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    framed.saved[framed.depth++] = (uint64_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    look();
}

static void outer(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    raise(SIGUSR2);
    framed.saved[framed.depth++] = (uint64_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
}

static void set(int signal, void (*handler)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    assert_int_equal(sigaction(signal, &action, NULL), 0);
}

/* Those at least, in this order; what is left of earlier ones lies deeper. */
static void check(size_t depth)
{
    assert_int_equal(framed.depth, depth);
    assert_int_equal(framed.result, BASE_OK);
    for (size_t i = 0, at = 0; i < depth; i++, at++) {
        while (at < framed.count && framed.found[at] != framed.saved[i])
            at++;
        assert_true(at < framed.count);
    }
    framed.depth = 0;
}

static void one_and_two(void **state)
{
    (void)state;
    set(SIGUSR2, innermost, 0);
    set(SIGUSR1, outer, 0);
    raise(SIGUSR2);
    check(1);
    raise(SIGUSR1);
    check(2);
}

static void on_another_stack(void **state)
{
    (void)state;
    static char other[STACK_BYTES];
    const stack_t stack = {.ss_sp = other, .ss_size = sizeof other}, none = {.ss_flags = SS_DISABLE};
    assert_int_equal(sigaltstack(&stack, NULL), 0);
    set(SIGUSR2, innermost, SA_ONSTACK);
    set(SIGUSR1, outer, 0);
    raise(SIGUSR1);
    sigaltstack(&none, NULL);
    check(2);
}

static void stop_at_once(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info, (void)context;
    framed.stop = true;
    look();
    framed.stop = false;
}

static void until_the_callback_stops(void **state)
{
    (void)state;
    set(SIGUSR2, stop_at_once, 0);
    set(SIGUSR1, outer, 0);
    raise(SIGUSR1);
    assert_int_equal(framed.result, STOP);
    assert_int_equal(framed.count, 1);
    framed.depth = 0;
}

static void look_at_one_that_is_gone(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info, (void)context;
    const struct trace_stop_thread gone = {.process = getpid(),
                                           .tid = getpid(),
                                           .state = TRACE_STOP_GONE,
                                           .sp = (uint64_t)__builtin_frame_address(0)};
    framed.count = 0;
    framed.result = trace_frames_each(&gone, 1, take, NULL, NULL);
}

static void threads_that_are_gone(void **state)
{
    (void)state;
    set(SIGUSR2, look_at_one_that_is_gone, 0);
    raise(SIGUSR2);
    assert_int_equal(framed.result, BASE_OK);
    assert_int_equal(framed.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_and_two),
        cmocka_unit_test(on_another_stack),
        cmocka_unit_test(until_the_callback_stops),
        cmocka_unit_test(threads_that_are_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
