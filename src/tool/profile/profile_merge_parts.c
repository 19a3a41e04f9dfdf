

#include "profile_merge_parts.h"

int profile_merge_no_memory(const struct profile_merge *merge)
{
    return base_fail(merge->error, BASE_ENOMEM, "out of memory for merging");
}

const char *profile_merge_text(const struct profile_merge *merge, uint32_t string)
{
    return profile_text(merge->from, string);
}
