/* tally report: a profile on the screen. */
#include <stddef.h>
#include <unistd.h>

#include "annotate.h"
#include "base_terminal.h"
#include "base_text.h"
#include "cli.h"
#include "cli_pager.h"
#include "cli_profile.h"
#include "cli_progress.h"
#include "report.h"

static const double DEFAULT_LIMIT = 0.5; /* percent */
static const double UNSAID = -2;         /* not what cli_profile_limit says */

struct report_request {
    int view, by, color, header;
    const char *counter;
    struct view_part part;
    double limit_percent;
    uint64_t limit_rows;
    bool lines, inlines, json, debuginfod, pager;
};

static int report_read_limit(const struct base_option *option, const char *argument, void *target,
                             struct base_error *error)
{
    (void)option;
    struct report_request *request = target;
    return cli_profile_limit(argument, &request->limit_percent, &request->limit_rows, error);
}

#define MEMBER(member) .offset = offsetof(struct report_request, member)

static const struct base_option view_options[] = {
    {.kind = BASE_OPTION_HEADING, .help = "Views"},
    {.name = "flat",
     .kind = BASE_OPTION_SET,
     MEMBER(view),
     .value = VIEW_FLAT,
     .help = "functions by the time in themselves (the default)"},
    {.name = "graph",
     .kind = BASE_OPTION_SET,
     MEMBER(view),
     .value = VIEW_GRAPH,
     .help = "each function with its callers above and its callees below"},
    {.name = "tree",
     .kind = BASE_OPTION_SET,
     MEMBER(view),
     .value = VIEW_TREE,
     .help = "the tree of calls from the outermost function inwards"},
    {.name = "paths",
     .kind = BASE_OPTION_SET,
     MEMBER(view),
     .value = VIEW_PATHS,
     .help = "the hottest whole stacks"},
    {.name = "edges",
     .kind = BASE_OPTION_SET,
     MEMBER(view),
     .value = VIEW_EDGES,
     .help = "who called whom how often, exactly (recorded with --calls)"},
    {.name = "loops",
     .kind = BASE_OPTION_SET,
     MEMBER(view),
     .value = VIEW_LOOPS,
     .help = "the hottest loops of the program, found in its code"},
    {.name = "leaks",
     .kind = BASE_OPTION_SET,
     MEMBER(view),
     .value = VIEW_LEAKS,
     .help = "the stacks whose memory was not released, the most first (recorded with --heap)"},
    {.name = "peak",
     .kind = BASE_OPTION_SET,
     MEMBER(view),
     .value = VIEW_PEAK,
     .help = "when each process held the most memory, and which stacks held it then"},
    {.name = "latency",
     .kind = BASE_OPTION_SET,
     MEMBER(view),
     .value = VIEW_LATENCY,
     .help = "how long calls took, as percentiles and bars (recorded with --function)"},
    {.name = "fds",
     .kind = BASE_OPTION_SET,
     MEMBER(view),
     .value = VIEW_FDS,
     .help = "descriptors open at the end, by the stacks that opened them (recorded with --fds)"},
    {.name = "losses",
     .kind = BASE_OPTION_SET,
     MEMBER(view),
     .value = VIEW_LOSSES,
     .help = "everything that was not seen, counted, with the reasons; what of the calls was counted"},
    {.kind = BASE_OPTION_HEADING, .help = "What the rows are"},
    {.name = "by",
     .kind = BASE_OPTION_CHOICE,
     MEMBER(by),
     .argument = "function|line|address|image|thread|cpu|process|command|cgroup",
     .help = "what one row of --flat stands for, or the caller of one of --edges (function to thread)"},
    {.name = "lines",
     .kind = BASE_OPTION_FLAG,
     MEMBER(lines),
     .help = "under each of --paths the lines (addresses, without debug information) of its last function"},
    {.name = "inlines",
     .kind = BASE_OPTION_FLAG,
     MEMBER(inlines),
     .help = "inlined functions are functions of their own"},
    {.name = "counter",
     .kind = BASE_OPTION_TEXT,
     MEMBER(counter),
     .argument = "NAME",
     .help = "the figures to show (default: the first counter of the profile, time.cpu where there is one)"},
    {.name = "limit",
     .kind = BASE_OPTION_CALL,
     .handler = report_read_limit,
     .argument = "PERCENT|N",
     .help =
         "leave out what is below a share (2%), or show so many rows (20); the rest is summed up in one line "
         "(default 0.5%; 0% shows everything)"},
    {.kind = BASE_OPTION_HEADING, .help = "Only a part"},
    CLI_PROFILE_THREADS(MEMBER),
    CLI_PROFILE_IMAGE(MEMBER, "--edges"),
    CLI_PROFILE_CPUS(MEMBER, ""),
    CLI_PROFILE_PERIOD(MEMBER),
    CLI_PROFILE_OVERHEAD(MEMBER),
    {.kind = BASE_OPTION_HEADING, .help = "How it is shown"},
    CLI_PROFILE_VERBOSE(MEMBER),
    {.name = "header",
     .kind = BASE_OPTION_SET,
     MEMBER(header),
     .value = VIEW_HEADER_ALONE,
     .help = "only what is known of the recording"},
    CLI_PROFILE_SHOWN(MEMBER, "reports"),
    {0},
};

