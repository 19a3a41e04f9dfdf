/* perf_rate.h - the highest sampling rate a machine bears.
 *
 * Each sample costs an interrupt; in virtual machines that can be 13 us and more, and a rate that takes
 * every cycle freezes the machine. Above PERF_RATE_UNTESTED the cost is measured on Tally itself
 * (a spin with and without a timer event, some milliseconds) and the rate is held to what leaves the target
 * half of its CPU. Context: tool. */
#ifndef PERF_RATE_H
#define PERF_RATE_H

#include <stdint.h>

#define PERF_RATE_UNTESTED 10000.0 /* Hz: below, no machine is in danger */

/* The rate to use instead of `hz`: hz itself, or less. *interrupt_ns: what one sample was measured to cost, 0
 * when not measured. */
double perf_rate_bearable(double hz, uint64_t *interrupt_ns);

/* The arithmetic of it, for its test. */
double perf_rate_limit(double hz, double interrupt_ns);

#endif
