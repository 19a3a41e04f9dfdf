/* check_json.h - a second opinion on what base_json writes: a strict reader of RFC 8259 that keeps nothing.
 * Bytes of strings must be valid UTF-8, control characters escaped. */
#ifndef CHECK_JSON_H
#define CHECK_JSON_H

/* NULL when `text` is one JSON value and white space, else where it stops being one. */
const char *check_json(const char *text);

#endif
