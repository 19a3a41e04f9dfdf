#include "completion.h"

#include <string.h>

#include "base_quote.h"

static const char *const requests[COMPLETION_SHELLS] = {"--completion=bash", "--completion=zsh",
                                                        "--completion=fish"};

const char *completion_request(enum completion_shell shell)
{
    return requests[shell];
}

bool completion_requested(int argc, char **argv, enum completion_shell *shell)
{
    for (int i = 0; argc == 2 && i < COMPLETION_SHELLS; i++)
        if (!strcmp(argv[1], requests[i])) {
            *shell = (enum completion_shell)i;
            return true;
        }
    return false;
}

/* --- what the tables say --- */

/* "report" of "tally report" */
static const char *short_name(const struct base_options_command *command)
{
    const char *space = strrchr(command->name, ' ');
    return space ? space + 1 : command->name;
}

/* "cpu|user": words to choose from, and no name of a value. */
static bool is_choice(const char *argument)
{
    return argument && *argument &&
           argument[strspn(argument, "abcdefghijklmnopqrstuvwxyz0123456789.-_|")] == '\0';
}

static bool has_word(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = words; at && (at = strstr(at, word)); at++)
        if ((at == words || at[-1] == ' ') && (!at[length] || at[length] == ' '))
            return true;
    return false;
}

