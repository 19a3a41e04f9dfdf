/* annotate_places.h - self and total of anything that addresses belong to: functions, lines, instructions,
 * loops.
 *
 * Each address of the profile lies in some places (a line, the loops around it ...), which the caller numbers
 * from 1. One walk over the tree then gives each place its figures: self, of samples whose innermost frame
 * lies in it; total, of samples with any frame in it, counted once however often it recurs in the stack.
 * Context: tool. */
#ifndef ANNOTATE_PLACES_H
#define ANNOTATE_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "view.h"

struct annotate_places {
    uint32_t *run_of; /* by address: where its run begins in `runs`; 0: it lies nowhere */
    uint32_t *runs;   /* of: length, places */
    size_t run_count, run_capacity;
    uint32_t last;                    /* the highest place */
    struct view_figure *self, *total; /* by place, after annotate_places_sum */
};

/* False when memory ran out; annotate_places_free is right in any case. */
bool annotate_places_init(struct annotate_places *places, const struct profile *profile);
void annotate_places_free(struct annotate_places *places);

/* `address` (an index) lies in `place`, too. All calls for one address come one after another. False when
 * memory ran out. */
bool annotate_places_add(struct annotate_places *places, uint32_t address, uint32_t place);
/* The places of an address. */
const uint32_t *annotate_places_of(const struct annotate_places *places, uint32_t address, size_t *count);

/* Fills self and total. */
int annotate_places_sum(struct view_context *context, struct annotate_places *places);

#endif
