/* view_walk.h - goes once through the part of the calling-context tree that a selection touches, keeping
 * the stack of frames from the root to where it is. Every view is a pair of callbacks on this walk: linear in
 * nodes times inlined levels, whatever recursion does. Context: tool. */
#ifndef VIEW_WALK_H
#define VIEW_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "profile.h"
#include "view_entity.h"
#include "view_select.h"

/* What the selection holds at each node, and the nodes with something at or below them, parents first. */
struct view_nodes {
    struct view_figure *self, *total;
    uint32_t *order;
    size_t count;
};

int view_walk_prepare(const struct profile *profile, const struct view_selection *selection,
                      struct view_nodes *nodes, struct base_error *error);
void view_walk_free(struct view_nodes *nodes);

struct view_frame {
    uint32_t entity;
    uint32_t node;
    uint32_t slot;       /* the visitor's own */
    uint32_t node_flags; /* enum profile_node_flag */
};

/* frames[0] is the outermost, frames[depth - 1] the one in question. False stops the walk (memory ran
 * out). */
struct view_visitor {
    /* A frame was pushed; `total` is the figure of all that lies at or below its node. */
    bool (*enter)(void *context, struct view_frame *frames, size_t depth, const struct view_figure *total);
    /* It is about to be popped. */
    void (*leave)(void *context, struct view_frame *frames, size_t depth);
    /* The node of the innermost frame has a figure of its own. */
    bool (*leaf)(void *context, struct view_frame *frames, size_t depth, const struct view_figure *self);
    void *context;
    bool marks; /* <signal> and [stack cut] stand among the frames */
};

int view_walk(const struct profile *profile, const struct view_nodes *nodes, struct view_entities *entities,
              const struct view_visitor *visitor, struct base_error *error);

#endif
