/* shared_heap.h - from what the agent counted in a process to counters of the profile's tree.
 *
 * Stacks become nodes by shared_nodes.h. Published again and again, only differences are added; what is no
 * sum is published at the end alone (heap.max, heap.largest, heap.live.age, and how many blocks are behind
 * live bytes).
 *
 * The target may have written anything into the tree: whatever it says, indices stay within bounds, a cycle
 * ends, and figures that cannot be become 0 or the largest that can. Context: tool, one thread. */
#ifndef SHARED_HEAP_H
#define SHARED_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base_error.h"
#include "profile.h"
#include "profile_heap.h"
#include "shared_nodes.h"
#include "wire_agent_loss.h"

struct shared_heap {
    struct profile *profile;
    uint16_t counters[PROFILE_HEAP_COUNTERS]; /* 0: not counted */
    uint64_t sample_bytes;                    /* 0: exact */
    uint32_t special_unknown;                 /* the address of what is in no module */
    const struct shared_cookie *cookies;
    size_t cookie_count;
    /* the agent takes samples of time and nothing else: what is lost of stacks is published as of other
     * samples */
    bool samples_only;
};

/* What was published of a process so far. Zero it first. */
struct shared_heap_published {
    struct shared_heap_cell *cells; /* by the number of the agent's cell */
    size_t cell_count;
    uint64_t losses[WIRE_AGENT_LOSSES];
};

int shared_heap_init(struct shared_heap *heap, struct profile *profile, uint64_t sample_bytes,
                     struct base_error *error);

/* Memory is not counted: only losses are published. */
int shared_heap_init_idle(struct shared_heap *heap, struct profile *profile, struct base_error *error);

/* Of which process, and when. */
struct shared_heap_of {
    uint32_t process, thread; /* the profile's numbers: the process's, and the one for all of its threads */
    uint64_t now_ns;          /* since the start of the recording */
    bool final;
};

/* Adds what a tree has more than was published. */
int shared_heap_publish(struct shared_heap *heap, const struct shared_tree *tree,
                        struct shared_heap_published *published, struct shared_heap_of of,
                        struct base_error *error);
void shared_heap_published_free(struct shared_heap_published *published);

#endif
