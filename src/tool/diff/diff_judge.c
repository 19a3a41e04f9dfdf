/* diff_judge.c - changes, how sure they are, and what to call them. */
#include <math.h>
#include <stdlib.h>

#include "diff_rows.h"

enum { FAIR_SAMPLES = 5 }; /* from here on a row's spread says something about the spread of rows */

struct judge {
    struct diff *diff;
    double *shares, *costs; /* of one row, by run */
    double weight[2];       /* of each side: what one sample of evidence stands for, on average */
    struct diff_spread share_spread[2];
};

const char *diff_verdict(enum diff_verdict verdict)
{
    static const char *const words[] = {"same",         "within noise",  "more",
                                        "less",         "new",           "gone",
                                        "larger share", "smaller share", "not deterministic"};
    return words[verdict];
}

bool diff_fails(const struct diff *diff, const struct diff_row *row)
{
    double limit = diff->options->fail_above;
    return limit >= 0 && (row->verdict == DIFF_CHANGE_MORE || row->verdict == DIFF_CHANGE_NEW) &&
           diff_percent(row) > limit;
}

static size_t side_begin(const struct diff *diff, int side)
{
    return side ? diff->old_count : 0;
}

static size_t side_count(const struct diff *diff, int side)
{
    return side ? diff->run_count - diff->old_count : diff->old_count;
}

static const struct view_figure *figure_of(const struct diff *diff, const struct diff_row *row, size_t run)
{
    return row == &diff->sum ? &diff->whole[run]
                             : &diff->figures[(size_t)(row - diff->rows) * diff->run_count + run];
}

/* Samples of evidence: those of equal weight that are worth as much. */
static double evidence_samples(const struct diff *diff, const struct view_figure *figure, size_t run)
{
    double samples = (double)diff->whole[run].samples;
    return samples > 0 ? (double)figure->samples * diff->effective[run] / samples : 0;
}

/* --- figures of a row --- */

static void judge_fill(struct judge *judge, struct diff_row *row)
{
    struct diff *diff = judge->diff;
    row->old_samples = row->new_samples = 0;
    for (size_t run = 0; run < diff->run_count; run++) {
        const struct view_figure *figure = figure_of(diff, row, run);
        double whole = (double)diff->whole[run].value;
        judge->costs[run] = (double)figure->value;
        judge->shares[run] = whole > 0 ? (double)figure->value / whole : 0;
        *(run < diff->old_count ? &row->old_samples : &row->new_samples) += figure->samples;
    }
    size_t old = diff->old_count, new = diff->run_count - old;
    row->old_cost = diff_statistics_mean(judge->costs, old);
    row->new_cost = diff_statistics_mean(judge->costs + old, new);
    row->old_share = diff_statistics_mean(judge->shares, old);
    row->new_share = diff_statistics_mean(judge->shares + old, new);
    row->probability = NAN;
}

/* --- one run a side --- */

static struct diff_sampled_cost cost_of(const struct judge *judge, const struct diff_row *row, size_t run)
{
    const struct view_figure *figure = figure_of(judge->diff, row, run);
    double samples = evidence_samples(judge->diff, figure, run);
    return (struct diff_sampled_cost){samples,
                                      samples > 0 ? (double)figure->value / samples : judge->weight[run]};
}

static void compare_two(struct judge *judge, struct diff_row *row)
{
    const struct diff *diff = judge->diff;
    row->cost = diff_statistics_costs(cost_of(judge, row, 0), cost_of(judge, row, 1));
    row->share = diff_statistics_shares((struct diff_sampled_share){row->old_share, diff->effective[0]},
                                        (struct diff_sampled_share){row->new_share, diff->effective[1]},
                                        &row->probability);
}

/* --- several --- */

/* The variance that sampling gives a run's share (the estimate of A. Agresti and B. A. Coull, Am. Stat. 52,
 * 1998: two more hits and misses, so that nothing seen is not taken for nothing there). */
static double share_noise(const struct judge *judge, const struct diff_row *row, int side)
{
    const struct diff *diff = judge->diff;
    size_t begin = side_begin(diff, side), count = side_count(diff, side);
    double sum = 0, share = side ? row->new_share : row->old_share;
    for (size_t run = begin; run < begin + count; run++) {
        double n = diff->effective[run], p = (share * n + 2) / (n + 4);
        sum += p * (1 - p) / n;
    }
    return sum / (double)count;
}

