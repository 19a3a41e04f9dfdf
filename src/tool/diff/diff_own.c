/* diff_own.c - how many samples of a side are Tally's own (profile_own.h), and whether the figures have them. */
#include "diff_rows.h"
#include "profile_own.h"

struct diff_own diff_own(const struct diff *diff, size_t begin, size_t end)
{
    struct diff_own own = {0};
    uint64_t left_out = 0;
    for (size_t run = begin; run < end && !diff->calls; run++) {
        const struct profile *profile = diff->runs[run].profile;
        uint32_t counter = diff->selections[run].counter;
        own.samples += profile_own_sum(profile, counter).samples;
        own.all_samples += profile_own_all_samples(profile, counter);
        left_out += profile_own_left_out(profile, counter).samples;
    }
    own.left_out = own.samples && left_out == own.samples;
    return own;
}
