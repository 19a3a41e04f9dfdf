#include "base_json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base_utf8.h"

/* 0: the character stays as it is. */
static size_t json_escape(uint32_t character, char bytes[8])
{
    if (character == BASE_UTF8_INVALID)
        return (size_t)snprintf(bytes, 8, "\xef\xbf\xbd");
    if (character == '"' || character == '\\')
        return (size_t)snprintf(bytes, 8, "\\%c", (int)character);
    if (character < 0x10000 && !base_utf8_printable(character))
        return (size_t)snprintf(bytes, 8, "\\u%04x", (unsigned)character & 0xffff);
    return 0;
}

void base_json_quote(struct base_text *out, const char *value)
{
    const char *plain = value; /* what can be copied as it is begins here */
    size_t length;
    base_text_add(out, "\"");
    for (; *value; value += length) {
        char escaped[8];
        size_t escaped_length = json_escape(base_utf8_next(value, &length), escaped);
        if (!escaped_length)
            continue;
        base_text_add_bytes(out, plain, (size_t)(value - plain));
        base_text_add_bytes(out, escaped, escaped_length);
        plain = value + length;
    }
    base_text_add_bytes(out, plain, (size_t)(value - plain));
    base_text_add(out, "\"");
}

static void break_line(struct base_json *json, unsigned depth)
{
    base_text_add(json->out, "\n");
    base_text_add_repeated(json->out, ' ', (size_t)2 * depth);
}

/* What stands before any item: the comma, the line break, the key. */
static void begin_json_item(struct base_json *json, const char *key)
{
    uint64_t bit = UINT64_C(1) << json->depth;
    bool first = !(json->filled & bit);
    json->filled |= bit;
    if (json->depth) {
        if (!first)
            base_text_add(json->out, ",");
        if (json->depth <= json->lines)
            break_line(json, json->depth);
        else if (!first)
            base_text_add(json->out, " ");
    }
    if (key) {
        base_json_quote(json->out, key);
        base_text_add(json->out, ": ");
    }
}

void base_json_begin(struct base_json *json, const char *key, char bracket)
{
    begin_json_item(json, key);
    base_text_add_bytes(json->out, &bracket, 1);
    json->depth++;
    json->filled &= ~(UINT64_C(1) << json->depth);
}

void base_json_end(struct base_json *json, char bracket)
{
    bool filled = json->filled & (UINT64_C(1) << json->depth);
    json->depth--;
    if (filled && json->depth < json->lines)
        break_line(json, json->depth);
    base_text_add_bytes(json->out, &bracket, 1);
    if (!json->depth)
        base_text_add(json->out, "\n");
}

void base_json_string(struct base_json *json, const char *key, const char *value)
{
    begin_json_item(json, key);
    if (value)
        base_json_quote(json->out, value);
    else
        base_text_add(json->out, "null");
}

void base_json_integer(struct base_json *json, const char *key, int64_t value)
{
    begin_json_item(json, key);
    base_text_addf(json->out, "%lld", (long long)value);
}

void base_json_unsigned(struct base_json *json, const char *key, uint64_t value)
{
    begin_json_item(json, key);
    base_text_addf(json->out, "%llu", (unsigned long long)value);
}

void base_json_number(struct base_json *json, const char *key, double value)
{
    char digits[40];
    begin_json_item(json, key);
    snprintf(digits, sizeof digits, "%.8g", value);
    char *comma = strchr(digits, ','); /* the decimal point of some locales */
    if (comma)
        *comma = '.';
    base_text_add(json->out, isfinite(value) ? digits : "null");
}

void base_json_bool(struct base_json *json, const char *key, bool value)
{
    begin_json_item(json, key);
    base_text_add(json->out, value ? "true" : "false");
}
