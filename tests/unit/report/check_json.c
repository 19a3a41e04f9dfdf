#include "check_json.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base_utf8.h"

struct reader {
    const char *at;
    unsigned depth;
};

static bool value(struct reader *reader);

static void blanks(struct reader *reader)
{
    reader->at += strspn(reader->at, " \t\r\n");
}

static bool take(struct reader *reader, char character)
{
    blanks(reader);
    if (*reader->at != character)
        return false;
    reader->at++;
    return true;
}

static bool escape(struct reader *reader)
{
    char kind = *reader->at++;
    if (kind != 'u')
        return kind && strchr("\"\\/bfnrt", kind);
    for (int i = 0; i < 4; i++, reader->at++)
        if (!*reader->at || !strchr("0123456789abcdefABCDEF", *reader->at))
            return false;
    return true;
}

static bool string(struct reader *reader)
{
    if (!take(reader, '"'))
        return false;
    while (*reader->at != '"') {
        size_t length;
        if ((unsigned char)*reader->at < 0x20 || base_utf8_next(reader->at, &length) == BASE_UTF8_INVALID)
            return false;
        reader->at += length;
        if (reader->at[-1] == '\\' && length == 1 && !escape(reader))
            return false;
    }
    reader->at++;
    return true;
}

static bool digits(struct reader *reader)
{
    size_t count = strspn(reader->at, "0123456789");
    reader->at += count;
    return count > 0;
}

static bool number(struct reader *reader)
{
    if (*reader->at == '-')
        reader->at++;
    if (*reader->at == '0')
        reader->at++;
    else if (!digits(reader))
        return false;
    if (*reader->at == '.' && (reader->at++, !digits(reader)))
        return false;
    if (*reader->at != 'e' && *reader->at != 'E')
        return true;
    reader->at++;
    if (*reader->at == '+' || *reader->at == '-')
        reader->at++;
    return digits(reader);
}

static bool word(struct reader *reader)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < 3; i++)
        if (!strncmp(reader->at, words[i], strlen(words[i]))) {
            reader->at += strlen(words[i]);
            return true;
        }
    return false;
}

static bool members(struct reader *reader, char end)
{
    if (take(reader, end))
        return true;
    do {
        if (end == '}' && (!string(reader) || !take(reader, ':')))
            return false;
        if (!value(reader))
            return false;
    } while (take(reader, ','));
    return take(reader, end);
}

static bool value(struct reader *reader)
{
    blanks(reader);
    if (*reader->at == '{' || *reader->at == '[') {
        bool right = ++reader->depth < 30 && members(reader, *reader->at++ == '{' ? '}' : ']');
        reader->depth--;
        return right;
    }
    if (*reader->at == '"')
        return string(reader);
    return strchr("-0123456789", *reader->at) && *reader->at ? number(reader) : word(reader);
}

const char *check_json(const char *text)
{
    struct reader reader = {text, 0};
    bool right = value(&reader);
    blanks(&reader);
    return right && !*reader.at ? NULL : reader.at;
}
