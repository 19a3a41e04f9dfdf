/* failing.h - allocations that fail when a test says so. A program that has failing_dep sends malloc, calloc
 * and realloc of everything that is linked into it here (-Wl,--wrap); those of shared libraries stay as they
 * are.
 *
 *     for (uint64_t n = 1; reached; n++) {
 *         failing_begin(n);
 *         ... what is tried ...
 *         reached = failing_end() >= n;
 *     }
 *
 * Threads of what is tried are counted together. */
#ifndef FAILING_H
#define FAILING_H

#include <stdint.h>

/* Allocation number `which`, 1 being the next one, fails with ENOMEM, and no other does; in this process, not
 * in those that it forks. UINT64_MAX: they are only counted. */
void failing_begin(uint64_t which);

/* None fails any more. How many there were since failing_begin, with the one that failed. */
uint64_t failing_end(void);

#endif
