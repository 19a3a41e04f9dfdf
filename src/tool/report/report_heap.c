#include "report_heap.h"

#include "profile_extent.h"
#include "view_select.h"
#include "view_text.h"

static void add_cells(const struct profile *profile, enum profile_heap which, struct report_heap *heap)
{
    uint32_t counter = profile_heap_find(profile, which);
    bool peak = profile->counters[counter].combine == PROFILE_PEAK;
    for (size_t i = 0; counter && i < profile->cell_count; i++)
        if (profile->cells[i].counter == counter)
            view_select_combine(peak, &heap->sums[which], profile->cells[i].value);
}

bool report_heap_gather(const struct profile *profile, struct report_heap *heap)
{
    uint32_t total = profile_heap_find(profile, PROFILE_HEAP_TOTAL);
    *heap = (struct report_heap){0};
    if (!total)
        return false;
    heap->exact = profile->counters[total].exact;
    for (int i = 0; i < PROFILE_HEAP_COUNTERS; i++)
        add_cells(profile, (enum profile_heap)i, heap);
    heap->highest = profile_heap_highest(profile, &heap->peaks);
    return true;
}

static void add_blocks(struct base_text *out, int64_t count)
{
    view_text_count(out, count > 0 ? (uint64_t)count : 0);
    base_text_add(out, count == 1 ? " block" : " blocks");
}

static void add_peak(struct base_text *out, const struct profile *profile, const struct report_heap *heap,
                     bool ascii)
{
    const struct profile_peak *peak = heap->highest;
    const struct profile_process *process = &profile->processes[peak->process];
    base_text_add(out, ", peak ");
    view_text_value(out, "bytes", peak->value, ascii);
    base_text_add(out, " at ");
    view_text_time(out, peak->time_ns < INT64_MAX ? (int64_t)peak->time_ns : INT64_MAX, ascii);
    if (heap->peaks > 1)
        base_text_addf(out, " in %s (%d)", profile_text(profile, process->name), process->pid);
}

/* "heap: "; false: and that nothing was counted. */
static bool heap_begin(struct base_text *out, const struct profile *profile, const struct report_heap *heap,
                       const struct profile_extent *extent)
{
    static const char *const overheads[] = {[PROFILE_HEAP_INCLUDE] = ", with overhead",
                                            [PROFILE_HEAP_DELTA] = ", overhead alone",
                                            [PROFILE_HEAP_MIXED] = ", overhead mixed"};
    enum profile_heap_overhead overhead = profile_heap_overhead(profile);
    base_text_add(out, heap->exact ? "heap" : "heap, sampled");
    base_text_addf(out, "%s: ", overhead ? overheads[overhead] : "");
    if (extent->degree == PROFILE_EXTENT_NONE)
        profile_extent_not_counted_briefly(extent, out);
    return extent->degree != PROFILE_EXTENT_NONE;
}

void report_heap_text_briefly(struct base_text *out, const struct profile *profile,
                              const struct report_heap *heap, bool ascii)
{
    struct profile_extent extent = profile_extent_of(profile, profile_heap_find(profile, PROFILE_HEAP_TOTAL));
    if (!heap_begin(out, profile, heap, &extent))
        return;
    base_text_add(out, "peak ");
    view_text_value(out, "bytes", heap->highest ? heap->highest->value : heap->sums[PROFILE_HEAP_PEAK],
                    ascii);
    base_text_add(out, ", ");
    view_text_value(out, "bytes", heap->sums[PROFILE_HEAP_LIVE], ascii);
    base_text_add(out, " live");
    profile_extent_caveat(&extent, out);
}

void report_heap_text(struct base_text *out, const struct profile *profile, const struct report_heap *heap,
                      bool ascii)
{
    const int64_t *sums = heap->sums;
    struct profile_extent extent = profile_extent_of(profile, profile_heap_find(profile, PROFILE_HEAP_TOTAL));
    if (!heap_begin(out, profile, heap, &extent))
        return;
    view_text_value(out, "bytes", sums[PROFILE_HEAP_TOTAL], ascii);
    base_text_add(out, " in ");
    add_blocks(out, sums[PROFILE_HEAP_COUNT]);
    if (heap->highest)
        add_peak(out, profile, heap, ascii);
    base_text_add(out, ", ");
    view_text_value(out, "bytes", sums[PROFILE_HEAP_LIVE], ascii);
    base_text_add(out, " live in ");
    add_blocks(out, sums[PROFILE_HEAP_LIVE_COUNT]);
    if (sums[PROFILE_HEAP_COUNT] > 0)
        base_text_addf(out, ", %.1f %% temporary",
                       100 * (double)sums[PROFILE_HEAP_TEMPORARY] / (double)sums[PROFILE_HEAP_COUNT]);
    profile_extent_caveat(&extent, out);
}
