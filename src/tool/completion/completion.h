/* completion.h - completions for shells, made from the tables of options that the commands are parsed by:
 * there is no second list to keep in step.
 *
 * A script has a head, a part for each command and a tail. Only a command knows its table; it prints its part
 * when it is run as `tally NAME --completion=SHELL`, which cli_parse understands for all and which is for
 * `tally completion` alone.
 *
 * Context: tool. Sources: bash(1), Programmable Completion; zshcompsys(1), _arguments; fish, complete. */
#ifndef COMPLETION_H
#define COMPLETION_H

#include <stdbool.h>
#include <stddef.h>

#include "base_options.h"
#include "base_text.h"

enum completion_shell { COMPLETION_BASH, COMPLETION_ZSH, COMPLETION_FISH, COMPLETION_SHELLS };

struct completion_named {
    const char *name, *summary;
};

/* What the head needs: all commands. */
void completion_head(enum completion_shell shell, const struct completion_named *commands, size_t count,
                     struct base_text *out);
void completion_of_command(enum completion_shell shell, const struct base_options_command *command,
                           struct base_text *out);
void completion_tail(enum completion_shell shell, struct base_text *out);

/* "--completion=bash"; the argument for `shell`, and back. */
const char *completion_request(enum completion_shell shell);
bool completion_requested(int argc, char **argv, enum completion_shell *shell);

#endif
