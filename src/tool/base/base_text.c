#include "base_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void base_text_free(struct base_text *text)
{
    free(text->data);
    *text = (struct base_text){0};
}

void base_text_clear(struct base_text *text)
{
    text->length = 0;
    if (text->data)
        text->data[0] = '\0';
}

const char *base_text_string(const struct base_text *text)
{
    return text->data ? text->data : "";
}

static bool reserve_bytes(struct base_text *text, size_t more)
{
    if (text->failed)
        return false;
    size_t needed = text->length + more + 1;
    if (needed <= text->capacity)
        return true;
    size_t capacity = text->capacity ? text->capacity : 64;
    while (capacity < needed)
        capacity *= 2;
    char *data = realloc(text->data, capacity);
    if (!data) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

void base_text_add_bytes(struct base_text *text, const void *bytes, size_t length)
{
    if (!reserve_bytes(text, length))
        return;
    if (length)
        memcpy(text->data + text->length, bytes, length);
    text->length += length;
    text->data[text->length] = '\0';
}

void base_text_add(struct base_text *text, const char *string)
{
    base_text_add_bytes(text, string, strlen(string));
}

void base_text_add_repeated(struct base_text *text, char character, size_t count)
{
    if (!reserve_bytes(text, count))
        return;
    memset(text->data + text->length, character, count);
    text->length += count;
    text->data[text->length] = '\0';
}

void base_text_addf(struct base_text *text, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length >= 0 && reserve_bytes(text, (size_t)length)) {
        vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
        text->length += (size_t)length;
    }
    va_end(again);
}

char *base_text_detach(struct base_text *text)
{
    char *data = NULL;
    if (!text->failed && reserve_bytes(text, 0)) {
        text->data[text->length] = '\0';
        data = text->data;
        *text = (struct base_text){0};
        return data;
    }
    base_text_free(text);
    return NULL;
}
