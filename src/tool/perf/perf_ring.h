/* perf_ring.h - perf_event ring buffers, and all of them read in the order of time.
 *
 * Every CPU (or, when descriptors are short, every thread) has a ring of its own, and what happens on one is
 * only meaningful in the order of all: a mapping made on one CPU is needed by a sample taken on another. So
 * the rings are merged by the records' time stamps: a record is handed out when every ring has been read past
 * its time. The kernel stamps a record a little before it publishes it; `horizon` is the time up to which
 * everything is taken to be published.
 *
 * Records are handed out in place, without copying, except the few that wrap around a ring's end.
 * Context: tool, one thread. Source: perf_event_open(2), "MMAP layout"; linux/perf_event.h. */
#ifndef PERF_RING_H
#define PERF_RING_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"

enum { PERF_RING_RECORD_MOST = UINT16_MAX + 1 }; /* the largest perf_event_header.size, and one more */

struct perf_ring {
    struct perf_event_mmap_page *page;
    uint8_t *data;
    size_t size;         /* of data, a power of two */
    uint64_t head, tail; /* head: as last read */
    uint64_t next_time;  /* of the record at tail; UINT64_MAX when there is none up to head */
};

struct perf_rings {
    struct perf_ring *items;
    size_t count, capacity;
    uint32_t *heap; /* indices into items, the earliest record first */
    size_t heap_count, heap_capacity;
    uint8_t *wrapped; /* PERF_RING_RECORD_MOST bytes: a record that wraps, put together */
};

/* Maps a ring of `size` bytes (a power of two, whole pages) on an event. Returns its index. */
int perf_rings_add(struct perf_rings *rings, int event_fd, size_t size, struct base_error *error);
void perf_rings_free(struct perf_rings *rings);

/* Looks at what the kernel has published since the last time. Returns true when some ring is over half full.
 */
bool perf_rings_refresh(struct perf_rings *rings);

/* The next record by time, not after `horizon` (ns); NULL when there is none. Valid until perf_rings_pop.
 */
const struct perf_event_header *perf_rings_next(struct perf_rings *rings, uint64_t horizon, uint64_t *time);

/* Gives the space of the record last handed out back to the kernel. */
void perf_rings_pop(struct perf_rings *rings);

#endif
