/* cli_completion.h - completions for shells, made from the tables of options that the commands are parsed by:
 * there is no second list to keep in step.
 *
 * A script has a head, a part for each command and a tail. Only a command knows its table; it prints its part
 * when it is run as `tally NAME --completion=SHELL`, which cli_parse understands for all and which is for
 * `tally completion` alone.
 *
 * Context: tool. Sources: bash(1), Programmable Completion; zshcompsys(1), _arguments; fish, complete. */
#ifndef CLI_COMPLETION_H
#define CLI_COMPLETION_H

#include <stdbool.h>
#include <stddef.h>

#include "base_options.h"
#include "base_text.h"

enum cli_shell { CLI_BASH, CLI_ZSH, CLI_FISH, CLI_SHELLS };

struct cli_named {
    const char *name, *summary;
};

/* What the head needs: all commands. */
void cli_completion_head(enum cli_shell shell, const struct cli_named *commands, size_t count,
                         struct base_text *out);
void cli_completion_command(enum cli_shell shell, const struct base_options_command *command,
                            struct base_text *out);
void cli_completion_tail(enum cli_shell shell, struct base_text *out);

/* "--completion=bash"; the argument for `shell`, and back. */
const char *cli_completion_request(enum cli_shell shell);
bool cli_completion_requested(int argc, char **argv, enum cli_shell *shell);

#endif
