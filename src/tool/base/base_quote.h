/* base_quote.h - words as a shell reads them. Context: tool. */
#ifndef BASE_QUOTE_H
#define BASE_QUOTE_H

#include "base_text.h"

/* Appends a word to a command line, after a blank unless it is the first: as it is where every character
 * is plain, else in single quotes. */
void base_quote_word(struct base_text *line, const char *word);

/* Appends what stands between single quotes that the caller writes. The characters of `special` get a
 * backslash besides. */
void base_quote_inside(struct base_text *out, const char *text, const char *special);

#endif
