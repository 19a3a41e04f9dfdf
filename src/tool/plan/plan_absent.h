/* plan_absent.h - the message about a function that the user named and no program has: which other may be
 * meant.
 *
 * Made at the end, when there is such a name. Context: tool. */
#ifndef PLAN_ABSENT_H
#define PLAN_ABSENT_H

#include "base_error.h"
#include "elf_image.h"
#include "symbol_near.h"

/* Adds the functions of an image. `near` is a struct symbol_near: a sample_image_visit. */
void plan_absent_look(void *near, const struct elf_image *elf);

/* `where` is what was searched; `place` goes before the sentence: "", or "FILE:LINE: ". */
void plan_absent_explain(const struct symbol_near *near, const char *name, const char *where,
                         const char *place, struct base_error *why);

#endif
