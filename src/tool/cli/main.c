/* tally: a table of commands.
 *
 * To add a command `tally NAME`:
 *   1. write src/tool/cli/cmd_NAME.c with `int cmd_NAME(int argc, char **argv)` and, in it, a table of its
 *      options (base_options.h) that cli_parse reads;
 *   2. name the function in cli.h, the file in meson.build, and add a line to `commands` below;
 *   3. write doc/man/tally-NAME.1 (tests/cli/man.py checks it against --help), name it in meson.build and
 *      in doc/man/tally.1, and add the command to README's table;
 *   4. add cases to tests/cli/cases. */
#include <stdio.h>
#include <string.h>

#include "base_fault.h"
#include "base_options.h"
#include "base_stack.h"
#include "base_text.h"
#include "cli.h"
#include "cli_output.h"

enum command_flag {
    PRINTS = 1, /* its result is on standard output: whether all of it was written is checked at its end */
};

struct command {
    const char *name;
    cli_command *run;
    const char *summary;
    unsigned flags;
    /* What one wants to know or do who needs it, above the first of those with the same; NULL: as before. */
    const char *question;
};

static cli_command run_completion; /* lists the commands, itself among them */

static const struct command commands[] = {
    {"record", cmd_record, "run a program, or attach, and record where its time goes", 0, "Record"},
    {"import", cmd_import, "make a profile of what another profiler recorded", 0, NULL},
    {"report", cmd_report, "show where the time went", PRINTS,
     "Where does the time go, how often is what called?"},
    {"annotate", cmd_annotate, "show a function line by line", PRINTS, NULL},
    {"browse", cmd_browse, "look through a profile on the terminal", 0, NULL},
    {"view", cmd_view, "look at a profile in a browser", PRINTS, NULL},
    {"candidates", cmd_candidates, "rank functions by what speeding them up could gain", PRINTS,
     "What is worth changing, and what has changed?"},
    {"diff", cmd_diff, "compare recordings: what changed, and what is noise", PRINTS, NULL},
    {"export", cmd_export, "write a profile in the format of another tool", PRINTS, "Use it elsewhere"},
    {"merge", cmd_merge, "put several profiles into one", PRINTS, NULL},
    {"query", cmd_query, "ask a profile in SQL", PRINTS, NULL},
    {"list", cmd_list, "list what this machine can measure", PRINTS, "What can be measured here?"},
    {"doctor", cmd_doctor, "find out what keeps Tally from measuring, and the remedy", PRINTS, NULL},
    {"detach", cmd_detach, "remove what a killed tally left in running processes", PRINTS, NULL},
    {"completion", run_completion, "print completions for bash, zsh or fish", PRINTS, "The command line"},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static int run_completion(int argc, char **argv)
{
    struct cli_listed listed[COMMANDS];
    for (int i = 0; i < COMMANDS; i++)
        listed[i] = (struct cli_listed){commands[i].name, commands[i].summary, commands[i].run};
    return cmd_completion(argc, argv, listed, COMMANDS);
}

static const struct command *find_command(const char *name)
{
    for (int i = 0; i < COMMANDS; i++) {
        if (!strcmp(commands[i].name, name))
            return &commands[i];
    }
    return NULL;
}

static int fail_unknown(const char *name)
{
    const char *names[COMMANDS + 1] = {"help"};
    for (int i = 0; i < COMMANDS; i++)
        names[i + 1] = commands[i].name;
    const char *nearest = base_options_nearest(name, names, COMMANDS + 1);
    if (nearest)
        cli_say("unknown command '%s'; did you mean '%s'?", name, nearest);
    else
        cli_say("unknown command '%s' (see tally --help)", name);
    return CLI_FAILED;
}

struct call {
    const struct command *command;
    int argc;
    char **argv;
};

static int run_call(void *context)
{
    const struct call *call = context;
    int status = call->command->run(call->argc, call->argv);
    return call->command->flags & PRINTS ? cli_output_close(status) : status;
}

static int main_run(const struct command *command, int argc, char **argv)
{
    return base_stack_run(run_call, &(struct call){command, argc, argv});
}

/* The commands by what one wants to know. */
static void describe_commands(struct base_text *text)
{
    base_text_add(text, "Usage: tally COMMAND [OPTIONS] [ARGUMENTS]\n\n"
                        "Find out where a program's time goes, and how sure that is. Begin with\n\n"
                        "  tally record -- COMMAND     and then     tally report\n");
    for (int i = 0; i < COMMANDS; i++) {
        if (commands[i].question)
            base_text_addf(text, "\n%s\n", commands[i].question);
        base_text_addf(text, "  %-12s%s\n", commands[i].name, commands[i].summary);
    }
    base_text_add(text, "  help        show the help of a command: tally help COMMAND\n");
}

static int print_help(void)
{
    struct base_text text = {0};
    describe_commands(&text);
    base_text_add(&text, "\nOptions\n"
                         "  -h, --help  show this help\n"
                         "  --version   show the version\n\n"
                         "Manual pages: man tally, man tally-record, ...\n");
    int status = cli_output_text(&text);
    base_text_free(&text);
    return status;
}

/* Nothing was asked for: that is an error, to a script, and to a reader a question. */
static int show_commands(void)
{
    struct base_text text = {0};
    describe_commands(&text);
    fputs(base_text_string(&text), stderr);
    base_text_free(&text);
    return CLI_FAILED;
}

/* tally help, tally help COMMAND */
static int run_help(int argc, char **argv)
{
    if (argc > 2) {
        cli_say("help: '%s' is one argument too many (tally help COMMAND)", argv[2]);
        return CLI_FAILED;
    }
    if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
        return print_help();
    const struct command *command = find_command(argv[1]);
    char *arguments[] = {argv[1], (char[]){"--help"}, NULL};
    return command ? main_run(command, 2, arguments) : fail_unknown(argv[1]);
}

static int print_version(void)
{
    struct base_text text = {0};
    base_text_add(&text, "tally " TALLY_VERSION "\n");
    int status = cli_output_text(&text);
    base_text_free(&text);
    return status;
}

int main(int argc, char **argv)
{
    cli_output_secure();
    base_fault_survive();
    if (argc < 2)
        return show_commands();
    const char *name = argv[1];
    if (!strcmp(name, "--version") || !strcmp(name, "-V"))
        return print_version();
    if (!strcmp(name, "--help") || !strcmp(name, "-h"))
        return print_help();
    if (!strcmp(name, "help"))
        return run_help(argc - 1, argv + 1);
    if (name[0] == '-') {
        cli_say("unknown option %s: options follow the command (see tally --help)", name);
        return CLI_FAILED;
    }
    const struct command *command = find_command(name);
    return command ? main_run(command, argc - 1, argv + 1) : fail_unknown(name);
}