static const char *const report_notes[] = {
    "Shares of sampled counters carry their 95 % interval. Names are shortened to the terminal's width "
    "($COLUMNS), "
    "and never in a pipe or a file. The pager is $TALLY_PAGER, $PAGER or less.",
    "  tally report --graph",
    "  tally report --by line --limit 20",
    "  tally report --edges --by thread",
    "  tally report before.out --tree --thread 'worker*'",
    NULL,
};

static const struct base_options_command report_command = {
    .name = "tally report",
    .synopsis = {"[OPTIONS] [FILE]"},
    .summary = "Show where the time went. FILE is a profile that tally record left (default tally.out).",
    .options = view_options,
    .maximum_arguments = 1,
    .arguments = "FILE",
    .notes = report_notes,
};

/* Lines cost time; not every view shows them. */
static bool shows_lines(const struct report_request *request)
{
    return request->by == VIEW_BY_LINE || request->view == VIEW_TREE || request->lines || request->inlines;
}

/* What is of the whole recording. */
static const char *view_without_times(const struct report_request *request)
{
    return request->view == VIEW_EDGES     ? "--edges"
           : request->view == VIEW_LEAKS   ? "--leaks"
           : request->view == VIEW_PEAK    ? "--peak"
           : request->view == VIEW_LATENCY ? "--latency"
           : request->view == VIEW_FDS     ? "--fds"
           : request->view == VIEW_LOSSES  ? "--losses"
                                           : NULL;
}