static double cost_noise(const struct judge *judge, const struct diff_row *row, int side)
{
    const struct diff *diff = judge->diff;
    double cost = side ? row->new_cost : row->old_cost, weight = judge->weight[side];
    return diff->exact ? 0 : weight * (cost + 2 * weight);
}

static struct diff_range compare_runs(const struct judge *judge, const double *values, double old_noise,
                                      double new_noise, const struct diff_spread *spread, double *probability)
{
    size_t old = judge->diff->old_count;
    struct diff_runs before = {values, old, old_noise},
                     after = {values + old, judge->diff->run_count - old, new_noise};
    return diff_statistics_runs(&before, spread ? &spread[0] : NULL, &after, spread ? &spread[1] : NULL,
                                probability);
}

static void compare_several(struct judge *judge, struct diff_row *row)
{
    row->cost =
        compare_runs(judge, judge->costs, cost_noise(judge, row, 0), cost_noise(judge, row, 1), NULL, NULL);
    row->share = compare_runs(judge, judge->shares, share_noise(judge, row, 0), share_noise(judge, row, 1),
                              judge->share_spread, &row->probability);
}

/* What the rows of a side say together of how runs vary. */
static bool learn_spread(struct judge *judge, int side)
{
    struct diff *diff = judge->diff;
    size_t begin = side_begin(diff, side), count = side_count(diff, side), rows = 0;
    double *ratios = calloc(diff->row_count + 1, sizeof *ratios);
    if (!ratios)
        return false;
    for (size_t i = 1; i < diff->row_count; i++) {
        struct diff_row *row = &diff->rows[i];
        if (!row->listed)
            continue;
        judge_fill(judge, row);
        uint64_t samples = side ? row->new_samples : row->old_samples;
        if (samples >= FAIR_SAMPLES * count)
            ratios[rows++] =
                diff_statistics_variance(judge->shares + begin, count) / share_noise(judge, row, side);
    }
    judge->share_spread[side] = diff_statistics_spread(ratios, rows, count);
    free(ratios);
    return true;
}

/* --- exact figures --- */

static bool has_varying_costs(const struct judge *judge, int side)
{
    size_t begin = side_begin(judge->diff, side), count = side_count(judge->diff, side);
    for (size_t run = begin + 1; run < begin + count; run++)
        if (judge->costs[run] != judge->costs[begin])
            return true;
    return false;
}

static void compare_exact(struct judge *judge, struct diff_row *row)
{
    const struct diff *diff = judge->diff;
    double change = row->new_cost - row->old_cost, share = row->new_share - row->old_share;
    row->cost = (struct diff_range){change, change, change};
    row->share = (struct diff_range){share, share, share};
    row->varies = has_varying_costs(judge, 0) || has_varying_costs(judge, 1);
    row->significant = !row->varies && change != 0;
    if (row->varies && side_count(diff, 0) > 1 && side_count(diff, 1) > 1)
        row->cost = compare_runs(judge, judge->costs, 0, 0, NULL, &row->probability);
}

/* --- verdicts --- */

static enum diff_verdict verdict_of(const struct diff *diff, const struct diff_row *row)
{
    if (!row->significant)
        return row->varies ? DIFF_CHANGE_VARIES : diff->exact ? DIFF_CHANGE_NONE : DIFF_CHANGE_NOISE;
    if (!(row->old_cost > 0) || !(row->new_cost > 0))
        return row->new_cost > row->old_cost ? DIFF_CHANGE_NEW : DIFF_CHANGE_GONE;
    if (diff->exact || row == &diff->sum)
        return row->cost.value > 0 ? DIFF_CHANGE_MORE : DIFF_CHANGE_LESS;
    if (row->share.value > 0)
        return row->cost.low > 0 ? DIFF_CHANGE_MORE : DIFF_CHANGE_LARGER_SHARE;
    return row->cost.high < 0 ? DIFF_CHANGE_LESS : DIFF_CHANGE_SMALLER_SHARE;
}

