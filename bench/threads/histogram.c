/* histogram.c - sorts slices of an array and counts the bytes of what came out: comparisons through a
 * pointer, then a pass over memory. */
#include <stdio.h>
#include <stdlib.h>

#include "parallel.h"

enum { CHUNK = 4096, BINS = 256 };

struct table {
    size_t count;
    uint32_t *numbers;
    uint64_t bins[BINS];
};

static int by_value(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

static __attribute__((noinline)) void fill(uint32_t *numbers, size_t first)
{
    for (size_t i = 0; i < CHUNK; i++)
        numbers[i] = (uint32_t)parallel_number(first + i);
}

static __attribute__((noinline)) void count_bytes(const uint32_t *numbers, uint64_t *bins)
{
    for (size_t i = 0; i < CHUNK; i++)
        for (unsigned shift = 0; shift < 32; shift += 8)
            bins[numbers[i] >> shift & 255] += i;
}

static __attribute__((noinline)) void work_on_chunk(const struct table *table, size_t chunk, uint64_t *bins)
{
    uint32_t *numbers = table->numbers + chunk * CHUNK;
    fill(numbers, chunk * CHUNK);
    qsort(numbers, CHUNK, sizeof *numbers, by_value);
    count_bytes(numbers, bins);
}

static void work_on_slice(void *argument, unsigned part, unsigned parts)
{
    struct table *table = argument;
    uint64_t bins[BINS] = {0};
    size_t from, to;
    parallel_range(table->count / CHUNK, part, parts, &from, &to);
    for (size_t chunk = from; chunk < to; chunk++)
        work_on_chunk(table, chunk, bins);
    for (unsigned i = 0; i < BINS; i++)
        __atomic_fetch_add(&table->bins[i], bins[i], __ATOMIC_RELAXED);
}

int main(int argc, char **argv)
{
    struct parallel_request request = parallel_read(argc, argv);
    struct table table = {.count = 4u << 20};
    table.numbers = malloc(table.count * sizeof *table.numbers);
    if (!table.numbers)
        return 1;
    for (unsigned round = 0; round < request.scale * 4; round++)
        parallel_run(request.threads, work_on_slice, &table);
    uint64_t sum = 0;
    for (unsigned i = 0; i < BINS; i++)
        sum = sum * 31 + table.bins[i];
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
