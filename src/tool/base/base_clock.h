/* base_clock.h - time in nanoseconds. Context: any thread, signal handlers too. Source: clock_gettime(2). */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC. */
uint64_t base_clock_now(void);

/* Any clock; 0: there is none of that number. */
uint64_t base_clock_of(clockid_t clock);

/* Sleeps that long, shorter when a signal comes; by ppoll or futex where a filter refuses clock_nanosleep.
 * Whoever counts rests instead of reading the clock depends on it. Source: nanosleep(2), seccomp(2). */
void base_clock_sleep(uint64_t ns);

#endif
