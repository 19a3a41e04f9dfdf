#include "report_counted.h"

#include "profile_extent.h"
#include "profile_heap.h"
#include "view_select.h"
#include "view_text.h"

/* False: there is no such counter. */
static bool sum_of(const struct profile *profile, const char *name, int64_t *sum)
{
    uint32_t counter = profile_counter_named(profile, name);
    *sum = 0;
    for (size_t i = 0; counter && i < profile->cell_count; i++)
        if (profile->cells[i].counter == counter)
            view_select_combine(false, sum, profile->cells[i].value);
    return counter != 0;
}

/* False: nothing was counted, which is said behind `what`. */
static bool begin_counted(struct base_text *out, const struct profile *profile, const char *counter,
                          const char *what, struct profile_extent *extent)
{
    *extent = profile_extent_named(profile, counter);
    if (extent->degree != PROFILE_EXTENT_NONE)
        return true;
    base_text_addf(out, "%s: ", what);
    profile_extent_not_counted_briefly(extent, out);
    return false;
}

static void add_count(struct base_text *out, int64_t count, const char *one, const char *many)
{
    view_text_count(out, count > 0 ? (uint64_t)count : 0);
    base_text_add(out, count == 1 ? one : many);
}

void report_counted_throws(struct base_text *out, const struct profile *profile)
{
    int64_t sum;
    struct profile_extent extent;
    if (!sum_of(profile, "throw.count", &sum) ||
        !begin_counted(out, profile, "throw.count", "exceptions", &extent))
        return;
    add_count(out, sum, " exception thrown", " exceptions thrown");
    profile_extent_caveat(&extent, out);
}

void report_counted_descriptors(struct base_text *out, const struct profile *profile)
{
    int64_t used, live;
    struct profile_extent extent;
    if (!sum_of(profile, "fd.used", &used) || !sum_of(profile, "fd.live", &live) ||
        !begin_counted(out, profile, "fd.used", "descriptors", &extent))
        return;
    add_count(out, used, " descriptor opened, ", " descriptors opened, ");
    add_count(out, live, " still open at the end", " still open at the end");
    profile_extent_caveat(&extent, out);
}

void report_counted_instrumented(struct base_text *out, const struct profile *profile)
{
    int64_t calls, time;
    struct profile_extent extent;
    if (!sum_of(profile, "call.count", &calls) || !sum_of(profile, "call.time", &time) ||
        !begin_counted(out, profile, "call.count", "instrumented functions", &extent))
        return;
    add_count(out, calls, " call of an instrumented function, ", " calls of instrumented functions, ");
    view_text_value(out, "ns", time, true);
    base_text_add(out, " in them");
    profile_extent_caveat(&extent, out);
}

void report_counted_maps(struct base_text *out, const struct profile *profile, bool ascii)
{
    int64_t total, live;
    struct profile_extent extent;
    if (!sum_of(profile, "map.total", &total) || !sum_of(profile, "map.live", &live) ||
        !begin_counted(out, profile, "map.total", "mapped", &extent))
        return;
    base_text_add(out, "mapped: ");
    view_text_value(out, "bytes", total, ascii);
    if (total) {
        base_text_add(out, ", ");
        view_text_value(out, "bytes", live, ascii);
        base_text_add(out, " of it still at the end");
    }
    profile_extent_caveat(&extent, out);
}

void report_counted_empty(struct base_text *out, const struct profile *profile, bool ascii)
{
    static const char *const kinds[] = {[PROFILE_HEAP_EMPTY_NONE] = "of blocks",
                                        [PROFILE_HEAP_EMPTY_ZERO] = "of zeros alone",
                                        [PROFILE_HEAP_EMPTY_INIT] = "of zeros alone that were written",
                                        [PROFILE_HEAP_EMPTY_UNUSED] = "that were never used",
                                        [PROFILE_HEAP_EMPTY_MIXED] = "of several kinds"};
    int64_t sum;
    struct profile_extent extent;
    if (!sum_of(profile, "empty.bytes", &sum) ||
        !begin_counted(out, profile, "empty.bytes", "empty", &extent))
        return;
    base_text_add(out, "empty: ");
    view_text_value(out, "bytes", sum, ascii);
    base_text_addf(out, " in pages %s", kinds[profile_heap_empty(profile)]);
    profile_extent_caveat(&extent, out);
}
