/* export_timeline.h - when samples were taken, as far as the page shows it: how many of a thread's were at a
 * node in one step of time. Steps are as long as they must be for the whole to stay small: a recording of a
 * minute has every sample at its place, one of a day is resolved to seconds. Where stacks are so many that hardly
 * two samples meet in a step, a thousand steps are worth more slots.
 *
 * Steps begin with the recording; of merged profiles, with each of them. Context: tool. */
#ifndef EXPORT_TIMELINE_H
#define EXPORT_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "export.h"
#include "profile.h"

enum {
    EXPORT_TIMELINE_STEP_NS = 125000, /* the shortest step; others are twice that, four times that ... */
    EXPORT_TIMELINE_SLOTS = 200000,   /* the most slots: about a megabyte of the page */
    EXPORT_TIMELINE_STEPS = 1000,     /* worth two and a half times as many */
};

struct export_slot {
    uint32_t step, thread, node;
    uint16_t counter;
    uint32_t samples;
};

struct export_timeline {
    uint64_t step_ns;
    struct export_slot *slots; /* by counter, thread, step, node; each once */
    size_t count, capacity;
};

/* The timeline in the file `path`, of which `profile` was loaded, with the samples that `options` take. At
 * most `most` slots; two and a half times as many where longer steps would be fewer than
 * EXPORT_TIMELINE_STEPS; or as many as threads have nodes. A file without a timeline gives none. The caller
 * frees it in any case. */
int export_timeline_read(struct export_timeline *timeline, const char *path, const struct profile *profile,
                         const struct export_options *options, size_t most, struct base_error *error);
void export_timeline_free(struct export_timeline *timeline);

/* Puts slots in their order, and those of one place together. */
void export_timeline_sort(struct export_timeline *timeline);

#endif
