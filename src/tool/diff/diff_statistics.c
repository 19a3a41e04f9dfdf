#include "diff_statistics.h"

#include <math.h>
#include <stdlib.h>

static const double Z_95 = 1.959963984540054; /* 97.5 % quantile of the normal distribution */

/* --- one run a side --- */

/* Wilson's interval at any z. Of no samples: everything. */
static struct diff_range wilson(struct diff_sampled_share of, double z)
{
    double p = fmin(fmax(of.share, 0), 1), n = of.samples, square = z * z;
    if (!(n > 0))
        return (struct diff_range){p, 0, 1};
    double centre = (p + square / (2 * n)) / (1 + square / n);
    double half = z / (1 + square / n) * sqrt(p * (1 - p) / n + square / (4 * n * n));
    return (struct diff_range){p, fmax(fmin(centre - half, p), 0), fmin(fmax(centre + half, p), 1)};
}

/* Rao's score interval of a Poisson mean. */
static struct diff_range count_range(double count, double z)
{
    double square = z * z, half = z * sqrt(count + square / 4);
    return (struct diff_range){count, fmax(count + square / 2 - half, 0), count + square / 2 + half};
}

/* The difference of two quantities that have intervals: each end is as far from the difference as the two
 * ends that pull it that way, taken as the legs of a right angle. */
static struct diff_range subtract_ranges(struct diff_range before, struct diff_range after)
{
    double value = after.value - before.value;
    return (struct diff_range){value, value - hypot(after.value - after.low, before.high - before.value),
                               value + hypot(after.high - after.value, before.value - before.low)};
}

/* The z at which the interval reaches zero, by bisection. */
static double find_z_score(struct diff_sampled_share before, struct diff_sampled_share after)
{
    double low = 0, high = 40;
    for (int i = 0; i < 60; i++) {
        double z = (low + high) / 2;
        struct diff_range range = subtract_ranges(wilson(before, z), wilson(after, z));
        if (range.low > 0 || range.high < 0)
            low = z;
        else
            high = z;
    }
    return low;
}

struct diff_range diff_statistics_shares(struct diff_sampled_share before, struct diff_sampled_share after,
                                         double *probability)
{
    if (probability)
        *probability = before.share == after.share ? 1 : erfc(find_z_score(before, after) * M_SQRT1_2);
    return subtract_ranges(wilson(before, Z_95), wilson(after, Z_95));
}

static struct diff_range scale_range(struct diff_range range, double factor)
{
    return (struct diff_range){range.value * factor, range.low * factor, range.high * factor};
}

struct diff_range diff_statistics_costs(struct diff_sampled_cost before, struct diff_sampled_cost after)
{
    return subtract_ranges(scale_range(count_range(before.samples, Z_95), before.weight),
                           scale_range(count_range(after.samples, Z_95), after.weight));
}

/* --- Student's distribution --- */

/* The continued fraction of the incomplete beta function by Lentz's method: NIST DLMF 8.17.22. */
static double beta_fraction(double a, double b, double x)
{
    static const double TINY = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < TINY ? TINY : d);
    double value = d;
    for (int m = 1; m < 400; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        for (int step = 0; step < 2; step++) {
            double term = step ? odd : even;
            d = 1 + term * d;
            c = 1 + term / c;
            d = 1 / (fabs(d) < TINY ? TINY : d);
            c = fabs(c) < TINY ? TINY : c;
            value *= c * d;
        }
        if (fabs(c * d - 1) < 1e-14)
            break;
    }
    return value;
}

/* lgamma writes a global; this does not. */
static double log_gamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

static double incomplete_beta(double a, double b, double x)
{
    if (x <= 0 || x >= 1)
        return x >= 1;
    double front = exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2))
        return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

enum { NEARLY_NORMAL = 100000 }; /* degrees from which on Student's distribution is the normal one */

/* Both tails beyond t. */
static double student_tails(double t, double degrees)
{
    if (degrees > NEARLY_NORMAL)
        return erfc(fabs(t) * M_SQRT1_2);
    return incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t));
}

/* The t whose tails hold 5 %. */
static double student_95(double degrees)
{
    double low = 1.9, high = 1e4;
    for (int i = 0; i < 60; i++) {
        double t = (low + high) / 2;
        *(student_tails(t, degrees) > 0.05 ? &low : &high) = t;
    }
    return low;
}

/* --- several runs --- */

double diff_statistics_mean(const double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return count ? sum / (double)count : 0;
}

