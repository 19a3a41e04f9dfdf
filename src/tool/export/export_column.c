#include "export_column.h"

void export_column_name(const struct export_job *job, const struct export_column *column,
                        struct base_text *out)
{
    size_t sampled = job->column_count - job->counter_count;
    if (!column->samples || sampled > 1)
        base_text_add(out, profile_text(job->profile, job->profile->counters[column->counter].name));
    if (column->samples)
        base_text_add(out, sampled > 1 ? ".samples" : "samples");
}
