/* profile_latency.c - how long calls of a function took: a row for each process and function, and one for
 * each bucket that has calls. */
#include "profile_latency.h"

#include <stdlib.h>

#include "base_array.h"
#include "profile_model.h"
#include "wire_loss.h"

static uint64_t latency_key_of(uint32_t first, uint32_t second)
{
    return (uint64_t)first << 32 | second;
}

/* A profile that was just loaded has rows that are in no index yet. */
static bool index_rows(struct profile *profile)
{
    struct profile_latency_index *index = &profile->self->latency_index;
    for (; index->rows < profile->latency_count; index->rows++) {
        const struct profile_latency *it = &profile->latencies[index->rows];
        if (!base_map_set(&index->latencies, latency_key_of(it->process, it->address), (uint32_t)index->rows))
            return false;
    }
    for (; index->bucket_rows < profile->latency_bucket_count; index->bucket_rows++) {
        const struct profile_latency_bucket *it = &profile->latency_buckets[index->bucket_rows];
        if (!base_map_set(&index->buckets, latency_key_of(it->latency, it->bucket),
                          (uint32_t)index->bucket_rows))
            return false;
    }
    return true;
}

uint32_t profile_latency(struct profile *profile, uint32_t process, uint32_t address)
{
    struct profile_model *self = profile->self;
    if (!process || process >= profile->process_count || !address || address >= profile->address_count ||
        !index_rows(profile))
        return 0;
    uint32_t row = base_map_find(&self->latency_index.latencies, latency_key_of(process, address));
    if (row != BASE_MAP_NONE)
        return row;
    row = (uint32_t)profile->latency_count;
    if (row >= INT32_MAX || !base_array_room(profile->latencies, row, self->latency_capacity) ||
        !base_map_set(&self->latency_index.latencies, latency_key_of(process, address), row))
        return 0;
    profile->latencies[profile->latency_count++] =
        (struct profile_latency){.process = process, .address = address, .min_ns = INT64_MAX};
    self->latency_index.rows = profile->latency_count;
    return row;
}

static uint64_t latency_add(uint64_t sum, uint64_t more)
{
    return more < INT64_MAX - sum ? sum + more : INT64_MAX;
}

void profile_add_latency(struct profile *profile, uint32_t latency, uint64_t sum_ns, uint64_t min_ns,
                         uint64_t max_ns)
{
    if (!latency || latency >= profile->latency_count || min_ns > max_ns || max_ns > INT64_MAX)
        return;
    struct profile_latency *it = &profile->latencies[latency];
    it->sum_ns = latency_add(it->sum_ns, sum_ns);
    it->min_ns = min_ns < it->min_ns ? min_ns : it->min_ns;
    it->max_ns = max_ns > it->max_ns ? max_ns : it->max_ns;
    profile_marks_set(&profile->self->latencies, latency);
}

static uint32_t bucket_row(struct profile *profile, uint32_t latency, uint32_t bucket)
{
    struct profile_model *self = profile->self;
    if (!index_rows(profile))
        return 0;
    uint32_t row = base_map_find(&self->latency_index.buckets, latency_key_of(latency, bucket));
    if (row != BASE_MAP_NONE)
        return row;
    row = (uint32_t)profile->latency_bucket_count;
    if (row >= INT32_MAX || !base_array_room(profile->latency_buckets, row, self->latency_bucket_capacity) ||
        !base_map_set(&self->latency_index.buckets, latency_key_of(latency, bucket), row))
        return 0;
    profile->latency_buckets[profile->latency_bucket_count++] =
        (struct profile_latency_bucket){.latency = latency, .bucket = bucket};
    self->latency_index.bucket_rows = profile->latency_bucket_count;
    return row;
}

bool profile_add_latency_calls(struct profile *profile, uint32_t latency, uint32_t bucket, uint64_t calls)
{
    if (!latency || latency >= profile->latency_count || bucket >= WIRE_LATENCY_BUCKETS || !calls)
        return true;
    uint32_t row = bucket_row(profile, latency, bucket);
    if (!row)
        return false;
    struct profile_latency_bucket *it = &profile->latency_buckets[row];
    it->calls = latency_add(it->calls, calls);
    profile_marks_set(&profile->self->latency_buckets, row);
    return true;
}

