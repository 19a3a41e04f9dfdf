/* The claim that random, unrelated periods keep a 95 % interval true is tested by simulation: programs that
 * alternate between two functions with every kind of period, sampled by a set, thousands of runs each. A
 * fixed period fails the same test. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "perf_rate.h"
#include "perf_time.h"
#include "profile_statistics.h"

static const double RATES[] = {100, 999, 10000, 27000};

static void rates_add_up(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (size_t r = 0; r < sizeof RATES / sizeof *RATES; r++) {
        for (int draw = 0; draw < 1000; draw++) {
            uint64_t periods[PERF_TIME_SET];
            double rate = 0;
            perf_time_periods(&random, RATES[r], PERF_TIME_SET, periods);
            for (int i = 0; i < PERF_TIME_SET; i++) {
                double relative = (double)periods[i] * RATES[r] / 1e9 / PERF_TIME_SET;
                assert_true(relative > 0.67 && relative < 1.93);
                rate += 1e9 / (double)periods[i];
            }
            assert_true(fabs(rate / RATES[r] - 1) < 1e-4);
        }
    }
}

struct program {
    double period_ns, share;
};

/* Samples of one set for `length`; `phase` is where the program's period begins. */
static void sample(const uint64_t *periods, unsigned count, double length, double phase,
                   const struct program *program, uint64_t *hits, uint64_t *samples)
{
    for (unsigned i = 0; i < count; i++) {
        for (double at = (double)periods[i]; at < length; at += (double)periods[i]) {
            ++*samples;
            *hits += fmod(at + phase, program->period_ns) < program->share * program->period_ns;
        }
    }
}

/* A run of 300 / rate: the first 20 of it in step with the program's start, then drawn anew as a session
 * does. */
static bool interval_holds(uint64_t *random, double rate, const struct program *program, bool fixed)
{
    uint64_t periods[PERF_TIME_SET], hits = 0, samples = 0;
    unsigned count = fixed ? 1 : PERF_TIME_SET;
    double lengths[2] = {20e9 / rate, 280e9 / rate}, phase = 0;
    for (int part = 0; part < 2; part++) {
        perf_time_periods(random, rate, count, periods);
        if (fixed)
            periods[0] = (uint64_t)llround(1e9 / rate);
        sample(periods, count, lengths[part], phase, program, &hits, &samples);
        *random = base_hash(*random + 1);
        phase = (double)(*random >> 11) * 0x1p-53 * program->period_ns;
    }
    struct profile_interval interval = profile_wilson(hits, samples);
    return interval.low <= program->share && program->share <= interval.high;
}

static double coverage(double rate, double program_ns, bool fixed)
{
    enum { RUNS = 2000 };
    const struct program program = {program_ns, 0.3};
    uint64_t random = 7;
    int held = 0;
    for (int run = 0; run < RUNS; run++)
        held += interval_holds(&random, rate, &program, fixed);
    return (double)held / RUNS;
}

static void intervals_hold_for_any_program_period(void **state)
{
    (void)state;
    static const double multiples[] = {0.1, 0.5, 1, 2,
                                       2.5, 3,   5}; /* longer ones: few periods a run, another truth */
    for (size_t r = 0; r < sizeof RATES / sizeof *RATES; r++) {
        for (size_t m = 0; m < sizeof multiples / sizeof *multiples; m++) {
            double held = coverage(RATES[r], multiples[m] * 1e9 / RATES[r], false);
            if (held < 0.94)
                fail_msg("rate %.0f, period %.1f / rate: %.3f", RATES[r], multiples[m], held);
        }
    }
    assert_true(coverage(999, 1e9 / 999, true) < 0.1); /* what a fixed period does */
}

static void rate_leaves_half_of_the_cpu(void **state)
{
    (void)state;
    assert_true(perf_rate_limit(27000, 13000) == 27000);
    assert_true(fabs(perf_rate_limit(60000, 13000) - 0.5e9 / 13000) < 1);
    assert_true(perf_rate_limit(60000, 1e6) == PERF_RATE_UNTESTED); /* a silly measurement does no harm */
    assert_true(perf_rate_limit(60000, 0) == 60000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_add_up),
        cmocka_unit_test(intervals_hold_for_any_program_period),
        cmocka_unit_test(rate_leaves_half_of_the_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
