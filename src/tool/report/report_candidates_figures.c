/* report_candidates_figures.c - the arithmetic of candidates. */
#include "report_candidates_inside.h"

#include <math.h>
#include <stdlib.h>

#define ROOT_SHARE 0.95 /* of the time: what is left could not make the program a tenth faster */

/* 1/K for N calls. */
static double remaining_share(const struct report_assumption *assumption, uint64_t calls)
{
    if (!assumption->parallel)
        return assumption->speedup > 0 ? 1 / assumption->speedup : 0;
    uint64_t threads = calls && calls < assumption->parallel ? calls : assumption->parallel;
    return 1 / (double)threads;
}

static double bound_of(double share, double remains, double cost)
{
    double left = 1 - share + share * remains + cost;
    return left > 1e-12 ? 1 / left : INFINITY;
}

struct report_bound report_candidates_bound(const struct report_assumption *assumption,
                                            const struct view_share *share, double whole_ns, uint64_t calls)
{
    double remains = remaining_share(assumption, calls);
    double cost = whole_ns > 0 ? (double)calls * assumption->invoke_ns / whole_ns : 0;
    double low = bound_of(share->low, remains, cost), high = bound_of(share->high, remains, cost);
    /* What runs slower elsewhere (K below 1) turns the ends round. */
    return (struct report_bound){bound_of(share->share, remains, cost), fmin(low, high), fmax(low, high)};
}

double report_candidates_break_even(const struct report_assumption *assumption, double call_ns,
                                    uint64_t calls)
{
    return call_ns * (1 - remaining_share(assumption, calls));
}

enum report_verdict report_candidates_verdict(const struct report_bound *bound)
{
    if (bound->low >= 1 - 1e-9)
        return REPORT_GAINS;
    return bound->high < 1 ? REPORT_COSTS : REPORT_MAY_COST;
}

struct view_mean candidates_mean(const struct candidates *self, const struct candidate *candidate)
{
    return view_calls_mean(&self->context->selection, &candidate->total, candidate->entering);
}

struct view_mean candidates_break_even(const struct candidates *self, const struct candidate *candidate)
{
    const struct report_assumption *assumption = &self->assumption;
    struct view_mean mean = candidates_mean(self, candidate);
    uint64_t calls = candidate->entering;
    return (struct view_mean){report_candidates_break_even(assumption, mean.value, calls),
                              report_candidates_break_even(assumption, mean.low, calls),
                              report_candidates_break_even(assumption, mean.high, calls)};
}

bool candidates_is_entering(const struct candidate *candidate, const struct view_pair *pair)
{
    bool cycle_only = candidate->called.recursive == candidate->called.calls;
    return cycle_only ? pair->caller != pair->callee : !pair->recursive;
}

double candidates_busy_cpus(const struct candidates *self)
{
    const char *duration = profile_meta(self->context->profile, "duration_ns");
    double elapsed = duration ? strtod(duration, NULL) : 0;
    return elapsed > 0 && isfinite(elapsed) ? (double)self->context->selection.taken.value / elapsed : 0;
}

bool candidates_is_root(const struct candidates *self, const struct candidate *candidate)
{
    struct view_share share = view_select_share(&self->context->selection, &candidate->total);
    /* of what may be called often, only what does next to nothing itself */
    int64_t own_most = candidate->total.value / (candidate->entering ? 2 : 20);
    /* each of which calls it once, say; without number 0, which is none */
    uint64_t threads = self->context->profile->thread_count - 1;
    return candidate->entering <= (threads > 1 ? threads : 1) && share.share >= ROOT_SHARE &&
           candidate->self.value < own_most;
}
