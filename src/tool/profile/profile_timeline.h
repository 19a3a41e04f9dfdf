/* profile_timeline.h - reading the timeline of a profile file. Context: tool. */
#ifndef PROFILE_TIMELINE_H
#define PROFILE_TIMELINE_H

#include "base_error.h"
#include "profile.h"

struct profile_timeline_sample {
    uint64_t time_ns; /* since the start of the recording */
    uint32_t thread, node;
    uint16_t cpu, counter;
};

/* Calls `each` for every sample of the file, in the order of recording; nodes are those of the finished tree (what was
 * folded later is at its (folded) node). Stops when `each` returns false. */
int profile_timeline_each(const char *path,
                          bool (*each)(void *context, const struct profile_timeline_sample *sample),
                          void *context, struct base_error *error);

#endif
