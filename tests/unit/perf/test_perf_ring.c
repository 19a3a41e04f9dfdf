/* Rings made of plain memory: whatever is spread over them comes out in the order of time, whole, never past
 * the horizon. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base_map.h"
#include "perf_ring.h"

enum { RINGS = 5, SIZE = 4096, RECORDS = 3000 };

struct fixture {
    struct perf_event_mmap_page pages[RINGS];
    uint8_t data[RINGS][SIZE];
    struct perf_rings rings;
};

static void set_up(struct fixture *fixture)
{
    memset(fixture, 0, sizeof *fixture);
    fixture->rings.items = calloc(RINGS, sizeof *fixture->rings.items);
    fixture->rings.heap = calloc(RINGS, sizeof *fixture->rings.heap);
    fixture->rings.wrapped = malloc(PERF_RING_RECORD_MOST);
    fixture->rings.count = fixture->rings.capacity = fixture->rings.heap_capacity = RINGS;
    for (size_t i = 0; i < RINGS; i++) {
        uint64_t start = UINT64_MAX - 1023 + i * 64; /* positions wrap around 64 bits as well */
        fixture->pages[i].data_head = fixture->pages[i].data_tail = start & ~7ull;
        fixture->rings.items[i] = (struct perf_ring){.page = &fixture->pages[i],
                                                     .data = fixture->data[i],
                                                     .size = SIZE,
                                                     .head = start & ~7ull,
                                                     .tail = start & ~7ull,
                                                     .next_time = UINT64_MAX};
    }
}

static void tear_down(struct fixture *fixture)
{
    free(fixture->rings.items);
    free(fixture->rings.heap);
    free(fixture->rings.wrapped);
}

/* A sample record: header, id, ip, pid+tid, time, then `extra` words that repeat the time. */
static bool publish(struct fixture *fixture, size_t ring, uint64_t time, size_t extra)
{
    uint64_t words[64] = {0, 1, 2, 3, time};
    struct perf_event_header header = {.type = PERF_RECORD_SAMPLE, .size = (uint16_t)(40 + 8 * extra)};
    memcpy(words, &header, sizeof header);
    for (size_t i = 0; i < extra; i++)
        words[5 + i] = time;
    struct perf_event_mmap_page *page = &fixture->pages[ring];
    if (page->data_head - page->data_tail + header.size > SIZE)
        return false;
    for (size_t i = 0; i < header.size; i++)
        fixture->data[ring][(page->data_head + i) & (SIZE - 1)] = ((uint8_t *)words)[i];
    page->data_head += header.size;
    return true;
}

static void records_come_in_order_and_whole(void **state)
{
    (void)state;
    static struct fixture fixture;
    set_up(&fixture);
    uint64_t random = 1, time = 1000, published = 0, seen = 0, last = 0;
    while (seen < RECORDS) {
        for (int burst = 0; burst < 40; burst++) {
            random = base_hash(random + 1);
            published += publish(&fixture, random % RINGS, time += 1 + random % 3, random >> 32 & 31);
        }
        perf_rings_refresh(&fixture.rings);
        uint64_t horizon = time - 20, at;
        const struct perf_event_header *header;
        while ((header = perf_rings_next(&fixture.rings, horizon, &at))) {
            assert_true(at >= last && at <= horizon);
            last = at;
            const uint64_t *words = (const uint64_t *)header;
            for (size_t i = 4; i < header->size / 8u; i++)
                assert_int_equal(words[i], at);
            perf_rings_pop(&fixture.rings);
            seen++;
        }
    }
    perf_rings_refresh(&fixture.rings);
    uint64_t at;
    while (perf_rings_next(&fixture.rings, UINT64_MAX - 1, &at)) {
        perf_rings_pop(&fixture.rings);
        seen++;
    }
    assert_int_equal(seen, published);
    for (size_t i = 0; i < RINGS; i++)
        assert_int_equal(fixture.pages[i].data_tail, fixture.pages[i].data_head);
    tear_down(&fixture);
}

static void half_full_is_reported(void **state)
{
    (void)state;
    static struct fixture fixture;
    set_up(&fixture);
    while (fixture.pages[2].data_head - fixture.pages[2].data_tail <= SIZE / 2) {
        assert_false(perf_rings_refresh(&fixture.rings));
        publish(&fixture, 2, 5, 0);
    }
    assert_true(perf_rings_refresh(&fixture.rings));
    tear_down(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_in_order_and_whole),
        cmocka_unit_test(half_full_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
