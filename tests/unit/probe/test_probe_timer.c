/* Timers for threads: intervals that the kernel's ticks can keep, and clocks of processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "probe_timer.h"

static double tick_ns(void)
{
    struct timespec tick;
    assert_int_equal(clock_getres(CLOCK_MONOTONIC_COARSE, &tick), 0);
    return (double)tick.tv_sec * 1e9 + (double)tick.tv_nsec;
}

/* Between least and least + spread, and then half a tick: that is the mean; and the least is not below half a
 * tick. */
static void check(double requested, bool user)
{
    struct shared_timers timers = {0};
    double rate = requested, tick = tick_ns(), highest = 1e9 / (2 * tick);
    assert_int_equal(probe_timer_plan(user, &rate, &timers, NULL), BASE_OK);
    assert_true(fabs(rate - fmin(requested, highest)) < 1e-6 * rate);
    assert_int_equal(timers.signal, SIGURG);
    assert_int_equal(timers.other, SIGWINCH);
    assert_int_equal(timers.clock, user ? WIRE_AGENT_CLOCK_USER : WIRE_AGENT_CLOCK_CPU);
    assert_true(fabs((double)timers.mean_ns - 1e9 / rate) < 2);
    double mean = (double)timers.least_ns + (double)timers.spread_ns / 2 + tick / 2;
    assert_true(fabs(mean - (double)timers.mean_ns) < 4);
    assert_true((double)timers.least_ns >= tick / 2 - 1);
    assert_true(fabs((double)timers.tick_ns - tick) < 1);
}

static void test_plan(void **state)
{
    (void)state;
    const double rates[] = {0.1, 1, 49.5, 99, 124, 999, 1e6};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        check(rates[i], false);
        check(rates[i], true);
    }
}

static void test_clock(void **state)
{
    (void)state;
    struct timespec own;
    uint64_t before = probe_timer_clock(getpid(), WIRE_AGENT_CLOCK_CPU);
    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own), 0);
    uint64_t after = probe_timer_clock(getpid(), WIRE_AGENT_CLOCK_CPU);
    uint64_t between = (uint64_t)own.tv_sec * 1000000000 + (uint64_t)own.tv_nsec;
    assert_true(before > 0 && before <= between && between <= after);
    assert_int_equal(probe_timer_clock(0x3ffffff, WIRE_AGENT_CLOCK_CPU), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plan), cmocka_unit_test(test_clock)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
