/* tally diff: recordings before and after a change, for people and as a gate for CI. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base_array.h"
#include "base_terminal.h"
#include "base_text.h"
#include "cli.h"
#include "cli_pager.h"
#include "cli_profile.h"
#include "cli_progress.h"
#include "diff.h"

static const double DEFAULT_LIMIT = 0.5; /* percent */
enum { GATE_FAILED = 1 };

struct diff_request {
    int view, color;
    const char *counter;
    struct view_part part;
    double fail_above, limit_percent;
    uint64_t limit_rows;
    bool total, significant, json, debuginfod, pager;
};

static int diff_read_limit(const struct base_option *option, const char *argument, void *target,
                           struct base_error *error)
{
    (void)option;
    struct diff_request *request = target;
    return cli_profile_limit(argument, &request->limit_percent, &request->limit_rows, error);
}

/* "5" and "5%" */
static int read_percent(const struct base_option *option, const char *argument, void *target,
                        struct base_error *error)
{
    (void)option;
    struct diff_request *request = target;
    size_t length = strlen(argument);
    char number[64];
    if (!length || length >= sizeof number)
        return base_fail(error, BASE_EUSAGE, "'%s' is no number of percent", argument);
    memcpy(number, argument, length + 1);
    if (number[length - 1] == '%')
        number[length - 1] = '\0';
    return base_options_read_real(number, &request->fail_above, error);
}

#define MEMBER(member) .offset = offsetof(struct diff_request, member)

static const struct base_option diff_options[] = {
    {.kind = BASE_OPTION_HEADING, .help = "What to compare"},
    {.name = "counter",
     .kind = BASE_OPTION_TEXT,
     MEMBER(counter),
     .argument = "NAME",
     .help = "the figures (default: time.cpu, or the first counter that all have); calls: exact calls, by "
             "function"},
    {.name = "total",
     .kind = BASE_OPTION_FLAG,
     MEMBER(total),
     .help = "functions with all they call (default: the functions themselves)"},
    {.name = "paths", .kind = BASE_OPTION_SET, MEMBER(view), .value = DIFF_PATHS, .help = "whole stacks"},
    {.name = "edges",
     .kind = BASE_OPTION_SET,
     MEMBER(view),
     .value = DIFF_EDGES,
     .help = "exact calls, by caller and callee"},
    {.kind = BASE_OPTION_HEADING, .help = "Only a part"},
    CLI_PROFILE_THREADS(MEMBER),
    CLI_PROFILE_IMAGE(MEMBER, "calls"),
    CLI_PROFILE_CPUS(MEMBER, ""),
    CLI_PROFILE_OVERHEAD(MEMBER),
    {.kind = BASE_OPTION_HEADING, .help = "As a gate"},
    {.name = "fail-above",
     .kind = BASE_OPTION_CALL,
     .handler = read_percent,
     .argument = "PERCENT",
     .help = "exit with 1 when something costs more than this above what it was, and noise does not explain "
             "it"},
    {.kind = BASE_OPTION_HEADING, .help = "How it is shown"},
    {.name = "significant",
     .kind = BASE_OPTION_FLAG,
     MEMBER(significant),
     .help = "only what changed by more than noise"},
    {.name = "limit",
     .kind = BASE_OPTION_CALL,
     .handler = diff_read_limit,
     .argument = "PERCENT|N",
     .help = "leave out what is within noise and below a share on both sides (2%), or show so many rows (20) "
             "(default 0.5%; 0% shows everything)"},
    CLI_PROFILE_SHOWN(MEMBER, "comparisons"),
    {0},
};

static const char *const diff_notes[] = {
    "Several recordings of a side are separated by commas. One recording a side shows sampling noise; how "
    "much "
    "runs of the program differ, and so whether the whole became slower, only several show: five are good.",
    "The exit status is 0, 1 when --fail-above found something, 2 after an error.",
    "  tally diff before.out after.out",
    "  tally diff a1.out,a2.out,a3.out b1.out,b2.out,b3.out --fail-above 5",
    "  tally diff before.out after.out --counter calls --significant",
    "  tally diff before.out after.out --thread 'worker*'",
    NULL,
};

static const struct base_options_command diff_command = {
    .name = "tally diff",
    .synopsis = {"[OPTIONS] OLD[,OLD...] NEW[,NEW...]"},
    .summary =
        "Compare recordings before and after a change: how each function's share and cost changed, how "
        "sure that is, and what is within noise.",
    .options = diff_options,
    .minimum_arguments = 2,
    .maximum_arguments = 2,
    .arguments = "OLD NEW",
    .notes = diff_notes,
};

