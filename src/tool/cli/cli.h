/* cli.h - what the commands share: their one signature, their messages, their way to read options.
 *
 * Only this module prints and exits. Standard output is for what was asked for; everything Tally has to say
 * about itself is a line "tally: ..." on standard error. Exit statuses: 0, CLI_FAILED after exactly one such
 * line; `tally record` has the target's (see tally-record(1)), `tally doctor` 1 for "cannot record". Context:
 * tool, one thread. */
#ifndef CLI_H
#define CLI_H

#include <stdbool.h>
#include <stddef.h>

#include "base_error.h"
#include "base_options.h"

enum { CLI_OK = 0, CLI_FAILED = 2 };

/* One command, one file cmd_NAME.c, one function: argv[0] is the command's name, the result the exit status.
 */
typedef int cli_command(int argc, char **argv);

cli_command cmd_annotate;
cli_command cmd_browse, cmd_diff;
cli_command cmd_export, cmd_import, cmd_view;
cli_command cmd_detach;
cli_command cmd_merge;
cli_command cmd_candidates, cmd_doctor, cmd_list, cmd_query, cmd_record, cmd_report;

/* Prints "tally: MESSAGE\n" to standard error in one write, whatever it says in one line (on a terminal,
 * broken between words where it is longer than that): control characters (of file names, say) become '?'. */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says what went wrong and returns CLI_FAILED. cli_fail_command puts the command's name in front ("report"
 * or "tally report", shown as "report: "): for options and arguments that it could not use. */
int cli_fail(const struct base_error *error);
int cli_fail_command(const char *name, const struct base_error *error);

/* A command as main.c lists it. */
struct cli_listed {
    const char *name, *summary;
    cli_command *run;
};

/* tally completion, of all commands in the order of `tally --help`. */
int cmd_completion(int argc, char **argv, const struct cli_listed *commands, size_t count);

/* Reads a command's options. True: go on. False: *status is the exit status: the help (or its part of the
 * completions, completion.h) was asked for and printed, or a mistake was reported. */
bool cli_parse(const struct base_options_command *command, int argc, char **argv, void *target,
               struct base_options_rest *rest, int *status);

#endif
