/* tally query FILE "SQL": a profile is a database, anyone can ask it. */
#include <stddef.h>
#include <stdio.h>

#include "cli.h"
#include "store.h"

struct query_request {
    int format; /* enum store_query_format */
};

static const struct base_option query_options[] = {
    {.name = "csv",
     .kind = BASE_OPTION_SET,
     .value = STORE_QUERY_CSV,
     .offset = offsetof(struct query_request, format),
     .help = "comma-separated values with a header (RFC 4180)"},
    {.name = "json",
     .kind = BASE_OPTION_SET,
     .value = STORE_QUERY_JSON,
     .offset = offsetof(struct query_request, format),
     .help = "an array of objects, one a row"},
    {0},
};

static const char *const query_notes[] = {
    "Views: counters, flat, stacks, edges, calls, threads, processes, origins, losses, meta (tally-query(1) "
    "has their columns). "
    "The profile is "
    "opened "
    "read-only: a statement that would write is refused.",
    "  tally query tally.out \"SELECT function, self FROM flat ORDER BY self DESC\"",
    NULL,
};

static const struct base_options_command query_command = {
    .name = "tally query",
    .synopsis = {"[--csv | --json] FILE \"SQL\""},
    .summary = "Ask a profile one question in SQL and print the rows.",
    .options = query_options,
    .minimum_arguments = 2,
    .maximum_arguments = 2,
    .arguments = "FILE SQL",
    .notes = query_notes,
};

int cmd_query(int argc, char **argv)
{
    struct query_request request = {.format = STORE_QUERY_COLUMNS};
    struct base_options_rest rest;
    struct base_error error = {0};
    int status;
    if (!cli_parse(&query_command, argc, argv, &request, &rest, &status))
        return status;
    int result = store_query(rest.arguments[0], rest.arguments[1], (enum store_query_format)request.format,
                             stdout, &error);
    if (result < 0) /* a mistake in the question names no file */
        return result == BASE_EUSAGE ? cli_fail_command("query", &error) : cli_fail(&error);
    return CLI_OK;
}
