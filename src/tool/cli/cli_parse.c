#include "base_text.h"
#include "cli.h"
#include "cli_output.h"
#include "completion.h"

bool cli_parse(const struct base_options_command *command, int argc, char **argv, void *target,
               struct base_options_rest *rest, int *status)
{
    struct base_error error = {0};
    struct base_text help = {0};
    enum completion_shell shell;
    if (completion_requested(argc, argv, &shell)) {
        completion_of_command(shell, command, &help);
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
