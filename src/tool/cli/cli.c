#include "cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base_text.h"
#include "cli_completion.h"
#include "cli_output.h"

enum { LINE_MOST = 2048 };

void cli_say(const char *format, ...)
{
    char line[LINE_MOST] = "tally: ";
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line + 7, sizeof line - 8, format, arguments);
    va_end(arguments);
    size_t end = length < 0 ? 7 : (size_t)length < sizeof line - 8 ? (size_t)length + 7 : sizeof line - 2;
    for (size_t i = 0; i < end; i++) {
        if ((unsigned char)line[i] < ' ' || line[i] == 127)
            line[i] = '?';
    }
    line[end] = '\n';
    cli_output_bytes(STDERR_FILENO, line, end + 1);
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

bool cli_parse(const struct base_options_command *command, int argc, char **argv, void *target,
               struct base_options_rest *rest, int *status)
{
    struct base_error error = {0};
    struct base_text help = {0};
    enum cli_shell shell;
    if (cli_completion_requested(argc, argv, &shell)) {
        cli_completion_command(shell, command, &help);
        *status = cli_output_text(&help);
        base_text_free(&help);
        return false;
    }
    int result = base_options_parse(command, argc, argv, target, rest, &error);
    if (result == BASE_OK)
        return true;
    if (result == BASE_OPTIONS_HELP) {
        base_options_help(command, 0, &help);
        *status = cli_output_text(&help);
        base_text_free(&help);
    } else {
        *status = cli_fail_command(argv[0], &error);
    }
    return false;
}