/* What would be ignored is refused. */
static int report_check(struct report_request *request, struct base_error *error)
{
    if ((request->part.from_ns || request->part.to_ns) && view_without_times(request))
        return base_fail(error, BASE_EUSAGE, "report: --from and --to are of samples, and %s is not",
                         view_without_times(request));
    if (request->by >= 0 && request->view >= 0 && request->view != VIEW_FLAT && request->view != VIEW_EDGES)
        return base_fail(error, BASE_EUSAGE,
                         "report: --by is for --flat and --edges: the other views are of functions");
    if (request->by >= VIEW_BY_CPU && request->view == VIEW_EDGES)
        return base_fail(error, BASE_EUSAGE,
                         "report: --edges is by function, line, address, image or thread: calls are counted "
                         "by thread");
    if (request->header && request->json)
        return base_fail(
            error, BASE_EUSAGE,
            "report: --json has all that is known of the recording; -v and --header are for text");
    bool held = request->view == VIEW_LEAKS || request->view == VIEW_PEAK || request->view == VIEW_FDS;
    if (held && request->counter)
        return base_fail(error, BASE_EUSAGE,
                         "report: --leaks, --peak and --fds have no --counter: each has its own");
    if (request->lines && request->view != VIEW_PATHS && !held)
        return base_fail(error, BASE_EUSAGE, "report: --lines goes with --paths (--flat has --by line)");
    if (request->view == VIEW_EDGES && request->part.cpus)
        return base_fail(error, BASE_EUSAGE, "report: --edges has no --cpu: calls are counted by thread");
    if (request->view == VIEW_EDGES && request->counter)
        return base_fail(error, BASE_EUSAGE, "report: --edges has no --counter: it shows calls");
    if (request->view == VIEW_LATENCY && (request->counter || request->inlines))
        return base_fail(error, BASE_EUSAGE,
                         "report: --latency has no --counter and no --inlines: it shows calls of functions");
    if (request->view == VIEW_LATENCY && (request->part.thread || request->part.cpus))
        return base_fail(error, BASE_EUSAGE,
                         "report: --latency has no --thread and no --cpu: calls are timed by process");
    if (request->view == VIEW_FDS && (request->part.thread || request->part.cpus))
        return base_fail(error, BASE_EUSAGE,
                         "report: --fds has no --thread and no --cpu: descriptors are a process's");
    if (request->view < 0)
        request->view = VIEW_FLAT;
    if (request->limit_percent == UNSAID) /* functions that were named, some inside others: all of them */
        request->limit_percent = request->view == VIEW_LATENCY ? 0 : DEFAULT_LIMIT;
    if (request->by < 0)
        request->by = VIEW_BY_FUNCTION;
    return BASE_OK;
}

static int print_one_view(const struct profile *profile, const struct report_request *request,
                          const char *file, struct cli_progress *progress, struct base_error *error)
{
    struct view_options options = {
        .view = (enum view_kind)request->view,
        .by = (enum view_by)request->by,
        .counter = request->counter,
        .limit_percent = request->limit_percent,
        .limit_rows = request->limit_rows,
        .part = request->part,
        .header = (enum view_header)request->header,
        .lines = request->lines,
        .inlines = request->inlines,
        .json = request->json,
        .color = base_terminal_color(STDOUT_FILENO, (enum base_terminal_color)request->color),
        .ascii = !base_terminal_utf8(),
        .width = base_terminal_width(STDOUT_FILENO),
        .file = file,
        .debuginfod = request->debuginfod,
    };
    struct base_text text = {0};
    cli_progress_show(progress, "adding up", 0, 0);
    int result =
        (options.view == VIEW_LOOPS ? annotate_print : report_print)(profile, &options, &text, error);
    cli_progress_end(progress);
    int status = result < 0 ? cli_fail(error) : cli_pager_show(&text, request->pager && !request->json);
    base_text_free(&text);
    return status;
}

int cmd_report(int argc, char **argv)
{
    struct report_request request = {.view = -1, .by = -1, .limit_percent = UNSAID, .pager = true};
    struct base_options_rest rest;
    struct base_error error = {0};
    struct profile *profile = NULL;
    struct cli_progress progress = cli_progress_begin();
    int status;
    if (!cli_parse(&report_command, argc, argv, &request, &rest, &status))
        return status;
    const char *file = rest.count ? rest.arguments[0] : "tally.out";
    if (report_check(&request, &error) < 0)
        return cli_fail(&error);
    const struct cli_profile_wanted wanted = {.lines = shows_lines(&request),
                                              .debuginfod = request.debuginfod,
                                              .part = &request.part,
                                              .counter = request.counter};
    if (cli_profile_load(file, &wanted, &profile, &error) < 0)
        return cli_fail(&error);
    status = print_one_view(profile, &request, file, &progress, &error);
    profile_free(profile);
    return status;
}
