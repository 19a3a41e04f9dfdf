/* base_utf8.h - UTF-8 text of unknown origin (names of functions, files, processes), looked at one character
 * at a time. Source: RFC 3629; overlong forms, surrogates and values over 10FFFF are invalid. Context:
 * anywhere in the tool. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_text.h"

#define BASE_UTF8_INVALID UINT32_MAX

/* The character at `text` (terminated, not at its end) and in *length the bytes it takes. A byte that begins
 * no valid character gives BASE_UTF8_INVALID and length 1. */
uint32_t base_utf8_next(const char *text, size_t *length);

/* Columns of a terminal that the character takes: 0 (combining, zero-width), 1, or 2 (wide East Asian,
 * emoji). A short table, not the whole standard; it does not depend on the locale. */
unsigned base_utf8_columns(uint32_t character);

/* False for what must not reach a terminal as it is: control characters, and those that change the direction
 * or the order of text. */
bool base_utf8_printable(uint32_t character);

/* Appends the character as \xNN, or \uNNNN with as many digits as it needs. */
void base_utf8_escape(struct base_text *out, uint32_t character);
/* Appends a text as it may reach a terminal: what is not printable escaped, an invalid byte and (with
 * `ascii`) everything else beyond ASCII as '?'. */
void base_utf8_clean(struct base_text *out, const char *text, bool ascii);

/* Columns of a whole terminated text; an invalid byte counts as one. */
unsigned base_utf8_width(const char *text);

#endif
