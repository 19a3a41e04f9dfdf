/* store_period.h - a part of the time, by the timeline.
 * Context: tool. */
#ifndef STORE_PERIOD_H
#define STORE_PERIOD_H

#include "base_error.h"
#include "profile.h"
#include "store_timeline.h"

struct store_period {
    uint64_t from_ns,
        to_ns; /* since the start of the recording, `to_ns` no longer in it; of merged ones, each its own */
};

/* Leaves the samples of a period in the list. */
void store_period_cut(struct store_timeline_list *list, const struct store_period *period);

/* Makes a profile's cells those of the samples in the list, as if nothing else had been sampled: counters
 * that have no times have no figures then. Calls, losses and what is said of the recording stay as they were.
 * The profile must have been loaded and cannot be stored afterwards; when memory ran out it is good only to
 * be freed. */
int store_period_keep(struct profile *profile, const struct store_timeline_list *list,
                      struct base_error *error);

#endif
