/* tally completion: scripts that complete tally's commands and options in a shell. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "cli_output.h"
#include "completion.h"

static const struct base_option completion_options[] = {{0}};

static const char *const completion_notes[] = {
    "  eval \"$(tally completion bash)\"        in ~/.bashrc",
    "  eval \"$(tally completion zsh)\"         in ~/.zshrc, after compinit",
    "  tally completion fish | source         in ~/.config/fish/config.fish",
    "Where tally is installed by make install, the shells find them by themselves.",
    NULL,
};

static const struct base_options_command completion_command = {
    .name = "tally completion",
    .synopsis = {"bash|zsh|fish"},
    .summary = "Print a script that completes tally's commands, options and their values in a shell.",
    .options = completion_options,
    .minimum_arguments = 1,
    .maximum_arguments = 1,
    .arguments = "bash|zsh|fish",
    .notes = completion_notes,
};

/* --- the commands there are --- */

struct commands {
    const struct cli_listed *all;
    struct completion_named *items;
    size_t count;
};

static bool list_commands(struct commands *commands, const struct cli_listed *all, size_t count)
{
    commands->all = all;
    commands->count = count;
    commands->items = calloc(count, sizeof *commands->items);
    for (size_t i = 0; commands->items && i < count; i++)
        commands->items[i] = (struct completion_named){all[i].name, all[i].summary};
    return commands->items;
}

/* --- the script --- */

static int completion_print_text(struct base_text *text)
{
    int status = cli_output_text(text);
    base_text_free(text);
    return status;
}

/* Each command prints its own part, straight after what was printed before. */
static int print_parts(const struct commands *commands, enum completion_shell shell)
{
    int status = CLI_OK;
    for (size_t i = 0; i < commands->count && status == CLI_OK; i++) {
        char *name = strdup(commands->items[i].name), *request = strdup(completion_request(shell));
        char *arguments[] = {name, request, NULL};
        status = name && request ? commands->all[i].run(2, arguments) : CLI_FAILED;
        free(name);
        free(request);
    }
    return status;
}

static int print_script(const struct commands *commands, enum completion_shell shell)
{
    struct base_text head = {0}, tail = {0};
    completion_head(shell, commands->items, commands->count, &head);
    int status = completion_print_text(&head);
    if (status == CLI_OK)
        status = print_parts(commands, shell);
    completion_tail(shell, &tail);
    int last = status == CLI_OK ? completion_print_text(&tail) : status;
    base_text_free(&tail);
    return last;
}

static int find_shell(const char *name, enum completion_shell *shell, struct base_error *error)
{
    static const char *const names[COMPLETION_SHELLS] = {"bash", "zsh", "fish"};
    for (int i = 0; i < COMPLETION_SHELLS; i++)
        if (!strcmp(name, names[i])) {
            *shell = (enum completion_shell)i;
            return BASE_OK;
        }
    return base_fail(error, BASE_EUSAGE, "completion: no completions for '%s', only for bash, zsh and fish",
                     name);
}

int cmd_completion(int argc, char **argv, const struct cli_listed *all, size_t count)
{
    struct base_options_rest rest;
    struct base_error error = {0};
    struct commands commands = {0};
    enum completion_shell shell = COMPLETION_BASH;
    char unused;
    int status;
    if (!cli_parse(&completion_command, argc, argv, &unused, &rest, &status))
        return status;
    if (find_shell(rest.arguments[0], &shell, &error) < 0)
        return cli_fail(&error);
    if (!list_commands(&commands, all, count)) {
        base_fail(&error, BASE_ENOMEM, "out of memory");
        status = cli_fail(&error);
    } else {
        status = print_script(&commands, shell);
    }
    free(commands.items);
    return status;
}
