/* tally candidates: which functions are worth moving to an accelerator, or running on several threads. */
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base_terminal.h"
#include "base_text.h"
#include "cli.h"
#include "cli_pager.h"
#include "cli_profile.h"
#include "report.h"

static const double DEFAULT_LIMIT = 1; /* percent: what is below can give 1.01x at most */
enum { MOST_THREADS = 1000000 };

struct candidates_request {
    double speedup, limit_percent;
    uint64_t invoke_ns, threads, limit_rows;
    int color, header;
    struct view_part part;
    bool json, debuginfod, pager;
};

static int candidates_read_limit(const struct base_option *option, const char *argument, void *target,
                                 struct base_error *error)
{
    (void)option;
    struct candidates_request *request = target;
    return cli_profile_limit(argument, &request->limit_percent, &request->limit_rows, error);
}

static int read_speedup(const struct base_option *option, const char *argument, void *target,
                        struct base_error *error)
{
    (void)option;
    struct candidates_request *request = target;
    int result = base_options_read_real(argument, &request->speedup, error);
    if (result == BASE_OK && !(request->speedup > 0))
        return base_fail(error, BASE_EUSAGE, "%s is no speed-up: it must be more than 0", argument);
    return result;
}

/* Seconds are seldom meant and easily typed: a unit is required. */
static int read_cost(const struct base_option *option, const char *argument, void *target,
                     struct base_error *error)
{
    (void)option;
    struct candidates_request *request = target;
    int result = base_options_read_duration(argument, &request->invoke_ns, error);
    if (result == BASE_OK && request->invoke_ns && !argument[strspn(argument, "0123456789.")])
        return base_fail(error, BASE_EUSAGE, "%s needs a unit: %sns, %sus, %sms or %ss", argument, argument,
                         argument, argument, argument);
    return result;
}

#define MEMBER(member) .offset = offsetof(struct candidates_request, member)

static const struct base_option candidates_options[] = {
    {.kind = BASE_OPTION_HEADING, .help = "What to assume"},
    {.name = "speedup",
     .kind = BASE_OPTION_CALL,
     .handler = read_speedup,
     .argument = "K",
     .help = "a moved call runs K times faster (default: it takes no time at all)"},
    {.name = "invoke-cost",
     .kind = BASE_OPTION_CALL,
     .handler = read_cost,
     .argument = "T",
     .help = "each call costs T on top: 100ns, 2us, 1.5ms (default: nothing)"},
    {.name = "threads",
     .kind = BASE_OPTION_NUMBER,
     MEMBER(threads),
     .argument = "N",
     .minimum = 1,
     .maximum = MOST_THREADS,
     .help = "instead of an accelerator, run the calls of a function on N threads at once"},
    {.kind = BASE_OPTION_HEADING, .help = "How it is shown"},
    {.name = "limit",
     .kind = BASE_OPTION_CALL,
     .handler = candidates_read_limit,
     .argument = "PERCENT|N",
     .help = "leave out what is below a share of the time (2%), or show so many rows (20) (default 1%; 0% "
             "shows everything)"},
    CLI_PROFILE_OVERHEAD(MEMBER),
    CLI_PROFILE_VERBOSE(MEMBER),
    CLI_PROFILE_SHOWN(MEMBER, "reports"),
    {0},
};

static const char *const candidates_notes[] = {
    "A function counts with all it calls, recursion once. The bound is Amdahl's: 1 / (1 - f + f/K + calls * "
    "T / "
    "time), with f the function's share of the time. It needs a recording with calls (tally "
    "record --calls); without, calls are taken to cost nothing.",
    "  tally candidates --speedup 10 --invoke-cost 2us",
    "  tally candidates --threads 8 --limit 10 before.out",
    NULL,
};

static const struct base_options_command candidates_command = {
    .name = "tally candidates",
    .synopsis = {"[OPTIONS] [FILE]"},
    .summary =
        "Rank functions by what moving them to an accelerator, or running their calls in parallel, could "
        "give the whole program. FILE is a profile that tally record left (default tally.out).",
    .options = candidates_options,
    .maximum_arguments = 1,
    .arguments = "FILE",
    .notes = candidates_notes,
};

static int candidates_check(const struct candidates_request *request, struct base_error *error)
{
    if (request->speedup > 0 && request->threads)
        return base_fail(
            error, BASE_EUSAGE,
            "candidates: --speedup is for an accelerator, --threads for doing without: ask for one");
    if (request->header && request->json)
        return base_fail(error, BASE_EUSAGE, "candidates: -v is for text; --json has all of it");
    return BASE_OK;
}

static int candidates_print(const struct profile *profile, const struct candidates_request *request,
                            const char *file, struct base_error *error)
{
    struct view_options options = {
        .view = VIEW_CANDIDATES,
        .part = request->part,
        .header = (enum view_header)request->header,
        .limit_percent = request->limit_percent,
        .limit_rows = request->limit_rows,
        .json = request->json,
        .color = base_terminal_color(STDOUT_FILENO, (enum base_terminal_color)request->color),
        .ascii = !base_terminal_utf8(),
        .width = base_terminal_width(STDOUT_FILENO),
        .file = file,
        .speedup = request->speedup,
        .invoke_ns = request->invoke_ns,
        .parallel = request->threads,
    };
    struct base_text text = {0};
    int result = report_print(profile, &options, &text, error);
    int status = result < 0 ? cli_fail(error) : cli_pager_show(&text, request->pager && !request->json);
    base_text_free(&text);
    return status;
}

int cmd_candidates(int argc, char **argv)
{
    struct candidates_request request = {.limit_percent = DEFAULT_LIMIT, .pager = true};
    struct base_options_rest rest;
    struct base_error error = {0};
    struct profile *profile = NULL;
    int status;
    if (!cli_parse(&candidates_command, argc, argv, &request, &rest, &status))
        return status;
    const char *file = rest.count ? rest.arguments[0] : "tally.out";
    const struct cli_profile_wanted wanted = {.debuginfod = request.debuginfod, .part = &request.part};
    if (candidates_check(&request, &error) < 0 || cli_profile_load(file, &wanted, &profile, &error) < 0)
        return cli_fail(&error);
    status = candidates_print(profile, &request, file, &error);
    profile_free(profile);
    return status;
}
