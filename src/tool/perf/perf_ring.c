#include "perf_ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base_array.h"
#include "perf_record.h"

int perf_rings_add(struct perf_rings *rings, int event_fd, size_t size, struct base_error *error)
{
    if (!base_array_room(rings->items, rings->count, rings->capacity) ||
        !base_array_room(rings->heap, rings->count, rings->heap_capacity))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    if (!rings->wrapped && !(rings->wrapped = malloc(PERF_RING_RECORD_MOST)))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *map = mmap(NULL, page + size, PROT_READ | PROT_WRITE, MAP_SHARED, event_fd, 0);
    if (map == MAP_FAILED)
        return base_fail_errno(error, errno, "cannot map a ring of %zu kB", size / 1024);
    rings->items[rings->count] =
        (struct perf_ring){.page = map, .data = (uint8_t *)map + page, .size = size, .next_time = UINT64_MAX};
    return (int)rings->count++;
}

void perf_rings_free(struct perf_rings *rings)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < rings->count; i++)
        munmap(rings->items[i].page, page + rings->items[i].size);
    free(rings->items);
    free(rings->heap);
    free(rings->wrapped);
    *rings = (struct perf_rings){0};
}

/* Bytes of a ring, put together when they wrap. Their memory is allocated before the ring exists: a record
 * that cannot be read would hold up its ring for good. */
static const void *bytes_at(struct perf_rings *rings, const struct perf_ring *ring, uint64_t at, size_t size)
{
    size_t offset = at & (ring->size - 1);
    if (offset + size <= ring->size)
        return ring->data + offset;
    size_t first = ring->size - offset;
    memcpy(rings->wrapped, ring->data + offset, first);
    memcpy(rings->wrapped + first, ring->data, size - first);
    return rings->wrapped;
}

/* Records are multiples of 8 bytes, so a header and a time stamp never wrap. */
static const struct perf_event_header *header_at(const struct perf_ring *ring)
{
    return (const void *)(ring->data + (ring->tail & (ring->size - 1)));
}

static void read_next_time(struct perf_ring *ring)
{
    ring->next_time = UINT64_MAX;
    if (ring->head - ring->tail < sizeof(struct perf_event_header))
        return;
    const struct perf_event_header *header = header_at(ring);
    uint64_t at = ring->tail + perf_record_time_offset(header);
    memcpy(&ring->next_time, ring->data + (at & (ring->size - 1)), sizeof ring->next_time);
}

static bool is_earlier_ring(const struct perf_rings *rings, uint32_t a, uint32_t b)
{
    return rings->items[a].next_time < rings->items[b].next_time;
}

static void sift_down(struct perf_rings *rings, size_t at)
{
    uint32_t *heap = rings->heap;
    for (;;) {
        size_t least = at, left = 2 * at + 1, right = left + 1;
        if (left < rings->heap_count && is_earlier_ring(rings, heap[left], heap[least]))
            least = left;
        if (right < rings->heap_count && is_earlier_ring(rings, heap[right], heap[least]))
            least = right;
        if (least == at)
            return;
        uint32_t moved = heap[at];
        heap[at] = heap[least];
        heap[least] = moved;
        at = least;
    }
}

bool perf_rings_refresh(struct perf_rings *rings)
{
    bool half_full = false;
    rings->heap_count = 0;
    for (size_t i = 0; i < rings->count; i++) {
        struct perf_ring *ring = &rings->items[i];
        ring->head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
        half_full |= ring->head - ring->tail > ring->size / 2;
        if (ring->next_time == UINT64_MAX)
            read_next_time(ring);
        if (ring->next_time != UINT64_MAX)
            rings->heap[rings->heap_count++] = (uint32_t)i;
    }
    for (size_t at = rings->heap_count / 2; at-- > 0;)
        sift_down(rings, at);
    return half_full;
}

const struct perf_event_header *perf_rings_next(struct perf_rings *rings, uint64_t horizon, uint64_t *time)
{
    if (!rings->heap_count)
        return NULL;
    struct perf_ring *ring = &rings->items[rings->heap[0]];
    if (ring->next_time > horizon || ring->next_time == UINT64_MAX)
        return NULL;
    *time = ring->next_time;
    return bytes_at(rings, ring, ring->tail, header_at(ring)->size);
}

void perf_rings_pop(struct perf_rings *rings)
{
    struct perf_ring *ring = &rings->items[rings->heap[0]];
    ring->tail += header_at(ring)->size;
    __atomic_store_n(&ring->page->data_tail, ring->tail, __ATOMIC_RELEASE);
    read_next_time(ring);
    if (ring->next_time == UINT64_MAX)
        rings->heap[0] = rings->heap[--rings->heap_count];
    sift_down(rings, 0);
}
