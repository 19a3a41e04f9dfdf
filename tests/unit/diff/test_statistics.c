/* Intervals of differences hold the truth as often as they say, comparisons without a change raise no alarm,
 * and changes that are there are found. Simulated from fixed seeds; constants from published tables. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "diff_statistics.h"

/* --- chance --- */

static uint64_t next_random(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t x = *state;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static double uniform(uint64_t *state)
{
    return ((double)(next_random(state) >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(uint64_t *state)
{
    return sqrt(-2 * log(uniform(state))) * cos(2 * M_PI * uniform(state));
}

/* Exact: the sum of waiting times for small means, halves of the mean for large ones. */
static double poisson(uint64_t *state, double mean)
{
    double count = 0;
    for (; mean > 30; mean -= 30)
        for (double left = exp(-30.0), product = uniform(state); product > left; product *= uniform(state))
            count++;
    for (double left = exp(-mean), product = uniform(state); product > left; product *= uniform(state))
        count++;
    return count;
}

static double binomial(uint64_t *state, unsigned trials, double share)
{
    unsigned hits = 0;
    for (unsigned i = 0; i < trials; i++)
        hits += uniform(state) < share;
    return hits;
}

/* --- one run a side --- */

/* Newcombe's own example (his table II, method 10): 56/70 and 48/80 differ by 0.2, 0.0524 to 0.3339. */
static void published_example(void **state)
{
    (void)state;
    double probability;
    struct diff_range range = diff_statistics_shares(
        (struct diff_sampled_share){48.0 / 80, 80}, (struct diff_sampled_share){56.0 / 70, 70}, &probability);
    assert_true(fabs(range.value - 0.2) < 1e-12);
    assert_true(fabs(range.low - 0.0524) < 5e-5);
    assert_true(fabs(range.high - 0.3339) < 5e-5);
    assert_true(probability > 0.005 && probability < 0.05);
    /* 9/10 and 3/10: 0.6, 0.1705 to 0.8090. 0/10 and 0/20: 0, -0.1611 to 0.2775. */
    range = diff_statistics_shares((struct diff_sampled_share){0.3, 10}, (struct diff_sampled_share){0.9, 10},
                                   NULL);
    assert_true(fabs(range.low - 0.1705) < 5e-5 && fabs(range.high - 0.8090) < 5e-5);
    range = diff_statistics_shares((struct diff_sampled_share){0, 20}, (struct diff_sampled_share){0, 10},
                                   &probability);
    assert_true(fabs(range.low + 0.1611) < 5e-5 && fabs(range.high - 0.2775) < 5e-5);
    assert_true(probability == 1);
}

/* The probability belongs to the interval: below 5 % exactly when that does not hold zero. */
static void probability_and_interval_agree(void **state)
{
    (void)state;
    unsigned outside = 0;
    for (int old = 0; old <= 60; old += 3)
        for (int new = 0; new <= 60; new += 2) {
            double probability;
            struct diff_range range =
                diff_statistics_shares((struct diff_sampled_share){old / 300.0, 300},
                                       (struct diff_sampled_share){new / 500.0, 500}, &probability);
            assert_true(range.low <= range.value && range.value <= range.high);
            bool zero = range.low <= 0 && range.high >= 0;
            assert_int_equal(zero, probability >= 0.05);
            outside += !zero;
        }
    assert_true(outside > 100);
}

static double covered_shares(double old, unsigned olds, double new, unsigned news, unsigned times)
{
    uint64_t random = 20261121;
    unsigned held = 0;
    for (unsigned i = 0; i < times; i++) {
        struct diff_range range = diff_statistics_shares(
            (struct diff_sampled_share){binomial(&random, olds, old) / olds, olds},
            (struct diff_sampled_share){binomial(&random, news, new) / news, news}, NULL);
        held += range.low <= new - old &&new - old <= range.high;
    }
    return (double)held / times;
}

static void shares_are_covered(void **state)
{
    (void)state;
    static const double pairs[][2] = {{0.5, 0.5}, {0.1, 0.1}, {0.02, 0.03}, {0.3, 0.4}, {0.005, 0.01}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        double held = covered_shares(pairs[i][0], 400, pairs[i][1], 700, 4000);
        assert_true(held > 0.935 && held < 0.985);
    }
}

static void costs_are_covered(void **state)
{
    (void)state;
    static const double pairs[][2] = {{1000, 1100}, {40, 40}, {5, 9}, {200, 20}, {2, 2}};
    uint64_t random = 7;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        unsigned held = 0, times = 4000;
        double truth = pairs[i][1] * 0.5 - pairs[i][0]; /* the new side was sampled at twice the rate */
        for (unsigned k = 0; k < times; k++) {
            struct diff_range range =
                diff_statistics_costs((struct diff_sampled_cost){poisson(&random, pairs[i][0]), 1},
                                      (struct diff_sampled_cost){poisson(&random, pairs[i][1]), 0.5});
            held += range.low <= truth && truth <= range.high;
        }

        assert_true((double)held / times > 0.935 && (double)held / times < 0.99);
    }
}

/* --- many rows, nothing changed --- */

enum { ROWS = 250 };

/* Shares as programs have them: a few large ones, a long tail. */
static void zipf(double *shares)
{
    double sum = 0;
    for (int i = 0; i < ROWS; i++)
        sum += shares[i] = 1.0 / (i + 1);
    for (int i = 0; i < ROWS; i++)
        shares[i] /= sum;
}

/* Is any of the rows of two recordings called different? */
static bool alarm(uint64_t *random, const double *old, double olds, const double *new, double news,
                  bool *significant)
{
    double one[ROWS], two[ROWS], sums[2] = {0, 0}, probabilities[ROWS], least[ROWS];
    bool any = false;
    for (int i = 0; i < ROWS; i++) {
        sums[0] += one[i] = poisson(random, old[i] * olds);
        sums[1] += two[i] = poisson(random, new[i] * news);
    }
    for (int i = 0; i < ROWS; i++) {
        diff_statistics_shares((struct diff_sampled_share){one[i] / sums[0], sums[0]},
                               (struct diff_sampled_share){two[i] / sums[1], sums[1]}, &probabilities[i]);
        least[i] = diff_statistics_least(one[i] + two[i], fmin(sums[0], sums[1]) / (sums[0] + sums[1]));
    }
    assert_true(diff_statistics_holm(probabilities, least, ROWS, DIFF_STATISTICS_LEVEL, significant));
    for (int i = 0; i < ROWS; i++)
        any |= significant[i];
    return any;
}

static void no_change_no_alarm(void **state)
{
    (void)state;
    uint64_t random = 42;
    double shares[ROWS];
    bool significant[ROWS];
    unsigned alarms = 0, times = 1500;
    zipf(shares);
    for (unsigned i = 0; i < times; i++)
        alarms += alarm(&random, shares, 600, shares, i % 2 ? 600 : 1500, significant);
    assert_true(alarms <= 25); /* 15 expected at most; 26 by chance in one of 200 */
}

/* A function of half the time takes a tenth longer: found. */
static void a_change_is_found(void **state)
{
    (void)state;
    uint64_t random = 43;
    double old[ROWS] = {0.5, 0.2}, new[ROWS];
    bool significant[ROWS];
    unsigned found = 0, times = 200;
    for (int i = 2; i < ROWS; i++)
        old[i] = 0.3 / (ROWS - 2);
    for (int i = 0; i < ROWS; i++)
        new[i] = (i ? old[i] : 0.55) / 1.05;
    for (unsigned i = 0; i < times; i++) {
        alarm(&random, old, 30000, new, 30000, significant);
        found += significant[0];
    }
    assert_true(found > 180);
}

/* Holm's own steps: 0.001 <= 0.05/4, 0.013 <= 0.05/3, 0.03 > 0.05/2. Simple Bonferroni would stop at the
 * second. */
static void holm_steps_down(void **state)
{
    (void)state;
    const double probabilities[] = {0.03, 0.001, 0.4, 0.013};
    bool significant[4];
    assert_true(diff_statistics_holm(probabilities, NULL, 4, 0.05, significant));
    assert_false(significant[0] || significant[2]);
    assert_true(significant[1] && significant[3]);
    /* A row that could not be called leaves more to the others, and is never called itself. */
    const double close[] = {0.02, 0.5, 0.0001, 0.6}, able[] = {0, 0.9, 0, 0.9}, none[] = {0, 0.9, 0.9, 0.9};
    assert_true(diff_statistics_holm(close, NULL, 4, 0.05, significant));
    assert_true(!significant[0] && significant[2]);
    assert_true(diff_statistics_holm(close, able, 4, 0.05, significant));
    assert_true(significant[0] && significant[2] && !significant[1]);
    assert_true(diff_statistics_holm(close, none, 4, 0.05, significant));
    assert_true(significant[0] && !significant[2]);
    assert_true(diff_statistics_holm(NULL, NULL, 0, 0.05, NULL));
}

/* --- several runs --- */

/* t quantiles: 12.706 of one degree, 2.776 of four, 2.228 of ten. */
static void student(void **state)
{
    (void)state;
    const double left[] = {-1, 1}, right[] = {9, 9.000001};
    double probability;
    struct diff_range range = diff_statistics_runs(&(struct diff_runs){left, 2, 0}, NULL,
                                                   &(struct diff_runs){right, 2, 0}, NULL, &probability);
    /* The spread of the second side is nothing beside the first's: one degree, deviation sqrt(2 / 2) = 1. */
    assert_true(fabs(range.value - 9.0000005) < 1e-9);
    assert_true(fabs(range.high - range.value - 12.706) < 1e-3);
    assert_true(fabs(probability - 0.0704466) < 1e-5); /* 2 * (1/2 - atan(9)/pi) */
    const double a[] = {1, 2, 3}, b[] = {5, 6, 7};
    range = diff_statistics_runs(&(struct diff_runs){a, 3, 0}, NULL, &(struct diff_runs){b, 3, 0}, NULL,
                                 &probability);
    assert_true(fabs((range.high - range.value) / sqrt(2.0 / 3) - 2.776445) < 1e-5);
    assert_true(fabs(probability - 0.0080499) < 1e-6); /* t = 4.89898, 4 degrees */
}

static void equal_runs(void **state)
{
    (void)state;
    const double a[] = {5, 5, 5}, b[] = {7, 7};
    double probability;
    struct diff_range range = diff_statistics_runs(&(struct diff_runs){a, 3, 0}, NULL,
                                                   &(struct diff_runs){b, 2, 0}, NULL, &probability);
    assert_true(range.low == 2 && range.high == 2 && probability == 0);
    range = diff_statistics_runs(&(struct diff_runs){a, 3, 0}, NULL, &(struct diff_runs){a, 1, 0}, NULL,
                                 &probability);
    assert_true(range.value == 0 && probability == 1);
    /* Equal by chance: the noise of sampling remains. */
    range = diff_statistics_runs(&(struct diff_runs){a, 3, 3}, NULL, &(struct diff_runs){b, 2, 2}, NULL,
                                 &probability);
    assert_true(range.low < 0 && probability > 0.1);
}

/* Where rows agree, their common spread is found and worth much; where they do not, it is worth little. */
static void spread_is_learnt(void **state)
{
    (void)state;
    uint64_t random = 5;
    double ratios[400];
    for (int wild = 0; wild < 2; wild++) {
        for (int i = 0; i < 400; i++) {
            double values[4], scale = wild ? exp(1.5 * normal(&random)) : 1;
            for (int k = 0; k < 4; k++)
                values[k] = sqrt(3 * scale) * normal(&random);
            ratios[i] = diff_statistics_variance(values, 4);
        }
        struct diff_spread spread = diff_statistics_spread(ratios, 400, 4);
        if (wild)
            assert_true(spread.degrees > 0.5 && spread.degrees < 4);
        else
            assert_true(spread.degrees > 20 && fabs(spread.ratio - 3) < 0.5);
    }
    assert_true(diff_statistics_spread(ratios, 3, 4).degrees == 0);
    assert_true(diff_statistics_spread(ratios, 400, 1).degrees == 0);
}

struct side {
    double values[ROWS][5];
    double noise[ROWS];
    struct diff_spread spread;
};

/* Runs whose shares vary from run to run beyond sampling, each row by `extra` of itself. */
static void record(uint64_t *random, const double *shares, size_t runs, double extra, struct side *side)
{
    double ratios[ROWS], n = 3000;
    size_t fair = 0;
    for (int i = 0; i < ROWS; i++) {
        for (size_t k = 0; k < runs; k++)
            side->values[i][k] = poisson(random, n * shares[i] * exp(extra * normal(random))) / n;
        double mean = diff_statistics_mean(side->values[i], runs);
        side->noise[i] = (mean * n + 2) / (n * n);
        if (mean * n >= 5)
            ratios[fair++] = diff_statistics_variance(side->values[i], runs) / side->noise[i];
    }
    side->spread = diff_statistics_spread(ratios, fair, runs);
}

static void runs_without_a_change(void **state)
{
    (void)state;
    uint64_t random = 99;
    double shares[ROWS], probabilities[ROWS];
    bool significant[ROWS];
    unsigned alarms = 0, held = 0, looked = 0, times = 400;
    static struct side old, new;
    zipf(shares);
    for (unsigned i = 0; i < times; i++) {
        size_t runs = 3 + i % 3;
        record(&random, shares, runs, 0.05, &old);
        record(&random, shares, runs, 0.05, &new);
        bool any = false;
        for (int row = 0; row < ROWS; row++) {
            struct diff_range range = diff_statistics_runs(
                &(struct diff_runs){old.values[row], runs, old.noise[row]}, &old.spread,
                &(struct diff_runs){new.values[row], runs, new.noise[row]}, &new.spread, &probabilities[row]);
            looked += row < 20;
            held += row < 20 && range.low <= 0 && range.high >= 0;
        }
        assert_true(diff_statistics_holm(probabilities, NULL, ROWS, DIFF_STATISTICS_LEVEL, significant));
        for (int row = 0; row < ROWS; row++)
            any |= significant[row];
        alarms += any;
    }
    print_message("# runs: %u alarms of %u, %.3f covered\n", alarms, times, (double)held / looked);
    assert_true(alarms <= 12);
    assert_true((double)held / looked > 0.93 && (double)held / looked < 0.99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_example),
        cmocka_unit_test(probability_and_interval_agree),
        cmocka_unit_test(shares_are_covered),
        cmocka_unit_test(costs_are_covered),
        cmocka_unit_test(no_change_no_alarm),
        cmocka_unit_test(a_change_is_found),
        cmocka_unit_test(holm_steps_down),
        cmocka_unit_test(student),
        cmocka_unit_test(equal_runs),
        cmocka_unit_test(spread_is_learnt),
        cmocka_unit_test(runs_without_a_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
