/* diff_statistics.h - how much two measurements differ, and how sure that is: the arithmetic of `tally
 * diff`.
 *
 * One recording a side. A share of n samples is binomial, a cost a Poisson count times what a sample stands
 * for. The interval of a difference is put together from the intervals of its sides, each at its own end: the
 * score interval of Wilson for shares and that of Rao for counts. It keeps its 95 % for rare functions and
 * for none at all, where "estimate plus or minus two deviations" does not. A probability comes out of the
 * same construction: of the widest interval that does not hold zero.
 *
 * Several recordings a side. Runs of a program differ by more than sampling (clock, caches, placement), and
 * by how much only the runs themselves can tell: means of runs are compared by Welch's test. Three or five
 * runs tell the spread of one function badly, and hundreds of functions are looked at; so each spread, in
 * units of what sampling alone gives, is shrunk towards what all functions of that side show, by as much as
 * they agree (empirical Bayes). No spread is taken for less than that of sampling.
 *
 * Many functions. With 300 rows, 15 would lie outside their 95 % by chance. Holm's step-down holds the
 * probability of any false alarm in a whole comparison below DIFF_STATISTICS_LEVEL however the rows depend
 * on each other, as shares do that add up to one, and however many rows really changed. (Benjamini and
 * Hochberg's procedure bounds the share of false alarms among those raised instead: a gate with nine true
 * alarms would be allowed to name an unchanged function too; and for the first alarm it asks for the same
 * evidence as Holm's.) Rows that could not reach significance even if all their samples lay on one side are
 * no part of the family (Tarone).
 *
 * Sources: R. G. Newcombe, Interval estimation for the difference between independent proportions, Stat. Med.
 * 17 (1998), method 10; G. Zou and A. Donner, Construction of confidence limits about effect measures, Stat.
 * Med. 27 (2008); E. B. Wilson (1927); L. Barker, A comparison of nine confidence intervals for a Poisson
 * parameter, Am. Stat. 56 (2002); B. L. Welch, Biometrika 34 (1947); G. K. Smyth, Linear models and empirical
 * Bayes methods, Stat. Appl. Genet. Mol. Biol. 3 (2004); S. Holm, Scand. J. Statist. 6 (1979); R. E. Tarone,
 * Biometrics 46 (1990). Context: anywhere in the tool; no state. */
#ifndef DIFF_STATISTICS_H
#define DIFF_STATISTICS_H

#include <stdbool.h>
#include <stddef.h>

/* Of any false alarm in one comparison. Smaller than the 5 % that "nothing in 19 of 20" asks for: one run a
 * side does not tell how much shares vary from run to run beyond sampling. */
#define DIFF_STATISTICS_LEVEL 0.01

/* A change and the ends of its 95 % interval, which always holds it. */
struct diff_range {
    double value, low, high;
};

/* --- one run a side --- */

struct diff_sampled_share {
    double share, samples; /* 0..1, of so many */
};

/* new - old. *probability (NULL: not wanted): of a change at least as large where there is none. */
struct diff_range diff_statistics_shares(struct diff_sampled_share before, struct diff_sampled_share after,
                                         double *probability);

struct diff_sampled_cost {
    double samples, weight; /* the cost is their product */
};

/* new - old, in the unit of the weights. */
struct diff_range diff_statistics_costs(struct diff_sampled_cost before, struct diff_sampled_cost after);

/* --- several runs on at least one side --- */

struct diff_runs {
    const double *values; /* one a run */
    size_t count;
    double noise; /* the variance that sampling alone gives one of them; 0: exact */
};

/* What the spreads of all rows of a side have in common: variance in units of the noise, and how much that is
 * worth, in degrees of freedom; 0: nothing. */
struct diff_spread {
    double ratio, degrees;
};

/* `ratios`: of each row that has a fair number of samples, the variance of its `runs` values divided by its
 * noise. */
struct diff_spread diff_statistics_spread(const double *ratios, size_t count, size_t runs);

/* new - old, of the means. A side of one run is taken to vary as the other does; one of them has two runs or
 * more. */
struct diff_range diff_statistics_runs(const struct diff_runs *before,
                                       const struct diff_spread *before_spread, const struct diff_runs *after,
                                       const struct diff_spread *after_spread, double *probability);

double diff_statistics_mean(const double *values, size_t count);
double diff_statistics_variance(const double *values, size_t count); /* 0 for one value */

/* --- many rows --- */

/* The least probability that a row of so many samples on both sides together could show, `fraction` of all
 * samples being on the smaller side. */
double diff_statistics_least(double samples, double fraction);

/* Which rows differ. `least` may be NULL: every row can. False when memory ran out. */
bool diff_statistics_holm(const double *probabilities, const double *least, size_t count, double level,
                          bool *significant);

#endif
