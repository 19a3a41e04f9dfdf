#include "export_output.h"

#include <string.h>

#include "base_json.h"
#include "base_utf8.h"

enum { DIGITS = 20 };

void export_output_flush(struct export_output *output)
{
    if (output->used && !output->failed)
        output->failed = !output->sink(output->context, output->bytes, output->used);
    output->used = 0;
}

void export_output_bytes(struct export_output *output, const void *bytes, size_t length)
{
    if (length > EXPORT_OUTPUT_BYTES - output->used)
        export_output_flush(output);
    if (length > EXPORT_OUTPUT_BYTES) {
        if (!output->failed)
            output->failed = !output->sink(output->context, bytes, length);
        return;
    }
    if (length)
        memcpy(output->bytes + output->used, bytes, length);
    output->used += length;
}

void export_output_text(struct export_output *output, const char *text)
{
    export_output_bytes(output, text, strlen(text));
}

void export_output_unsigned(struct export_output *output, uint64_t value)
{
    char digits[DIGITS];
    size_t at = DIGITS;
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    export_output_bytes(output, digits + at, DIGITS - at);
}

void export_output_integer(struct export_output *output, int64_t value)
{
    if (value < 0)
        export_output_bytes(output, "-", 1);
    export_output_unsigned(output, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

/* --- names --- */

/* A character that a format cannot take as it is. */
static void add_special(struct base_text *out, uint32_t character, enum export_escape escape)
{
    if (escape == EXPORT_ESCAPE_CSV)
        base_text_add(out, "\"\"");
    else if (character == ';')
        base_text_add(out, ":");
    else
        base_utf8_escape(out, character);
}

static bool is_special(uint32_t character, enum export_escape escape)
{
    if (escape == EXPORT_ESCAPE_CSV)
        return character == '"';
    return (character == ';' && escape == EXPORT_ESCAPE_FOLDED) || !base_utf8_printable(character);
}

static void add_characters(struct base_text *out, const char *name, enum export_escape escape)
{
    size_t length;
    const char *plain = name; /* what can be copied as it is begins here */
    for (; *name; name += length) {
        uint32_t character = base_utf8_next(name, &length);
        bool valid = character != BASE_UTF8_INVALID;
        if (valid && !is_special(character, escape))
            continue;
        base_text_add_bytes(out, plain, (size_t)(name - plain));
        plain = name + length;
        if (valid)
            add_special(out, character, escape);
        else
            base_text_add(out, "\xef\xbf\xbd");
    }
    base_text_add_bytes(out, plain, (size_t)(name - plain));
}

/* RFC 4180; fields with blanks at an end are quoted too, some readers would strip them. */
static bool is_quoted(const char *name, enum export_escape escape)
{
    size_t length = strlen(name);
    return escape == EXPORT_ESCAPE_CSV &&
           (strpbrk(name, ",\"\r\n") || (length && (name[0] == ' ' || name[length - 1] == ' ')));
}

void export_output_escape(struct base_text *out, const char *name, enum export_escape escape)
{
    if (escape == EXPORT_ESCAPE_JSON) {
        base_json_quote(out, name);
        return;
    }
    bool quoted = is_quoted(name, escape);
    base_text_add(out, quoted ? "\"" : "");
    add_characters(out, name, escape);
    base_text_add(out, quoted ? "\"" : "");
}

void export_output_name(struct export_output *output, const char *name, enum export_escape escape)
{
    struct base_text text = {0};
    export_output_escape(&text, name, escape);
    export_output_bytes(output, base_text_string(&text), text.length);
    output->no_memory |= text.failed;
    base_text_free(&text);
}
