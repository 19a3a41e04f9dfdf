/* report_walk.h - goes once through the part of the calling-context tree that a selection touches, keeping
 * the stack of frames from the root to where it is. Every view is a pair of callbacks on this walk: linear in
 * nodes times inlined levels, whatever recursion does. Context: tool. */
#ifndef REPORT_WALK_H
#define REPORT_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "profile.h"
#include "report_entity.h"
#include "report_select.h"

/* What the selection holds at each node, and the nodes with something at or below them, parents first. */
struct report_nodes {
    struct report_figure *self, *total;
    uint32_t *order;
    size_t count;
};

int report_walk_prepare(const struct profile *profile, const struct report_selection *selection,
                        struct report_nodes *nodes, struct base_error *error);
void report_walk_free(struct report_nodes *nodes);

struct report_frame {
    uint32_t entity;
    uint32_t node;
    uint32_t slot;       /* the visitor's own */
    uint32_t node_flags; /* enum profile_node_flag */
};

/* frames[0] is the outermost, frames[depth - 1] the one in question. False stops the walk (memory ran
 * out). */
struct report_visitor {
    /* A frame was pushed; `total` is the figure of all that lies at or below its node. */
    bool (*enter)(void *context, struct report_frame *frames, size_t depth,
                  const struct report_figure *total);
    /* It is about to be popped. */
    void (*leave)(void *context, struct report_frame *frames, size_t depth);
    /* The node of the innermost frame has a figure of its own. */
    bool (*leaf)(void *context, struct report_frame *frames, size_t depth, const struct report_figure *self);
    void *context;
    bool marks; /* <signal> and [stack cut] stand among the frames */
};

int report_walk(const struct profile *profile, const struct report_nodes *nodes,
                struct report_entities *entities, const struct report_visitor *visitor,
                struct base_error *error);

#endif
