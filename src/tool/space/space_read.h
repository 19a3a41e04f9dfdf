/* space_read.h - from counters to edges: who called whom, how often.
 *
 * A call may be counted twice: at its site, and by a hook at the callee's entry. A hook also counts callers
 * that no site stands for. What is published, for one set of counters:
 *
 *   a site whose callee is known (a direct call; through a slot, what ld.so put there)
 *                               site -> callee, the site's count; arrivals at that callee from there are the
 *                               same calls
 *   a site whose callee is not  site -> each callee whose hook names the site, the hook's count; what is left
 *                               of the site's count went to functions without a hook: callee unknown
 *   an arrival from elsewhere   from code whose sites are not counted: its return address -> callee;
 *                               from a known site of another callee: it came through tail jumps that left no
 *                               mark. Less those that were counted at their sites it is published as kind
 *                               tail, caller unknown
 *   an arrival with no record   (a full table) kind entry, caller unknown
 *   a guess that was right      as one call of the site that arrived at the hook (space_guess.h)
 *
 * Context: tool, one thread. */
#ifndef SPACE_READ_H
#define SPACE_READ_H

#include "space.h"

struct space_reading {
    struct space *space;
    struct space_session *session;
    uint32_t thread; /* of the profile; 0: many */
    bool final;      /* the counts will not change any more: what stays unknown is published too */
    bool replace;    /* the counts are running totals, of which this space has published some before */
};

/* Sorts `counts`. What cannot be published for lack of memory is counted as a loss. */
int space_read(const struct space_reading *reading, struct slab_counts *counts, struct base_error *error);

/* Adds a block to `counts`. */
int space_read_block(const struct space *space, const struct slab_block *block, struct slab_counts *counts,
                     struct base_error *error);

/* Object `object` is mapped no more: what is known of its calls stays its own (space_closed_name). */
void space_read_close(const struct space *space, size_t object);

/* The object and the site that an arrival came from: by the mark that a jump left, or by the return address
 * of a call. An address in a closed object becomes what it was. NULL: it came from no object; *site
 * PLAN_NONE: from no site that is counted. */
const struct space_object *space_read_origin(const struct space *space, uint64_t *return_address,
                                             uint32_t *site);
/* The object of a counter, and its hook; PLAN_NONE: the counter is no hook's. */
const struct space_object *space_read_hook(const struct space *space, uint32_t word, uint32_t *hook);

/* Writes to the profile what of each image of the space is counted, and what is left, and why. */
void space_read_coverage(const struct space *space, struct space_session *session);

#endif