/* The smaller side's part of all samples. */
static double smaller_fraction(const struct diff *diff)
{
    double sides[2] = {0, 0};
    for (size_t run = 0; run < diff->run_count; run++)
        sides[run >= diff->old_count] += diff->effective[run];
    return fmin(sides[0], sides[1]) / fmax(sides[0] + sides[1], 1);
}

/* The rows that have a probability are one family. */
static bool test_together(struct diff *diff)
{
    size_t count = 0;
    double *probabilities = calloc(diff->row_count + 1, sizeof *probabilities),
           *least = calloc(diff->row_count + 1, sizeof *least), fraction = smaller_fraction(diff);
    uint32_t *rows = calloc(diff->row_count + 1, sizeof *rows);
    bool *significant = calloc(diff->row_count + 1, sizeof *significant);
    bool done = probabilities && least && rows && significant;
    for (uint32_t i = 1; done && i < diff->row_count; i++) {
        const struct diff_row *row = &diff->rows[i];
        if (!row->listed || isnan(row->probability))
            continue;
        probabilities[count] = row->probability;
        least[count] =
            diff->exact ? 0 : diff_statistics_least((double)(row->old_samples + row->new_samples), fraction);
        rows[count++] = i;
    }
    done = done && diff_statistics_holm(probabilities, least, count, DIFF_STATISTICS_LEVEL, significant);
    for (size_t i = 0; done && i < count; i++)
        diff->rows[rows[i]].significant = significant[i];
    free(probabilities);
    free(least);
    free(rows);
    free(significant);
    return done;
}

/* --- all of it --- */

static void judge_row(struct judge *judge, struct diff_row *row)
{
    judge_fill(judge, row);
    if (judge->diff->exact)
        compare_exact(judge, row);
    else if (diff_several(judge->diff))
        compare_several(judge, row);
    else
        compare_two(judge, row);
}

/* On its cost, and only where several runs tell how that varies. */
static void judge_sum(struct judge *judge)
{
    struct diff *diff = judge->diff;
    struct diff_row *sum = &diff->sum;
    judge_row(judge, sum);
    if (diff->exact) {
        sum->significant |= sum->varies && sum->probability <= DIFF_STATISTICS_LEVEL;
    } else {
        sum->probability = NAN;
        if (diff_several(diff))
            sum->cost = compare_runs(judge, judge->costs, cost_noise(judge, sum, 0),
                                     cost_noise(judge, sum, 1), NULL, &sum->probability);
        sum->significant = sum->probability <= DIFF_STATISTICS_LEVEL;
    }
    sum->verdict = verdict_of(diff, sum);
}

static void judge_weigh(struct judge *judge)
{
    struct diff *diff = judge->diff;
    double values[2] = {0, 0}, samples[2] = {0, 0};
    for (size_t run = 0; run < diff->run_count; run++) {
        values[run >= diff->old_count] += (double)diff->whole[run].value;
        samples[run >= diff->old_count] += diff->effective[run];
    }
    for (int side = 0; side < 2; side++)
        judge->weight[side] = samples[side] > 0 ? values[side] / samples[side] : 0;
}

int diff_judge(struct diff *diff)
{
    struct judge judge = {.diff = diff,
                          .shares = calloc(diff->run_count, sizeof *judge.shares),
                          .costs = calloc(diff->run_count, sizeof *judge.costs)};
    bool done = judge.shares && judge.costs;
    judge_weigh(&judge);
    if (done && !diff->exact && diff_several(diff))
        done = learn_spread(&judge, 0) && learn_spread(&judge, 1);
    for (size_t i = 1; done && i < diff->row_count; i++)
        if (diff->rows[i].listed)
            judge_row(&judge, &diff->rows[i]);
    done = done && test_together(diff);
    for (size_t i = 1; done && i < diff->row_count; i++) {
        struct diff_row *row = &diff->rows[i];
        row->verdict = verdict_of(diff, row);
        diff->listed += row->listed;
        diff->changed += row->listed && row->significant;
    }
    if (done)
        judge_sum(&judge);
    free(judge.shares);
    free(judge.costs);
    return done ? 0 : diff_memory(diff);
}
