

#include "merge_parts.h"

int merge_no_memory(const struct merge *merge)
{
    return base_fail(merge->error, BASE_ENOMEM, "out of memory for merging");
}

const char *merge_text(const struct merge *merge, uint32_t string)
{
    return profile_text(merge->from, string);
}
