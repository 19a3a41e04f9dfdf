/* export_flat.h - figures of functions: in themselves, and in all they call, each stack counted once however
 * often a function recurs in it. Context: tool; private to this module. */
#ifndef EXPORT_FLAT_H
#define EXPORT_FLAT_H

#include <stdbool.h>
#include <stdint.h>

#include "export_tree.h"

struct export_flat {
    struct export_figure *self, *total; /* by function of the tree's frames */
    struct export_figure all;           /* everything that was taken */
    double effective;                   /* samples that carry its evidence (view_select.c has the source) */
    size_t count;
};

/* Of one counter. Zero it first; false when memory ran out; export_flat_free is right in any case. */
bool export_flat_sum(const struct export_tree *tree, uint16_t counter, struct export_flat *flat);
void export_flat_free(struct export_flat *flat);

/* The share of a figure in everything, and the ends of its 95 % interval (profile_statistics.h). */
struct export_share {
    double share, low, high;
};
struct export_share export_flat_share(const struct export_flat *flat, const struct export_figure *figure);

#endif
