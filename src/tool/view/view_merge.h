/* view_merge.h - the calling-context tree as people read it: by function instead of by address, inlined
 * frames as frames. What the tree and the paths print. Context: tool. */
#ifndef VIEW_MERGE_H
#define VIEW_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "view.h"

/* What a further counter has at the nodes whose figures are a branch's own. */
struct view_beside {
    const char *title, *key, *unit;    /* of its column; in JSON; as counters have it */
    bool peak;                         /* the largest counts, not the sum */
    const struct view_figure *figures; /* by node */
};
enum { VIEW_BESIDE = 2 };

struct view_branch {
    uint32_t entity;
    uint32_t parent;     /* branch; 0 is the root, which stands for nothing */
    uint32_t depth;      /* of the root 0 */
    uint32_t node_flags; /* enum profile_node_flag of everything merged here */
    struct view_figure self, total;
    int64_t beside[VIEW_BESIDE];
};

/* A line or an address that samples of a branch were taken at. */
struct view_place {
    uint32_t branch;
    uint32_t file, line; /* string, number; line 0: unknown, then the address counts */
    uint32_t address;    /* index */
    struct view_figure figure;
};

struct view_merge {
    struct view_context *context;
    struct view_entities entities;
    struct view_branch *branches; /* parents before children */
    size_t count, capacity;
    uint32_t *children; /* by parent, hottest first */
    uint32_t *first;    /* children of b: children[first[b]] .. children[first[b + 1] - 1] */
    const struct view_beside *beside;
    size_t beside_count; /* at most VIEW_BESIDE */
    bool plain;          /* without inlined functions */
    bool want_places;
    struct view_place *places; /* by branch, hottest first; with want_places */
    size_t place_count, place_capacity;
    struct base_map map; /* private */
};

/* Zero it but for plain, want_places, beside and beside_count first. view_merge_free is right in any
 * case. */
int view_merge_build(struct view_context *context, struct view_merge *merge);
void view_merge_free(struct view_merge *merge);

/* The first place of a branch; they lie together up to another branch or place_count. */
size_t view_merge_places(const struct view_merge *merge, uint32_t branch);

#endif
