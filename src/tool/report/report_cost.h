/* report_cost.h - what measuring cost: the CPU time of tally itself, and the part of the target's that lies in
 * Tally's own code there (profile_own.h), in one figure and in parts. Context: tool. */
#ifndef REPORT_COST_H
#define REPORT_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "base_text.h"
#include "report_flow.h"
#include "view.h"

struct report_cost {
    bool percent_known, tool_known, stubs_known;
    bool of_cpu;           /* the samples are of CPU time */
    bool left_out;         /* own samples are not among the program's */
    double percent;        /* CPU time of tally and of its code in the target, of what the program used */
    double tool_ns;        /* CPU time of tally */
    double target_ns;      /* of the target, Tally's code in it included; 0: not known */
    uint64_t samples;      /* of time, Tally's own included, whatever is shown of it */
    uint64_t own_samples;  /* of them, in the agent and in stubs */
    uint64_t stub_samples; /* of those, in stubs */
};

/* The counter of sampled time whose samples say what part of the target's time is Tally's: CPU time, where it
 * was recorded; 0: none. */
uint32_t report_cost_counter(const struct profile *profile);
struct report_cost report_cost_of(const struct view_context *context);
/* "cost: 6.2 % more CPU time   Tally itself: 4.1 % of all samples, left out" */
void report_cost_line(struct report_flow *flow, struct base_text *part);
/* That, and where it comes from: CPU time, stubs, stops, counters, the agent's memory. */
void report_cost_parts(struct report_flow *flow, struct base_text *part);
void report_cost_json(struct view_context *context);

#endif
