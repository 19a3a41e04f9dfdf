/* profile_period.h - a part of the time, by the timeline.
 * Context: tool. */
#ifndef PROFILE_PERIOD_H
#define PROFILE_PERIOD_H

#include "base_error.h"
#include "profile.h"
#include "profile_timeline.h"

struct profile_period {
    uint64_t from_ns,
        to_ns; /* since the start of the recording, `to_ns` no longer in it; of merged ones, each its own */
};

/* Leaves the samples of a period in the list. */
void profile_period_cut(struct profile_timeline_list *list, const struct profile_period *period);

/* Makes a profile's cells those of the samples in the list, as if nothing else had been sampled: counters
 * that have no times have no figures then. Calls, losses and what is said of the recording stay as they were.
 * The profile must have been loaded and cannot be stored afterwards; when memory ran out it is good only to
 * be freed. */
int profile_period_keep(struct profile *profile, const struct profile_timeline_list *list,
                        struct base_error *error);

#endif
