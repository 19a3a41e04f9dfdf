/* base_text.h - a string that grows.
 *
 * Life cycle: `struct base_text t = {0}`, append, read t.data (always terminated once something was
 * appended; base_text_string never returns NULL), base_text_free. Also used as a byte buffer: `length`
 * counts bytes, zero bytes are kept. When memory runs out the text stops growing and `failed` is set;
 * callers that must know ask once at the end.
 * Context: tool. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct base_text {
    char *data;
    size_t length, capacity;
    bool failed;
};

void base_text_free(struct base_text *text);
void base_text_clear(struct base_text *text); /* keeps the memory */
const char *base_text_string(const struct base_text *text);

void base_text_add(struct base_text *text, const char *string);
void base_text_add_bytes(struct base_text *text, const void *bytes, size_t length);
void base_text_addf(struct base_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void base_text_add_repeated(struct base_text *text, char character, size_t count);

/* Hands the bytes (malloc, terminated) to the caller and empties the text; NULL when it failed. */
char *base_text_detach(struct base_text *text);

#endif
