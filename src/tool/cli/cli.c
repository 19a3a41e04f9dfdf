#include "cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base_terminal.h"
#include "base_text.h"
#include "base_utf8.h"
#include "base_wrap.h"
#include "base_write.h"

#define PREFIX "tally: "
enum { LINE_MOST = 2048, PREFIX_LENGTH = sizeof PREFIX - 1 };

/* `line` begins with the prefix, and has room for one byte more. On a terminal it is broken between words. */
static void say_line(char *line, size_t length)
{
    struct base_text wrapped = {0};
    unsigned width = base_terminal_is(STDERR_FILENO) ? base_terminal_width(STDERR_FILENO) : 0;
    line[length] = '\0';
    bool breaks = width && base_utf8_width(line) > width;
    if (breaks) {
        base_text_add_bytes(&wrapped, line, PREFIX_LENGTH);
        base_wrap(&wrapped, line + PREFIX_LENGTH, PREFIX_LENGTH, PREFIX_LENGTH, width);
        base_text_add(&wrapped, "\n");
    }
    line[length] = '\n';
    if (breaks && !wrapped.failed)
        base_write(STDERR_FILENO, base_text_string(&wrapped), wrapped.length);
    else
        base_write(STDERR_FILENO, line, length + 1);
    base_text_free(&wrapped);
}

void cli_say(const char *format, ...)
{
    char line[LINE_MOST] = PREFIX;
    va_list arguments;
    va_start(arguments, format);
    const size_t room = sizeof line - PREFIX_LENGTH - 1;
    int length = vsnprintf(line + PREFIX_LENGTH, room, format, arguments);
    va_end(arguments);
    size_t end = PREFIX_LENGTH + (length < 0 ? 0 : (size_t)length < room ? (size_t)length : room - 1);
    for (size_t i = 0; i < end; i++) {
        if ((unsigned char)line[i] < ' ' || line[i] == 127)
            line[i] = '?';
    }
    say_line(line, end);
}

int cli_fail(const struct base_error *error)
{
    cli_say("%s", error->text[0] ? error->text : "something went wrong");
    return CLI_FAILED;
}

int cli_fail_command(const char *name, const struct base_error *error)
{
    if (!strncmp(name, "tally ", 6))
        name += 6;
    cli_say("%s: %s", name, error->text);
    return CLI_FAILED;
}
