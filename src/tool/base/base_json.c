#include "base_json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base_utf8.h"

static void quote(struct base_text *out, const char *value)
{
    size_t length;
    base_text_add(out, "\"");
    for (; *value; value += length) {
        uint32_t character = base_utf8_next(value, &length);
        if (character == BASE_UTF8_INVALID)
            base_text_add(out, "\xef\xbf\xbd");
        else if (character == '"' || character == '\\')
            base_text_addf(out, "\\%c", (int)character);
        else if (character < 0x10000 && !base_utf8_printable(character))
            base_text_addf(out, "\\u%04x", (unsigned)character);
        else
            base_text_add_bytes(out, value, length);
    }
    base_text_add(out, "\"");
}

static void break_line(struct base_json *json, unsigned depth)
{
    base_text_add(json->out, "\n");
    base_text_add_repeated(json->out, ' ', (size_t)2 * depth);
}

/* What stands before any item: the comma, the line break, the key. */
static void item(struct base_json *json, const char *key)
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
        quote(json->out, key);
        base_text_add(json->out, ": ");
    }
}

void base_json_begin(struct base_json *json, const char *key, char bracket)
{
    item(json, key);
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
    item(json, key);
    if (value)
        quote(json->out, value);
    else
        base_text_add(json->out, "null");
}

void base_json_integer(struct base_json *json, const char *key, int64_t value)
{
    item(json, key);
    base_text_addf(json->out, "%lld", (long long)value);
}

void base_json_unsigned(struct base_json *json, const char *key, uint64_t value)
{
    item(json, key);
    base_text_addf(json->out, "%llu", (unsigned long long)value);
}

void base_json_number(struct base_json *json, const char *key, double value)
{
    char digits[40];
    item(json, key);
    snprintf(digits, sizeof digits, "%.8g", value);
    char *comma = strchr(digits, ','); /* the decimal point of some locales */
    if (comma)
        *comma = '.';
    base_text_add(json->out, isfinite(value) ? digits : "null");
}

void base_json_bool(struct base_json *json, const char *key, bool value)
{
    item(json, key);
    base_text_add(json->out, value ? "true" : "false");
}
