#include "diff_rows.h"

#include <math.h>

double diff_percent(const struct diff_row *row)
{
    if (!(row->old_cost > 0))
        return row->new_cost > 0 ? INFINITY : 0;
    return 100 * (row->new_cost / row->old_cost - 1);
}

int diff_memory(struct diff *diff)
{
    return base_fail(diff->error, BASE_ENOMEM, "out of memory for the comparison");
}

void diff_percent_text(const struct diff_row *row, struct base_text *out)
{
    double percent = diff_percent(row);
    if (isinf(percent))
        base_text_add(out, "new");
    else
        base_text_addf(out, fabs(percent) < 99.95 ? "%+.1f %%" : "%+.0f %%", percent);
}
