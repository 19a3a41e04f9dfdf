/* report_candidates.h - what it would give the whole program to run one function's calls elsewhere: the
 * arithmetic.
 *
 * Of a program that takes W, a function with all it calls takes the share f, in N calls that enter it
 * (recursion counted once). Each of these calls costs T on top and then runs K times faster; everything else
 * stays as it is. Then the program takes
 *
 *     W (1 - f)  +  W f / K  +  N T,      that is   1 / (1 - f + f / K + N T / W)   times less than before.
 *
 * Nothing can be better: moving data, waiting and what the caller could have done meanwhile are in T or left
 * out. With n threads instead of an accelerator K is n, but no more than N: a call is not split. Source: G.
 * M. Amdahl, Validity of the single processor approach, AFIPS 1967. Context: anywhere in the tool; no
 * state. */
#ifndef REPORT_CANDIDATES_H
#define REPORT_CANDIDATES_H

#include <stdint.h>

#include "view_select.h"

struct report_assumption {
    double speedup;    /* K; 0: however fast */
    double invoke_ns;  /* T */
    uint64_t parallel; /* n; 0: an accelerator */
};

/* How many times less the whole program takes, and its 95 % interval, from that of the share. INFINITY:
 * nothing is left. */
struct report_bound {
    double value, low, high;
};

/* `calls` is N, 0 when it is not known: then T is left out, and n is not held to it. `whole_ns` is W. */
struct report_bound report_candidates_bound(const struct report_assumption *assumption,
                                            const struct view_share *share, double whole_ns, uint64_t calls);

/* What a call may cost at most before nothing is gained, ns: the time of a call times (1 - 1/K). */
double report_candidates_break_even(const struct report_assumption *assumption, double call_ns,
                                    uint64_t calls);

enum report_verdict {
    REPORT_GAINS,    /* the whole interval is at 1 or above */
    REPORT_MAY_COST, /* 1 lies inside it */
    REPORT_COSTS,    /* the whole interval is below 1 */
};
enum report_verdict report_candidates_verdict(const struct report_bound *bound);

#endif
