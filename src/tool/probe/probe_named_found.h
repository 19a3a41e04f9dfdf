/* probe_named_found.h - which functions that the user named were found in any process, and what is
 * said of the others.
 *
 * Named are functions that allocate (--alloc-functions) and those that are to be timed (--function). Context:
 * tool, one thread. */
#ifndef PROBE_NAMED_FOUND_H
#define PROBE_NAMED_FOUND_H

#include <stdbool.h>
#include <stddef.h>

#include "base_error.h"
#include "plan_function.h"
#include "probe_named.h"
#include "profile.h"
#include "sample_image.h"

struct probe_named_found {
    const struct probe_named_function *named; /* all borrowed; the caller fills them in */
    size_t named_count;
    const struct plan_function_request *timed;
    size_t timed_count;
    const struct sample_images *images;
    struct profile *profile; /* losses are counted there */
    void (*note)(void *context, const char *what, const struct base_error *why);
    void *context;

    bool *is_named_found, *is_timed_found; /* of each: the caller sets them */
};

int probe_named_found_begin(struct probe_named_found *found, struct base_error *error);
void probe_named_found_end(struct probe_named_found *found);

/* The function is hooked for something else, and cannot be timed too (an unwinder): reports that, if timing
 * was requested. */
void probe_named_found_taken(struct probe_named_found *found, const char *name, const char *path);
/* At the end: those that no process had. */
void probe_named_found_publish(const struct probe_named_found *found);

#endif