static bool is_file(const char *argument)
{
    static const char *const names[] = {"FILE", "PATH", "DIRECTORY", "OLD", "NEW"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (has_word(argument, names[i]))
            return true;
    return false;
}

static bool is_command(const struct base_options_command *command)
{
    return command->stop_at_argument || has_word(command->arguments, "COMMAND");
}

/* The words of a choice, `between` them. */
static void add_choices(struct base_text *out, const char *argument, const char *between)
{
    for (const char *at = argument;; at++) {
        size_t length = strcspn(at, "|");
        base_text_add_bytes(out, at, length);
        at += length;
        if (!*at)
            return;
        base_text_add(out, between);
    }
}

/* --- bash: one function; a case for each command says what follows an option, and what the options are
 * --- */

static void bash_head(const struct completion_named *commands, size_t count, struct base_text *out)
{
    base_text_add(
        out, "# bash completion for tally: eval \"$(tally completion bash)\"\n"
             "_tally()\n{\n"
             "    local cur=${COMP_WORDS[COMP_CWORD]} at=$((COMP_CWORD - 1)) prev options= words= kind=none\n"
             "    local commands='");
    for (size_t i = 0; i < count; i++)
        base_text_addf(out, "%s ", commands[i].name);
    base_text_add(out,
                  "help'\n"
                  "    COMPREPLY=()\n"
                  "    # Bash cuts words at the sign: --by=fu is --by = fu.\n"
                  "    if [[ $cur == = ]]; then\n        cur=\n"
                  "    elif [[ $at -gt 1 && ${COMP_WORDS[at]} == = ]]; then\n        at=$((at - 1))\n    fi\n"
                  "    prev=${COMP_WORDS[at]}\n"
                  "    if [[ $COMP_CWORD -le 1 ]]; then\n"
                  "        COMPREPLY=($(compgen -W \"$commands --help --version\" -- \"$cur\"))\n"
                  "        return\n    fi\n"
                  "    case ${COMP_WORDS[1]} in\n"
                  "    help)\n        words=$commands\n        ;;\n");
}

static void bash_value(const struct base_option *option, struct base_text *out)
{
    if (!option->argument)
        return;
    base_text_add(out, "        ");
    if (option->name)
        base_text_addf(out, "--%s%s", option->name, option->letter ? "|" : "");
    if (option->letter)
        base_text_addf(out, "-%c", option->letter);
    if (is_choice(option->argument)) {
        base_text_add(out, ") words='");
        add_choices(out, option->argument, " ");
        base_text_add(out, "' ;;\n");
    } else {
        base_text_addf(out, ") kind=%s ;;\n", is_file(option->argument) ? "file" : "value");
    }
}

/* A value that may be left out only ever follows the sign. */
static void bash_values(const struct base_options_command *command, bool optional, struct base_text *out)
{
    bool any = false;
    for (const struct base_option *option = command->options; option->kind; option++)
        any |= option->kind != BASE_OPTION_HEADING && option->argument && option->optional == optional;
    if (!any)
        return;
    base_text_add(
        out,
        optional
            ? "        [[ $at -lt $((COMP_CWORD - 1)) || -z $cur && ${COMP_WORDS[COMP_CWORD]} == = ]] && "
              "case $prev in\n"
            : "        case $prev in\n");
    for (const struct base_option *option = command->options; option->kind; option++)
        if (option->kind != BASE_OPTION_HEADING && option->optional == optional)
            bash_value(option, out);
    base_text_add(out, "        esac\n");
}

static void bash_command(const struct base_options_command *command, struct base_text *out)
{
    base_text_addf(out, "    %s)\n        options='", short_name(command));
    for (const struct base_option *option = command->options; option->kind; option++)
        if (option->kind != BASE_OPTION_HEADING && option->name)
            base_text_addf(out, "--%s ", option->name);
    base_text_add(out, "--help'\n");
    bash_values(command, false, out);
    bash_values(command, true, out);
    if (is_choice(command->arguments)) {
        base_text_add(out, "        [[ $kind$words == none ]] && words='");
        add_choices(out, command->arguments, " ");
        base_text_add(out, "'\n");
    } else if (is_command(command) || is_file(command->arguments)) {
        base_text_addf(out, "        [[ $kind$words == none ]] && kind=%s\n",
                       is_command(command) ? "command" : "file");
    }
    base_text_add(out, "        ;;\n");
}

static void bash_tail(struct base_text *out)
{
    base_text_add(out, "    esac\n"
                       "    for ((at = 2; at < COMP_CWORD; at++)); do\n"
                       "        [[ ${COMP_WORDS[at]} == -- ]] && kind=command words= "
                       "cur=${COMP_WORDS[COMP_CWORD]} options=\n"
                       "    done\n"
                       "    if [[ $cur == -* && $kind != value ]]; then\n"
                       "        COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
                       "    elif [[ $words ]]; then\n"
                       "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                       "    elif [[ $kind == file ]]; then\n"
                       "        compopt -o filenames 2>/dev/null\n"
                       "        COMPREPLY=($(compgen -f -- \"$cur\"))\n"
                       "    elif [[ $kind == command ]]; then\n"
                       "        compopt -o filenames 2>/dev/null\n"
                       "        COMPREPLY=($(compgen -c -- \"$cur\") $(compgen -f -- \"$cur\"))\n"
                       "    fi\n}\n"
                       "complete -F _tally tally\n");
}

/* --- zsh: _arguments for each command --- */

static const char ZSH_SPECIAL[] = "[]:";

static void zsh_head(const struct completion_named *commands, size_t count, struct base_text *out)
{
    base_text_add(out,
                  "#compdef tally\n"
                  "# zsh completion for tally: eval \"$(tally completion zsh)\", or as _tally in $fpath\n"
                  "_tally()\n{\n    local -a commands\n    commands=(\n");
    for (size_t i = 0; i < count; i++) {
        base_text_addf(out, "        '%s:", commands[i].name);
        base_quote_inside(out, commands[i].summary, ZSH_SPECIAL);
        base_text_add(out, "'\n");
    }
    base_text_add(out, "        'help:show the help of a command'\n    )\n"
                       "    if (( CURRENT == 2 )); then\n"
                       "        _describe command commands\n"
                       "        _arguments '--help[show this help]' '--version[show the version]'\n"
                       "        return\n    fi\n"
                       "    local command=$words[2]\n"
                       "    shift words\n    (( CURRENT-- ))\n"
                       "    case $command in\n"
                       "    help)\n        _describe command commands\n        ;;\n");
}

static void zsh_action(const char *argument, struct base_text *out)
{
    if (is_choice(argument)) {
        base_text_add(out, "(");
        add_choices(out, argument, " ");
        base_text_add(out, ")");
    } else if (is_file(argument)) {
        base_text_add(out, "_files");
    }
}

/* One spelling of an option: '--by=[help]:what:(a b)'. */
static void zsh_option(const struct base_option *option, bool letter, struct base_text *out)
{
    base_text_add(out, " \\\n            '");
    if (option->name && option->letter)
        base_text_addf(out, "(-%c --%s)", option->letter, option->name);
    if (letter)
        base_text_addf(out, "-%c", option->letter);
    else
        base_text_addf(out, "--%s", option->name);
    if (option->argument)
        base_text_add(out, letter ? "+" : option->optional ? "=-" : "=");
    base_text_add(out, "[");
    base_quote_inside(out, option->help ? option->help : "", ZSH_SPECIAL);
    base_text_add(out, "]");
    if (option->argument) {
        base_text_add(out, option->optional ? "::" : ":");
        base_quote_inside(out, is_choice(option->argument) ? option->name : option->argument, ZSH_SPECIAL);
        base_text_add(out, ":");
        zsh_action(option->argument, out);
    }
    base_text_add(out, "'");
}

static void zsh_command(const struct base_options_command *command, struct base_text *out)
{
    base_text_addf(out, "    %s)\n        _arguments -s -S", short_name(command));
    for (const struct base_option *option = command->options; option->kind; option++) {
        if (option->kind == BASE_OPTION_HEADING)
            continue;
        if (option->letter && !option->optional)
            zsh_option(option, true, out);
        if (option->name)
            zsh_option(option, false, out);
    }
    base_text_add(out,
                  " \\\n            '(-h --help)-h[show this help]' '(-h --help)--help[show this help]'");
    if (is_command(command))
        base_text_add(out, " \\\n            '*::command:_normal'");
    else if (is_choice(command->arguments) || is_file(command->arguments)) {
        base_text_add(out, is_choice(command->arguments) ? " \\\n            '1:which:"
                                                         : " \\\n            '*:file:");
        zsh_action(command->arguments, out);
        base_text_add(out, "'");
    }
    base_text_add(out, "\n        ;;\n");
}

static void zsh_tail(struct base_text *out)
{
    base_text_add(out, "    esac\n}\n"
                       "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n    _tally \"$@\"\n"
                       "else\n    compdef _tally tally\nfi\n");
}

/* --- fish: a line for each option --- */

static const char FISH_SPECIAL[] = "\\";

/* In fish a quote is escaped inside quotes. */
static void fish_quoted(struct base_text *out, const char *text)
{
    base_text_add(out, "'");
    for (; *text; text++) {
        if (*text == '\'' || strchr(FISH_SPECIAL, *text))
            base_text_add(out, "\\");
        base_text_add_bytes(out, text, 1);
    }
    base_text_add(out, "'");
}

static void fish_head(const struct completion_named *commands, size_t count, struct base_text *out)
{
    base_text_add(out, "# fish completion for tally: tally completion fish | source\n"
                       "complete -c tally -f\n"
                       "complete -c tally -n __fish_use_subcommand -l help -d 'show this help'\n"
                       "complete -c tally -n __fish_use_subcommand -l version -d 'show the version'\n"
                       "complete -c tally -n '__fish_seen_subcommand_from help' -a '");
    for (size_t i = 0; i < count; i++)
        base_text_addf(out, "%s%s", i ? " " : "", commands[i].name);
    base_text_add(out,
                  "'\ncomplete -c tally -n __fish_use_subcommand -a help -d 'show the help of a command'\n");
    for (size_t i = 0; i < count; i++) {
        base_text_addf(out, "complete -c tally -n __fish_use_subcommand -a %s -d ", commands[i].name);
        fish_quoted(out, commands[i].summary);
        base_text_add(out, "\n");
    }
}

static void fish_option(const char *command, const struct base_option *option, struct base_text *out)
{
    base_text_addf(out, "complete -c tally -n '__fish_seen_subcommand_from %s'", command);
    if (option->name)
        base_text_addf(out, " -l %s", option->name);
    if (option->letter)
        base_text_addf(out, " -s %c", option->letter);
    if (is_choice(option->argument)) {
        base_text_add(out, option->optional ? " -a '" : " -xa '");
        add_choices(out, option->argument, " ");
        base_text_add(out, "'");
    } else if (option->argument && !option->optional) {
        base_text_add(out, is_file(option->argument) ? " -rF" : " -x");
    }
    base_text_add(out, " -d ");
    fish_quoted(out, option->help ? option->help : "");
    base_text_add(out, "\n");
}

static void fish_command(const struct base_options_command *command, struct base_text *out)
{
    const char *name = short_name(command);
    for (const struct base_option *option = command->options; option->kind; option++)
        if (option->kind != BASE_OPTION_HEADING)
            fish_option(name, option, out);
    base_text_addf(out,
                   "complete -c tally -n '__fish_seen_subcommand_from %s' -l help -s h -d 'show this help'\n",
                   name);
    if (is_choice(command->arguments)) {
        base_text_addf(out, "complete -c tally -n '__fish_seen_subcommand_from %s' -a '", name);
        add_choices(out, command->arguments, " ");
        base_text_add(out, "'\n");
    } else if (is_command(command)) {
        base_text_addf(
            out, "complete -c tally -n '__fish_seen_subcommand_from %s' -F -a '(__fish_complete_command)'\n",
            name);
    } else if (is_file(command->arguments)) {
        base_text_addf(out, "complete -c tally -n '__fish_seen_subcommand_from %s' -F\n", name);
    }
}

/* --- all of them --- */

void completion_head(enum completion_shell shell, const struct completion_named *commands, size_t count,
                     struct base_text *out)
{
    void (*const heads[])(const struct completion_named *, size_t, struct base_text *) = {bash_head, zsh_head,
                                                                                          fish_head};
    heads[shell](commands, count, out);
}

void completion_of_command(enum completion_shell shell, const struct base_options_command *command,
                           struct base_text *out)
{
    void (*const parts[])(const struct base_options_command *,
                          struct base_text *) = {bash_command, zsh_command, fish_command};
    parts[shell](command, out);
}

void completion_tail(enum completion_shell shell, struct base_text *out)
{
    if (shell == COMPLETION_BASH)
        bash_tail(out);
    else if (shell == COMPLETION_ZSH)
        zsh_tail(out);
}
