/* annotate_arrows.h - arrows beside a listing, from where code jumps to where it lands.
 *
 *      ╭─   a jump forwards
 *     ╭│▶   a loop's header
 *     │╰▶
 *     ╰──   the jump back
 *
 * Each arrow has a lane of its own over the rows it spans; short ones lie nearest to the text. Where more
 * overlap than there are lanes for, the longest are left out. Context: anywhere in the tool. */
#ifndef ANNOTATE_ARROWS_H
#define ANNOTATE_ARROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_text.h"

enum { ANNOTATE_ARROWS_LANES = 6 };
#define ANNOTATE_ARROWS_NONE UINT32_MAX

struct annotate_arrow {
    uint32_t from, to; /* rows */
    uint32_t lane;     /* from the text outwards; ANNOTATE_ARROWS_NONE: not drawn */
};

/* Gives out lanes; sorts the arrows by their first row. Returns how many lanes are in use; *ok is false when
 * memory ran out. */
unsigned annotate_arrows_place(struct annotate_arrow *arrows, size_t count, unsigned most, bool *ok);

/* What stands beside a row: `lanes` + 2 columns, at most 64 lanes. */
void annotate_arrows_row(const struct annotate_arrow *arrows, size_t count, unsigned lanes, uint32_t row,
                         bool ascii, struct base_text *out);

#endif