void profile_latency_free(struct profile *profile)
{
    base_map_free(&profile->self->latency_index.latencies);
    base_map_free(&profile->self->latency_index.buckets);
}

/* --- reading --- */

uint64_t profile_latency_calls(const struct profile_latency_sum *sum)
{
    uint64_t calls = 0;
    for (uint32_t i = 0; i < WIRE_LATENCY_BUCKETS; i++)
        calls = latency_add(calls, sum->buckets[i]);
    return calls;
}

/* The rank is rounded up: of 100 calls the 99th of them is the 99th percentile, of 10 the tenth is. */
uint64_t profile_latency_at(const struct profile_latency_sum *sum, unsigned permille)
{
    unsigned __int128 wanted = (unsigned __int128)profile_latency_calls(sum) * permille, seen = 0;
    for (uint32_t i = 0; i < WIRE_LATENCY_BUCKETS; i++) {
        seen += (unsigned __int128)sum->buckets[i] * 1000;
        if (!sum->buckets[i] || seen < wanted)
            continue;
        uint64_t last = wire_latency_low(i + 1) - 1;
        return i + 1 < WIRE_LATENCY_BUCKETS && last < sum->max_ns ? last : sum->max_ns;
    }
    return 0;
}

static int latency_by_address(const void *left, const void *right)
{
    const struct profile_latency_sum *a = left, *b = right;
    return (a->address > b->address) - (a->address < b->address);
}

static void latency_add_to(struct profile_latency_sum *sum, const struct profile_latency *it)
{
    sum->sum_ns = latency_add(sum->sum_ns, it->sum_ns);
    sum->min_ns = it->min_ns < sum->min_ns ? it->min_ns : sum->min_ns;
    sum->max_ns = it->max_ns > sum->max_ns ? it->max_ns : sum->max_ns;
}

/* One for each address that a row which is taken has, in the order of addresses. */
static size_t list_addresses(const struct profile *profile, const bool *processes,
                             struct profile_latency_sum *sums)
{
    size_t count = 0, kept = 0;
    for (size_t i = 1; i < profile->latency_count; i++)
        if (!processes || processes[profile->latencies[i].process])
            sums[count++] =
                (struct profile_latency_sum){.address = profile->latencies[i].address, .min_ns = INT64_MAX};
    qsort(sums, count, sizeof *sums, latency_by_address);
    for (size_t i = 0; i < count; i++)
        if (!i || sums[i].address != sums[kept - 1].address)
            sums[kept++] = sums[i];
    return kept;
}

int profile_latency_sums(const struct profile *profile, const bool *processes,
                         struct profile_latency_sum **made, size_t *count, struct base_error *error)
{
    struct profile_latency_sum *sums = calloc(profile->latency_count, sizeof *sums);
    struct profile_latency_sum **of = calloc(profile->latency_count, sizeof(struct profile_latency_sum *));
    if (!sums || !of) {
        free(sums);
        free(of);
        return base_fail(error, BASE_ENOMEM, "out of memory");
    }
    *count = list_addresses(profile, processes, sums);
    for (size_t i = 1; i < profile->latency_count; i++) {
        const struct profile_latency *it = &profile->latencies[i];
        const struct profile_latency_sum key = {.address = it->address};
        if (processes && !processes[it->process])
            continue;
        of[i] = bsearch(&key, sums, *count, sizeof *sums, latency_by_address);
        latency_add_to(of[i], it);
    }
    for (size_t i = 1; i < profile->latency_bucket_count; i++) {
        const struct profile_latency_bucket *it = &profile->latency_buckets[i];
        if (of[it->latency])
            of[it->latency]->buckets[it->bucket] =
                latency_add(of[it->latency]->buckets[it->bucket], it->calls);
    }
    free(of);
    *made = sums;
    return BASE_OK;
}
