/* export_tree.h - the calling-context tree as exports need it: branches are frames instead of addresses,
 * stacks that look alike are one, processes or threads stand apart if wanted, and only what the filters leave
 * is in it.
 *
 * The model's tree knows no threads, its cells do: a node that two processes share becomes two branches when
 * processes stand apart. Branch 0 is none, and the parent of the outermost ones; a parent's number is lower
 * than its child's. Context: tool; private to this module. */
#ifndef EXPORT_TREE_H
#define EXPORT_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_map.h"
#include "export.h"
#include "export_frames.h"

enum export_apart {
    EXPORT_TOGETHER,
    EXPORT_BY_NAME,    /* processes of one name together, a frame above them: "bench" */
    EXPORT_BY_PROCESS, /* "bench 4711" */
    EXPORT_BY_THREAD,  /* "worker 4712" */
};

struct export_branch {
    uint32_t parent, frame;
    uint32_t thread; /* the first one that was met here */
};

struct export_figure {
    int64_t value;
    uint64_t samples;
};

struct export_tree {
    struct export_frames *frames;
    enum export_apart apart;
    bool marks; /* <signal> and [stack cut] stand among the frames */
    struct export_branch *branches;
    size_t count, capacity;
    uint32_t *leaf;                  /* by cell: its branch; 0: not taken */
    uint32_t *first, *next;          /* children of b: next[first[b]] .. next[first[b + 1] - 1] */
    struct base_map children, nodes; /* private */
    uint32_t *climb;                 /* private */
    size_t climb_capacity;
};

/* Zero it, set the first three members. Only cells of the options' counter, of any if that is 0. False when
 * memory ran out; export_tree_free is right in any case. */
bool export_tree_build(struct export_tree *tree, const struct export_options *options);
void export_tree_free(struct export_tree *tree);

/* The branch of a node for a thread, as cells have it; 0: no cell that was taken is there or below. */
uint32_t export_tree_branch(const struct export_tree *tree, uint32_t node, uint32_t thread);

/* Does the part that is exported have this cell, this edge? */
bool export_tree_takes(const struct profile *profile, const struct export_options *options,
                       const struct profile_cell *cell);
/* Calls have no CPU and no time: of a part of either none are taken. */
bool export_tree_has_calls(const struct export_options *options);
bool export_tree_takes_edge(const struct profile *profile, const struct export_options *options,
                            const struct profile_edge *edge);

/* The figures of one counter at each branch, and at or below it (`total` may be NULL); both of tree->count
 * items. Peaks are not added up: the largest counts. */
void export_tree_figures(const struct export_tree *tree, uint16_t counter, struct export_figure *self,
                         struct export_figure *total);
void export_tree_add(const struct profile *profile, uint16_t counter, struct export_figure *sum,
                     const struct export_figure *more);

/* Depth first, children in order of their numbers. False from `enter` stops. Returns false then, or when
 * memory ran out. */
struct export_visitor {
    bool (*enter)(void *context, uint32_t branch);
    void (*leave)(void *context, uint32_t branch); /* may be NULL */
    void *context;
};
bool export_tree_walk(const struct export_tree *tree, const struct export_visitor *visitor);

#endif
