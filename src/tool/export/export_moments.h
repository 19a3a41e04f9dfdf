/* export_moments.h - what happened when, thread by thread: for formats that draw time. With a timeline a
 * moment is a sample; without one it is all that a thread has at a stack, and times are missing. Context:
 * tool; private to this module. */
#ifndef EXPORT_MOMENTS_H
#define EXPORT_MOMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export_tree.h"

struct export_moment {
    uint64_t time_ns; /* since the start of the recording; 0 without a timeline */
    int64_t value;    /* what it stands for, in the counter's unit; above 0 without a timeline */
    uint32_t thread, branch;
};

struct export_moments {
    struct export_moment *items; /* by thread, then time, or branch without a timeline */
    size_t count;
    /* By process and thread of the profile: numbers that no other one has. It is the pid or tid where that is
     * so; the next one that was given it, or that of another recording, has EXPORT_MOMENTS_APART more. */
    int64_t *pids, *tids;
};

enum { EXPORT_MOMENTS_APART = 1 << 22 }; /* no pid is as high */

/* Has the timeline samples of this counter? */
bool export_moments_timed(const struct export_options *options, uint16_t counter);

/* Of the part that is exported and one counter, on a tree that was built for them with threads together.
 * `timed`: from the timeline. False when memory ran out; export_moments_free is right in any case. */
bool export_moments_find(const struct export_tree *tree, const struct export_options *options,
                         uint16_t counter, bool timed, struct export_moments *found);
void export_moments_free(struct export_moments *moments);

#endif
