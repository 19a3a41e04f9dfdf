/* store_timeline.h - reading the timeline of a profile file. Context: tool. */
#ifndef STORE_TIMELINE_H
#define STORE_TIMELINE_H

#include "base_error.h"
#include "profile.h"

struct store_timeline_sample {
    uint64_t time_ns; /* since the start of the recording */
    uint32_t thread, node;
    uint16_t cpu, counter;
};

/* Calls `each` for every sample of the file, in the order of recording; nodes are those of the finished tree
 * (what was folded later is at its (folded) node). Stops when `each` returns false. */
int store_timeline_each(const char *path,
                        bool (*each)(void *context, const struct store_timeline_sample *sample),
                        void *context, struct base_error *error);

struct store_timeline_item {
    uint64_t time_ns; /* since the start of the recording; of a merged profile, of the thread's own */
    /* What one sample of this thread stands for, in the counter's unit: the mean of its cells. */
    int64_t value;
    uint32_t thread, node;
    uint16_t cpu, counter;
};

struct store_timeline_list {
    struct store_timeline_item *items; /* in order of time */
    size_t count, capacity;
};

/* The whole timeline of a file and what its samples stand for; `profile` is what was loaded from it. While a
 * file is being recorded it may have gone on: what `profile` does not have is left out. No samples: no
 * timeline, which is no failure. The caller frees; nothing to free on failure. */
int store_timeline_read(const char *path, const struct profile *profile, struct store_timeline_list *list,
                        struct base_error *error);
void store_timeline_list_free(struct store_timeline_list *list);

#endif
