#include "report_counted.h"

#include "profile_heap.h"
#include "report_select.h"
#include "report_text.h"

/* False: there is no such counter. */
static bool sum_of(const struct profile *profile, const char *name, int64_t *sum)
{
    uint32_t counter = profile_counter_named(profile, name);
    *sum = 0;
    for (size_t i = 0; counter && i < profile->cell_count; i++)
        if (profile->cells[i].counter == counter)
            report_select_combine(false, sum, profile->cells[i].value);
    return counter != 0;
}

void report_counted_throws(struct base_text *out, const struct profile *profile)
{
    int64_t sum;
    if (!sum_of(profile, "throw.count", &sum))
        return;
    report_text_count(out, sum > 0 ? (uint64_t)sum : 0);
    base_text_add(out, sum == 1 ? " exception thrown" : " exceptions thrown");
}

void report_counted_descriptors(struct base_text *out, const struct profile *profile)
{
    int64_t used, live;
    if (!sum_of(profile, "fd.used", &used) || !sum_of(profile, "fd.live", &live))
        return;
    report_text_count(out, used > 0 ? (uint64_t)used : 0);
    base_text_add(out, used == 1 ? " descriptor opened, " : " descriptors opened, ");
    report_text_count(out, live > 0 ? (uint64_t)live : 0);
    base_text_add(out, " still open at the end");
}

void report_counted_instrumented(struct base_text *out, const struct profile *profile)
{
    int64_t calls, time;
    if (!sum_of(profile, "call.count", &calls) || !sum_of(profile, "call.time", &time))
        return;
    report_text_count(out, calls > 0 ? (uint64_t)calls : 0);
    base_text_add(out,
                  calls == 1 ? " call of an instrumented function, " : " calls of instrumented functions, ");
    report_text_value(out, "ns", time, true);
    base_text_add(out, " in them");
}

void report_counted_maps(struct base_text *out, const struct profile *profile, bool ascii)
{
    int64_t total, live;
    if (!sum_of(profile, "map.total", &total) || !sum_of(profile, "map.live", &live))
        return;
    base_text_add(out, "mapped: ");
    report_text_value(out, "bytes", total, ascii);
    base_text_add(out, ", ");
    report_text_value(out, "bytes", live, ascii);
    base_text_add(out, " of it still at the end");
}

void report_counted_empty(struct base_text *out, const struct profile *profile, bool ascii)
{
    static const char *const kinds[] = {[PROFILE_HEAP_EMPTY_NONE] = "of blocks",
                                        [PROFILE_HEAP_EMPTY_ZERO] = "of zeros alone",
                                        [PROFILE_HEAP_EMPTY_INIT] = "of zeros alone that were written",
                                        [PROFILE_HEAP_EMPTY_UNUSED] = "that were never used",
                                        [PROFILE_HEAP_EMPTY_MIXED] = "of several kinds"};
    int64_t sum;
    if (!sum_of(profile, "empty.bytes", &sum))
        return;
    base_text_add(out, "empty: ");
    report_text_value(out, "bytes", sum, ascii);
    base_text_addf(out, " in pages %s", kinds[profile_heap_empty(profile)]);
}
