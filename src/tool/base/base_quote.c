#include "base_quote.h"

#include <string.h>

static const char plain_characters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%^";

void base_quote_inside(struct base_text *out, const char *text, const char *special)
{
    for (; *text; text++) {
        if (*text == '\'') /* ends the quotes, and begins them again behind it */
            base_text_add(out, "'\\''");
        else if (strchr(special, *text))
            base_text_addf(out, "\\%c", *text);
        else
            base_text_add_bytes(out, text, 1);
    }
}

void base_quote_word(struct base_text *line, const char *word)
{
    bool plain = *word && !word[strspn(word, plain_characters)];
    if (line->length)
        base_text_add(line, " ");
    if (plain) {
        base_text_add(line, word);
        return;
    }
    base_text_add(line, "'");
    base_quote_inside(line, word, "");
    base_text_add(line, "'");
}
