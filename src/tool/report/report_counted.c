#include "report_counted.h"

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
