/* heap_sites.h - what heap_sites knows of its own allocations, in a file that outlives it. */
#ifndef HEAP_SITES_H
#define HEAP_SITES_H

#include <stdatomic.h>
#include <stdint.h>

#define HEAP_SITES_SITES 4

struct heap_sites_site {
    atomic_ullong total, count, live, live_count;
    atomic_ullong max, at_peak; /* of a program with one thread */
};

struct heap_sites {
    struct heap_sites_site sites
        [HEAP_SITES_SITES]; /* functions heap_site_0 ...: they call malloc, and nobody else is counted here */
    atomic_ullong live, peak; /* of all sites; peak: of one thread */
    atomic_ullong low, high;  /* run-time addresses of the sites' text */
    atomic_uint wrong;        /* results that were not as they should be */
    uint32_t zero;
};

#endif
