/* report_places.h - self and total of anything that addresses belong to: functions, lines, instructions,
 * loops.
 *
 * Each address of the profile lies in some places (a line, the loops around it ...), which the caller numbers
 * from 1. One walk over the tree then gives each place its figures: self, of samples whose innermost frame
 * lies in it; total, of samples with any frame in it, counted once however often it recurs in the stack.
 * Context: tool. */
#ifndef REPORT_PLACES_H
#define REPORT_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report_view.h"

struct report_places {
    uint32_t *run_of; /* by address: where its run begins in `runs`; 0: it lies nowhere */
    uint32_t *runs;   /* of: length, places */
    size_t run_count, run_capacity;
    uint32_t last;                      /* the highest place */
    struct report_figure *self, *total; /* by place, after report_places_sum */
};

/* False when memory ran out; report_places_free is right in any case. */
bool report_places_init(struct report_places *places, const struct profile *profile);
void report_places_free(struct report_places *places);

/* `address` (an index) lies in `place`, too. All calls for one address come one after another. False when
 * memory ran out. */
bool report_places_add(struct report_places *places, uint32_t address, uint32_t place);
/* The places of an address. */
const uint32_t *report_places_of(const struct report_places *places, uint32_t address, size_t *count);

/* Fills self and total. */
int report_places_sum(struct report_context *context, struct report_places *places);

#endif
