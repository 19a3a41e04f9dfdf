/* profile_statistics.h - how sure a sampled share is.
 * Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927).
 * Context: tool. */
#ifndef PROFILE_STATISTICS_H
#define PROFILE_STATISTICS_H

#include <stdint.h>

struct profile_interval {
    double low, high; /* shares, 0..1 */
};

/* The 95 % Wilson score interval of `hits` out of `samples`; {0, 1} for no samples. */
struct profile_interval profile_wilson(uint64_t hits, uint64_t samples);

/* The largest half width any share can have: 0.98 / sqrt(samples); 1 for no samples. */
double profile_maximum_margin(uint64_t samples);

#endif
