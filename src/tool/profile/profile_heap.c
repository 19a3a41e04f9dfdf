#include "profile_heap.h"

#include <string.h>

static const struct {
    const char *name, *unit;
    enum profile_combine combine;
} counters[PROFILE_HEAP_COUNTERS] = {
    [PROFILE_HEAP_TOTAL] = {"heap.total", "bytes", PROFILE_SUM},
    [PROFILE_HEAP_COUNT] = {"heap.count", "blocks", PROFILE_SUM},
    [PROFILE_HEAP_PEAK] = {"heap.peak", "bytes", PROFILE_LIVE},
    [PROFILE_HEAP_MAX] = {"heap.max", "bytes", PROFILE_PEAK},
    [PROFILE_HEAP_LIVE] = {"heap.live", "bytes", PROFILE_LIVE},
    [PROFILE_HEAP_LIVE_COUNT] = {"heap.live.count", "blocks", PROFILE_LIVE},
    [PROFILE_HEAP_LARGEST] = {"heap.largest", "bytes", PROFILE_PEAK},
    [PROFILE_HEAP_AGE] = {"heap.live.age", "ns", PROFILE_PEAK},
    [PROFILE_HEAP_TEMPORARY] = {"heap.temporary", "blocks", PROFILE_SUM},
};

const char *profile_heap_name(enum profile_heap which)
{
    return counters[which].name;
}

uint32_t profile_heap_counter(struct profile *profile, enum profile_heap which, bool exact)
{
    return profile_counter(profile, counters[which].name, counters[which].unit, exact,
                           counters[which].combine);
}

uint32_t profile_heap_find(const struct profile *profile, enum profile_heap which)
{
    return profile_counter_named(profile, counters[which].name);
}

const struct profile_peak *profile_heap_highest(const struct profile *profile, size_t *count)
{
    uint32_t counter = profile_heap_find(profile, PROFILE_HEAP_PEAK);
    const struct profile_peak *highest = NULL;
    *count = 0;
    for (size_t i = 1; counter && i < profile->peak_count; i++) {
        const struct profile_peak *it = &profile->peaks[i];
        if (it->counter != counter)
            continue;
        ++*count;
        highest = !highest || it->value > highest->value ? it : highest;
    }
    return highest;
}

static const char *const overheads[] = {"none", "include", "delta", "mixed"};
static const char *const empties[] = {"none", "zero", "init", "unused", "mixed"};

/* Which of the names is the profile's value of `key`; 0: none. */
static int index_of_name(const struct profile *profile, const char *key, const char *const *names, int count)
{
    const char *name = profile_meta(profile, key);
    for (int i = 1; name && i < count; i++)
        if (!strcmp(name, names[i]))
            return i;
    return 0;
}

const char *profile_heap_overhead_name(enum profile_heap_overhead overhead)
{
    return overheads[overhead];
}

enum profile_heap_overhead profile_heap_overhead(const struct profile *profile)
{
    return (enum profile_heap_overhead)index_of_name(profile, "heap_overhead", overheads,
                                                     PROFILE_HEAP_MIXED + 1);
}

const char *profile_heap_empty_name(enum profile_heap_empty which)
{
    return empties[which];
}

enum profile_heap_empty profile_heap_empty(const struct profile *profile)
{
    return (enum profile_heap_empty)index_of_name(profile, "empty_pages", empties,
                                                  PROFILE_HEAP_EMPTY_MIXED + 1);
}
