#include "base_error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void base_error_clear(struct base_error *error)
{
    if (error)
        error->text[0] = '\0';
}

int base_fail(struct base_error *error, int code, const char *format, ...)
{
    if (!error || error->text[0])
        return code;
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return code;
}

static int code_of_errno(int number)
{
    switch (number) {
    case EPERM:
    case EACCES:
        return BASE_EPERMISSION;
    case ENOENT:
    case ESRCH:
        return BASE_ENOTFOUND;
    case ENOMEM:
        return BASE_ENOMEM;
    default:
        return BASE_EIO;
    }
}

int base_fail_errno(struct base_error *error, int number, const char *format, ...)
{
    int code = code_of_errno(number);
    if (!error || error->text[0])
        return code;
    va_list args;
    va_start(args, format);
    int used = vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    size_t at = used < 0 ? 0 : (size_t)used < sizeof error->text ? (size_t)used : sizeof error->text - 1;
    snprintf(error->text + at, sizeof error->text - at, ": %s", strerror(number));
    return code;
}

int base_fail_context(struct base_error *error, int code, const char *format, ...)
{
    if (!error)
        return code;
    char text[sizeof error->text];
    memcpy(text, error->text, sizeof text);
    va_list args;
    va_start(args, format);
    int written = vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    size_t used = written < 0 ? 0 : (size_t)written;
    if (text[0] && used + 2 < sizeof error->text)
        snprintf(error->text + used, sizeof error->text - used, ": %.*s", (int)(sizeof text - used - 3),
                 text);
    return code;
}
