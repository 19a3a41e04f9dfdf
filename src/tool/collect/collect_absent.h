/* collect_absent.h - what is said of a function that somebody named and no program has: which other may be
 * meant.
 *
 * At the end, when there is such a name. Context: tool. */
#ifndef COLLECT_ABSENT_H
#define COLLECT_ABSENT_H

#include "base_error.h"
#include "collect_image.h"
#include "symbol_near.h"

/* Adds the functions of an image, also of one that nothing else needed, as far as it is still where it
 * was. */
void collect_absent_look(struct symbol_near *near, const struct collect_image *image);

/* `where` is what was looked through; `place` goes before the sentence: "", or "FILE:LINE: ". */
void collect_absent_tell(const struct symbol_near *near, const char *name, const char *where,
                         const char *place, struct base_error *why);

#endif
