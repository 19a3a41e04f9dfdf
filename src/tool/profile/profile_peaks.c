/* profile_peaks.c - how high a counter was in a process, and when. Whoever counts says it again and again
 * while it rises, so a row is found by what it is about and replaced. */
#include "base_array.h"
#include "profile.h"
#include "profile_model.h"
#include "wire_loss.h"

static uint64_t peaks_key_of(uint32_t process, uint32_t counter)
{
    return (uint64_t)process << 32 | counter;
}

/* A profile that was just loaded has rows that are in no index yet. */
static bool index_rows(struct profile *profile)
{
    struct profile_model *self = profile->self;
    if (!self->peaks_indexed)
        self->peaks_indexed = 1;
    for (; self->peaks_indexed < profile->peak_count; self->peaks_indexed++) {
        const struct profile_peak *it = &profile->peaks[self->peaks_indexed];
        if (!base_map_set(&self->peak_rows, peaks_key_of(it->process, it->counter),
                          (uint32_t)self->peaks_indexed))
            return false;
    }
    return true;
}

/* The row, made when new; 0 when memory ran out. */
static uint32_t row_of(struct profile *profile, uint32_t process, uint32_t counter)
{
    struct profile_model *self = profile->self;
    if (!index_rows(profile))
        return 0;
    uint32_t row = base_map_find(&self->peak_rows, peaks_key_of(process, counter));
    if (row != BASE_MAP_NONE)
        return row;
    row = (uint32_t)profile->peak_count;
    if (row >= INT32_MAX || !base_array_room(profile->peaks, row, self->peak_capacity) ||
        !base_map_set(&self->peak_rows, peaks_key_of(process, counter), row))
        return 0;
    profile->peaks[profile->peak_count++] = (struct profile_peak){.process = process, .counter = counter};
    self->peaks_indexed = profile->peak_count;
    return row;
}

void profile_set_peak(struct profile *profile, uint32_t process, uint32_t counter, int64_t value,
                      uint64_t time_ns)
{
    if (!process || process >= profile->process_count || !counter || counter >= profile->counter_count)
        return;
    uint32_t row = row_of(profile, process, counter);
    struct profile_peak *it = &profile->peaks[row];
    if (!row) {
        profile_lose(profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
        return;
    }
    if (it->value > value || (it->value == value && it->time_ns == time_ns))
        return;
    it->value = value;
    it->time_ns = time_ns;
    profile_marks_set(&profile->self->peaks, row);
}
