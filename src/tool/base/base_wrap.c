#include "base_wrap.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base_utf8.h"

/* A figure and its unit are one word: how long a unit stands at `text`, with the blank before it; 0: none. */
static size_t unit_length(const char *text)
{
    static const char *const units[] = {"%", "ns", "µs",  "us",  "ms",  "s", "min",
                                        "h", "B",  "KiB", "MiB", "GiB", "Hz"};
    for (size_t i = 0; *text == ' ' && i < sizeof units / sizeof *units; i++) {
        size_t length = strlen(units[i]);
        if (!strncmp(text + 1, units[i], length) && !isalnum((unsigned char)text[1 + length]))
            return 1 + strcspn(text + 1, " ");
    }
    return 0;
}

void base_wrap(struct base_text *out, const char *words, unsigned column, unsigned indent, unsigned width)
{
    for (bool first = true; *words; first = false) {
        size_t length = strcspn(words, " ");
        size_t unit = length ? unit_length(words + length) : 0;
        if (unit && (isdigit((unsigned char)words[length - 1]) || words[length + 1] == '%'))
            length += unit;
        char *word = strndup(words, length);
        if (!word) {
            out->failed = true;
            return;
        }
        unsigned taken = base_utf8_width(word);
        bool breaks = !first && width && column + 1 + taken > width;
        base_text_add(out, first ? "" : breaks ? "\n" : " ");
        base_text_add_repeated(out, ' ', breaks ? indent : 0);
        base_text_add_bytes(out, words, length);
        free(word);
        column = breaks ? indent + taken : column + taken + !first;
        words += length + strspn(words + length, " ");
    }
}
