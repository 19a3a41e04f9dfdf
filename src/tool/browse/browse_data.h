/* browse_data.h - the figures that browsing looks at, computed once for a counter: the tree by function, each
 * function's self and total, who called whom. They are those of tally report (report.h says what they mean).
 * Context: tool; private to this module. */
#ifndef BROWSE_DATA_H
#define BROWSE_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "base_map.h"
#include "profile.h"
#include "view.h"
#include "view_calls.h"
#include "view_merge.h"

struct browse_function {
    struct view_figure self, total;
    uint32_t active; /* private: frames on the stack of the walk */
    bool seen;       /* in a stack or by a call */
};

/* Between two functions, by stacks, by calls or both. */
struct browse_edge {
    uint32_t caller, callee; /* entities */
    uint32_t active;         /* private */
    struct view_figure total;
};

struct browse_data {
    struct view_options options;
    struct view_context context;
    struct view_merge merge; /* branches and entities */
    struct view_calls calls;
    struct browse_function *functions; /* by entity */
    size_t function_count;
    struct browse_edge *edges;
    size_t edge_count, edge_capacity;
    struct base_map map; /* private: (caller, callee) -> edge */
    uint32_t *flat;      /* entities that are functions, by self */
    size_t flat_count;
    uint32_t *walk; /* all branches in the order of the tree */
    uint32_t *at;   /* where in `walk` a branch is */
    size_t walk_count;
};

/* `counter` NULL: the default one. The profile and the name of the counter must last as long. On failure
 * there is nothing to free; `data` may not be moved afterwards. */
int browse_data_open(struct browse_data *data, const struct profile *profile, const char *counter,
                     bool inlines, struct base_error *error);
void browse_data_close(struct browse_data *data);

#endif