static int diff_check(struct diff_request *request, struct base_error *error)
{
    if (request->view >= 0 && request->total)
        return base_fail(error, BASE_EUSAGE, "diff: --total is for functions, not for --paths or --edges");
    if (request->view == DIFF_EDGES && request->counter)
        return base_fail(error, BASE_EUSAGE, "diff: --edges has no --counter: it compares calls");
    if (request->part.cpus &&
        (request->view == DIFF_EDGES || (request->counter && !strcmp(request->counter, PROFILE_CALLS))))
        return base_fail(error, BASE_EUSAGE, "diff: calls have no --cpu: they are counted by thread");
    if (request->view < 0)
        request->view = DIFF_FUNCTIONS;
    return BASE_OK;
}

/* --- the runs --- */

struct runs {
    struct diff_run *items;
    char **names; /* of the files, malloc */
    size_t count, capacity, name_capacity, old_count;
};

static void free_runs(struct runs *runs)
{
    for (size_t i = 0; i < runs->count; i++) {
        profile_free((struct profile *)(uintptr_t)runs->items[i].profile);
        free(runs->names[i]);
    }
    free(runs->items);
    free(runs->names);
}

static int load_one(struct runs *runs, const char *name, size_t length, const struct diff_request *request,
                    struct base_error *error)
{
    const struct cli_profile_wanted wanted = {.debuginfod = request->debuginfod, .part = &request->part};
    struct profile *profile = NULL;
    char *file = strndup(name, length);
    if (!file || !base_array_room(runs->items, runs->count, runs->capacity) ||
        !base_array_room(runs->names, runs->count, runs->name_capacity)) {
        free(file);
        return base_fail(error, BASE_ENOMEM, "out of memory");
    }
    int code = length
                   ? cli_profile_load(file, &wanted, &profile, error)
                   : base_fail(error, BASE_EUSAGE, "diff: '%s' has an empty name between its commas", name);
    if (code < 0) {
        free(file);
        return code;
    }
    runs->names[runs->count] = file;
    runs->items[runs->count++] = (struct diff_run){profile, file};
    return BASE_OK;
}

/* A,B,C; but a file whose name has a comma is that file. */
static int load_side(struct runs *runs, const char *list, const struct diff_request *request,
                     struct base_error *error)
{
    if (!access(list, F_OK))
        return load_one(runs, list, strlen(list), request, error);
    for (;;) {
        size_t length = strcspn(list, ",");
        int code = load_one(runs, list, length, request, error);
        if (code < 0 || !list[length])
            return code;
        list += length + 1;
    }
}

/* --- the command --- */

static int diff_show(const struct runs *runs, const struct diff_request *request, struct diff_gate *gate,
                     struct cli_progress *progress, struct base_error *error)
{
    struct diff_options options = {
        .view = (enum diff_view)request->view,
        .counter = request->counter,
        .part = request->part,
        .total = request->total,
        .significant = request->significant,
        .fail_above = request->fail_above,
        .limit_percent = request->limit_percent,
        .limit_rows = request->limit_rows,
        .json = request->json,
        .color = base_terminal_color(STDOUT_FILENO, (enum base_terminal_color)request->color),
        .ascii = !base_terminal_utf8(),
        .width = base_terminal_width(STDOUT_FILENO),
    };
    struct base_text text = {0};
    cli_progress_show(progress, "comparing", 0, 0);
    int code = diff_print(&(struct diff_sides){runs->items, runs->count, runs->old_count}, &options, gate,
                          &text, error);
    cli_progress_end(progress);
    int status = code < 0 ? cli_fail(error) : cli_pager_show(&text, request->pager && !request->json);
    base_text_free(&text);
    return status;
}

static int apply_gate(const struct diff_request *request, const struct diff_gate *gate, int status)
{
    if (status != CLI_OK || !gate->failed)
        return status;
    cli_say("diff: above %.6g %%: %s%s", request->fail_above, base_text_string(&gate->names),
            gate->failed > 5 ? " and others" : "");
    return GATE_FAILED;
}

int cmd_diff(int argc, char **argv)
{
    struct diff_request request = {
        .view = -1, .fail_above = -1, .limit_percent = DEFAULT_LIMIT, .pager = true};
    struct base_options_rest rest;
    struct base_error error = {0};
    struct runs runs = {0};
    struct diff_gate gate = {0};
    struct cli_progress progress = cli_progress_begin();
    int status;
    if (!cli_parse(&diff_command, argc, argv, &request, &rest, &status))
        return status;
    int code = diff_check(&request, &error);
    if (code >= 0)
        code = load_side(&runs, rest.arguments[0], &request, &error);
    runs.old_count = runs.count;
    if (code >= 0)
        code = load_side(&runs, rest.arguments[1], &request, &error);
    status = code < 0 ? cli_fail(&error)
                      : apply_gate(&request, &gate, diff_show(&runs, &request, &gate, &progress, &error));
    base_text_free(&gate.names);
    free_runs(&runs);
    return status;
}
