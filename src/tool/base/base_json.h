/* base_json.h - writes JSON (RFC 8259) into a text, one call an item; it keeps the commas, the escapes and
 * the line breaks in order, so that a writer of figures cannot produce an invalid document.
 *
 * Life cycle: `struct base_json json = {.out = &text, .lines = 2}`, then begin/end and items. `key` is NULL
 * inside arrays and for the outermost value, and the name of the member inside objects. Text of unknown
 * origin is welcome: invalid UTF-8 becomes U+FFFD, control characters are escaped. Running out of memory
 * shows in out->failed. Context: tool. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base_text.h"

struct base_json {
    struct base_text *out;
    unsigned lines;  /* levels whose items begin on a line of their own; deeper ones stay on one line */
    unsigned depth;  /* private from here on */
    uint64_t filled; /* bit d: the container at depth d has an item already */
};

/* At most 60 levels. `bracket` is '{' or '['. */
void base_json_begin(struct base_json *json, const char *key, char bracket);
void base_json_end(struct base_json *json, char bracket); /* '}' or ']' */

void base_json_string(struct base_json *json, const char *key, const char *value); /* NULL gives null */
void base_json_integer(struct base_json *json, const char *key, int64_t value);
void base_json_unsigned(struct base_json *json, const char *key, uint64_t value);
void base_json_number(struct base_json *json, const char *key,
                      double value); /* 8 digits; null when not finite */
void base_json_bool(struct base_json *json, const char *key, bool value);

/* The string alone, in its quotes. */
void base_json_quote(struct base_text *out, const char *value);

#endif