double diff_statistics_variance(const double *values, size_t count)
{
    double mean = diff_statistics_mean(values, count), squares = 0;
    for (size_t i = 0; i < count; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    return count > 1 ? squares / (double)(count - 1) : 0;
}

/* The logarithmic derivatives of the gamma function, by recurrence up to where their asymptotic series
 * (Abramowitz and Stegun 6.3.18, 6.4.12) is exact. */
static double digamma(double x)
{
    double sum = 0;
    for (; x < 12; x++)
        sum -= 1 / x;
    double square = 1 / (x * x);
    return sum + log(x) - 1 / (2 * x) - square * (1.0 / 12 - square * (1.0 / 120 - square / 252));
}

static double trigamma(double x)
{
    double sum = 0;
    for (; x < 12; x++)
        sum += 1 / (x * x);
    double square = 1 / (x * x);
    return sum + 1 / x + square / 2 +
           square / x * (1.0 / 6 - square * (1.0 / 30 - square * (1.0 / 42 - square / 30)));
}

/* trigamma falls from infinity to zero: bisection on a logarithmic scale. */
static double trigamma_inverse(double y)
{
    double low = -20, high = 20;
    for (int i = 0; i < 80; i++) {
        double middle = (low + high) / 2;
        *(trigamma(exp(middle)) > y ? &low : &high) = middle;
    }
    return exp(low);
}

enum { FEWEST_ROWS = 5, SURE = 1000000 };

/* Smyth's fit (section 6.2): the ratios are taken for scaled F variables, whose logarithms have a known mean
 * and variance. */
struct diff_spread diff_statistics_spread(const double *ratios, size_t count, size_t runs)
{
    struct diff_spread none = {0, 0};
    if (count < FEWEST_ROWS || runs < 2)
        return none;
    double half = (double)(runs - 1) / 2, shift = log(half) - digamma(half), mean = 0, squares = 0;
    for (size_t i = 0; i < count; i++)
        mean += log(fmax(ratios[i], 1e-6)) + shift;
    mean /= (double)count;
    for (size_t i = 0; i < count; i++) {
        double deviation = log(fmax(ratios[i], 1e-6)) + shift - mean;
        squares += deviation * deviation;
    }
    double excess = squares / (double)(count - 1) - trigamma(half);
    if (excess <= 0) /* the rows agree as well as they would by chance */
        return (struct diff_spread){exp(mean), SURE};
    double degrees = fmin(2 * trigamma_inverse(excess), SURE);
    return (struct diff_spread){exp(mean + digamma(degrees / 2) - log(degrees / 2)), degrees};
}

struct estimate {
    double variance, degrees; /* of one run */
};

static struct estimate estimate_of(const struct diff_runs *runs, const struct diff_spread *spread)
{
    double variance = diff_statistics_variance(runs->values, runs->count), degrees = (double)runs->count - 1;
    if (!(runs->noise > 0))
        return (struct estimate){variance, degrees};
    double ratio = variance / runs->noise;
    if (spread && spread->degrees > 0) {
        ratio = (spread->degrees * spread->ratio + degrees * ratio) / (spread->degrees + degrees);
        degrees += spread->degrees;
    }
    return (struct estimate){fmax(ratio, 1) * runs->noise, degrees};
}

/* As the other side varies: by as many times what sampling gives here. */
static struct estimate borrow_estimate(const struct diff_runs *runs, const struct diff_runs *other,
                                       struct estimate others)
{
    double factor = runs->noise > 0 && other->noise > 0 ? runs->noise / other->noise : 1;
    return (struct estimate){others.variance * factor, others.degrees};
}

struct diff_range diff_statistics_runs(const struct diff_runs *before,
                                       const struct diff_spread *before_spread, const struct diff_runs *after,
                                       const struct diff_spread *after_spread, double *probability)
{
    struct estimate old = estimate_of(before, before_spread), new = estimate_of(after, after_spread);
    if (before->count < 2)
        old = borrow_estimate(before, after, new);
    if (after->count < 2)
        new = borrow_estimate(after, before, old);
    double value = diff_statistics_mean(after->values, after->count) -
                   diff_statistics_mean(before->values, before->count);
    double one = old.variance / (double)before->count, two = new.variance / (double)after->count;
    if (!(one + two > 0)) {
        if (probability)
            *probability = value == 0;
        return (struct diff_range){value, value, value};
    }
    double degrees = (one + two) * (one + two) / (one * one / old.degrees + two * two / new.degrees);
    double deviation = sqrt(one + two), half = student_95(degrees) * deviation;
    if (probability)
        *probability = student_tails(value / deviation, degrees);
    return (struct diff_range){value, value - half, value + half};
}

/* --- many rows --- */

double diff_statistics_least(double samples, double fraction)
{
    return fmin(2 * pow(fmin(fmax(fraction, 0), 0.5), samples), 1);
}

struct ranked {
    double probability;
    size_t row;
};

static int by_probability(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->probability != y->probability)
        return x->probability < y->probability ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The size of the family: the smallest k such that at most k rows could be called at level / k. */
static size_t family_of(double *least, size_t count, double level)
{
    size_t able = count, k = 1;
    qsort(least, count, sizeof *least, compare_doubles);
    for (; k < count; k++) {
        while (able && least[able - 1] > level / (double)k)
            able--;
        if (able <= k)
            break;
    }
    return k;
}

bool diff_statistics_holm(const double *probabilities, const double *least, size_t count, double level,
                          bool *significant)
{
    struct ranked *ranked = calloc(count + 1, sizeof *ranked);
    double *sorted = calloc(count + 1, sizeof *sorted);
    if (!ranked || !sorted) {
        free(ranked);
        free(sorted);
        return false;
    }
    for (size_t i = 0; i < count; i++)
        sorted[i] = least ? least[i] : 0;
    size_t family = family_of(sorted, count, level), kept = 0;
    for (size_t i = 0; i < count; i++) {
        significant[i] = false;
        if (!least || least[i] <= level / (double)family)
            ranked[kept++] = (struct ranked){probabilities[i], i};
    }
    qsort(ranked, kept, sizeof *ranked, by_probability);
    for (size_t i = 0; i < kept && ranked[i].probability <= level / (double)(family - i); i++)
        significant[ranked[i].row] = true;
    free(ranked);
    free(sorted);
    return true;
}
