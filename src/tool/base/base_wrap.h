/* base_wrap.h - text broken into lines between its words. Context: tool, any thread. */
#ifndef BASE_WRAP_H
#define BASE_WRAP_H

#include "base_text.h"

/* Appends words from column `column` on, with line breaks where they would pass `width` (0: nowhere) and
 * `indent` blanks after each. A percent sign, or a unit, stays with its number. No line break at the end. */
void base_wrap(struct base_text *out, const char *words, unsigned column, unsigned indent, unsigned width);

#endif
