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

/* --- drawing again --- */

enum { TID = 7, OTHER = 8, PARTS = 10 };

/* The period of a program that spends a tenth of it in each of ten functions; and the step of a session, which is
 * unrelated to it. */
static const double PROGRAM_NS = 33333, STEP_NS = 20.37e6;

struct simulated {
    struct perf_time time;
    struct perf_time_event events[PERF_TIME_SET];
    double next[PERF_TIME_SET]; /* when each event fires */
    uint64_t period[PERF_TIME_SET];
    uint64_t samples, hits[PARTS];
};

static void simulate_open(struct simulated *run, double rate, unsigned set_size, pid_t tid, uint64_t seed)
{
    uint64_t periods[PERF_TIME_SET];
    *run = (struct simulated){.time = {.rate_hz = rate, .random = seed, .set_size = set_size}};
    run->time.events = run->events;
    run->time.event_count = set_size;
    perf_time_periods(&run->time.random, rate, set_size, periods);
    for (unsigned i = 0; i < set_size; i++) {
        run->events[i] = (struct perf_time_event){.fd = -1, .id = i, .tid = tid, .period = periods[i]};
        run->period[i] = periods[i];
        run->next[i] = (double)(base_hash(seed + i) >> 11) * 0x1p-53 * (double)periods[i];
        assert_true(base_map_set(&run->time.event_of, i, i));
    }
    run->events[0].set_size = set_size;
}

/* What the kernel does with a period that it is given: it begins anew. */
static void simulate_step(struct simulated *run, double now)
{
    perf_time_redraw_due(&run->time, (uint64_t)now);
    for (unsigned i = 0; i < run->events[0].set_size; i++) {
        if (run->events[i].period == run->period[i])
            continue;
        run->period[i] = run->events[i].period;
        run->next[i] = now + (double)run->period[i];
    }
}

/* A session of `length` that works every `step`, while the program runs `used` of each millisecond. */
static void simulate(struct simulated *run, double length, double step, double used, bool draws_again)
{
    for (double begin = 0; begin < length; begin += step) {
        for (unsigned i = 0; i < run->events[0].set_size; i++) {
            for (; run->next[i] < begin + step; run->next[i] += (double)run->period[i]) {
                if (fmod(run->next[i], 1e6) >= used * 1e6)
                    continue; /* another process's */
                assert_true(perf_time_take(&run->time, TID, i));
                run->samples++;
                run->hits[(unsigned)(fmod(run->next[i], PROGRAM_NS) / PROGRAM_NS * PARTS) % PARTS]++;
            }
        }
        if (draws_again)
            simulate_step(run, begin + step);
    }
    base_map_free(&run->time.event_of);
}

/* The sum of squares that is distributed as chi squared of PARTS - 1 degrees when samples are independent. */
static double chi_squared(const struct simulated *run)
{
    double sum = 0, expected = (double)run->samples / PARTS;
    for (unsigned i = 0; i < PARTS; i++)
        sum += ((double)run->hits[i] - expected) * ((double)run->hits[i] - expected) / expected;
    return sum;
}

/* Of 1000 runs of 2 s, those whose samples are spread as unevenly as by chance in one of 10,000. */
static unsigned far_off(bool draws_again)
{
    static const double ONE_OF_TEN_THOUSAND = 33.72;
    unsigned far = 0;
    for (uint64_t seed = 0; seed < 1000; seed++) {
        struct simulated run;
        simulate_open(&run, 2000, PERF_TIME_SET, TID, base_hash(seed));
        simulate(&run, 2e9, STEP_NS, 1, draws_again);
        far += chi_squared(&run) > ONE_OF_TEN_THOUSAND;
    }
    return far;
}

static void a_bad_draw_spoils_no_run(void **state)
{
    (void)state;
    unsigned once = far_off(false), again = far_off(true);
    print_message("# %u of 1000 runs are far off with one draw, %u with many\n", once, again);
    assert_true(once > 10 && again <= 2);
}

/* What is forgotten of the old periods is made up for: for a thread, a CPU, and a CPU of which the program uses a
 * tenth. One event a thread keeps its period. */
static void the_rate_stays(void **state)
{
    (void)state;
    static const struct {
        unsigned set_size;
        pid_t tid;
        double used, tolerance;
    } of[] = {{PERF_TIME_SET, TID, 1, 0.005},
              {PERF_TIME_SET, -1, 1, 0.005},
              {PERF_TIME_SET, -1, 0.1, 0.015},
              {1, TID, 1, 0.04}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        double samples = 0, rate = 2000, seconds = 4;
        for (uint64_t seed = 0; seed < 400; seed++) {
            struct simulated run;
            simulate_open(&run, rate, of[i].set_size, of[i].tid, base_hash(seed));
            simulate(&run, seconds * 1e9, STEP_NS, of[i].used, true);
            samples += (double)run.samples / 400;
        }
        if (fabs(samples / (rate * seconds * of[i].used) - 1) > of[i].tolerance)
            fail_msg("%zu: %.0f samples", i, samples);
    }
}

/* Samples of inherited events do not count towards a draw; a thread that has events of its own beside them is
 * double, once. */
static void inherited_events_are_not_counted(void **state)
{
    (void)state;
    struct simulated run;
    simulate_open(&run, 2000, PERF_TIME_SET, TID, 1);
    for (int i = 0; i < 100; i++)
        assert_true(perf_time_take(&run.time, OTHER, 0));
    assert_int_equal(run.time.due_count, 0);
    assert_true(base_map_set(&run.time.opened, OTHER, 1));
    run.time.replaced = 1;
    assert_true(perf_time_take(&run.time, OTHER, 0));
    run.time.replaced = 0;
    assert_false(perf_time_take(&run.time, OTHER, 0));
    assert_true(perf_time_take(&run.time, OTHER, 0));
    assert_true(perf_time_take(&run.time, OTHER, 99)); /* an id that nobody opened */
    for (int i = 0; i < 32; i++)
        assert_true(perf_time_take(&run.time, TID, (uint64_t)i % 2));
    assert_int_equal(run.time.due_count, 1);
    uint64_t old = run.events[1].period;
    perf_time_redraw_due(&run.time, 0);
    assert_true(run.events[1].period != old);
    assert_int_equal(run.time.due_count, 0);
    base_map_free(&run.time.event_of);
    base_map_free(&run.time.opened);
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
        cmocka_unit_test(a_bad_draw_spoils_no_run),
        cmocka_unit_test(the_rate_stays),
        cmocka_unit_test(inherited_events_are_not_counted),
        cmocka_unit_test(rate_leaves_half_of_the_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
