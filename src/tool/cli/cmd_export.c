/* tally export: a profile in the formats of other tools. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base_terminal.h"
#include "base_write.h"
#include "cli.h"
#include "cli_file.h"
#include "cli_output.h"
#include "cli_page.h"
#include "cli_profile.h"
#include "export.h"
#include "profile_heap.h"
#include "store_period.h"
#include "view_select.h"

struct export_request {
    int format, table;
    struct cli_page_request page;
    const char *output, *counter;
    struct view_part part;
    bool threads, inlines, samples, marks, debuginfod;
};

#define MEMBER(member) .offset = offsetof(struct export_request, member)

static const struct base_option export_options[] = {
    {.kind = BASE_OPTION_HEADING, .help = "What is written, and where"},
    {.name = "format",
     .kind = BASE_OPTION_CHOICE,
     MEMBER(format),
     .argument = "pprof|callgrind|folded|speedscope|csv|html|massif|gprof|firefox|perfetto",
     .help = "for go tool pprof, callgrind_annotate and KCachegrind, flame graphs, speedscope, "
             "spreadsheets; html: a page of its own, for a browser; massif: memory, for ms_print; "
             "gprof: text as gprof prints it; firefox: for profiler.firefox.com; perfetto: a timeline as a "
             "trace, for ui.perfetto.dev"},
    {.name = "output",
     .letter = 'o',
     .kind = BASE_OPTION_TEXT,
     MEMBER(output),
     .argument = "FILE",
     .help = "where to; - is standard output, the default for text unless that is a terminal; else "
             "tally.pb.gz, callgrind.out.tally, tally.folded, tally.speedscope.json, tally.csv, tally.html, "
             "massif.out.tally, tally.gprof, tally.firefox.json, tally.perfetto.json"},
    {.name = "table",
     .kind = BASE_OPTION_CHOICE,
     MEMBER(table),
     .argument = "flat|tree|edges|counters",
     .help = "of csv: functions (the default), the tree of calls, exact calls, or sums by thread"},
    {.name = "counter",
     .kind = BASE_OPTION_TEXT,
     MEMBER(counter),
     .argument = "NAME",
     .help = "these figures only (default: all; of folded, gprof, firefox and perfetto the first counter of "
             "the profile, "
             "time.cpu where "
             "there is one)"},
    {.name = "samples",
     .kind = BASE_OPTION_FLAG,
     MEMBER(samples),
     .help = "of folded: numbers of samples instead of the counter's values"},
    {.name = "marks",
     .kind = BASE_OPTION_FLAG,
     MEMBER(marks),
     .help = "of folded: _[k] behind kernel functions, _[i] behind inlined, _[j] behind generated ones"},
    {.name = "inlines",
     .kind = BASE_OPTION_FLAG,
     MEMBER(inlines),
     .help = "inlined functions are functions of their own in callgrind, gprof and csv, as they always are "
             "elsewhere"},
    {.name = "threads",
     .kind = BASE_OPTION_FLAG,
     MEMBER(threads),
     .help = "of folded and speedscope: threads apart, not only processes"},
    CLI_PAGE_OPTIONS(MEMBER, "of html: "),
    {.kind = BASE_OPTION_HEADING, .help = "Only a part"},
    CLI_PROFILE_THREADS(MEMBER),
    CLI_PROFILE_IMAGE(MEMBER, "calls"),
    CLI_PROFILE_CPUS(MEMBER, "; then without calls, which are counted by thread"),
    CLI_PROFILE_PERIOD(MEMBER),
    CLI_PROFILE_OVERHEAD(MEMBER),
    {.kind = BASE_OPTION_HEADING, .help = "How names are found"},
    CLI_PROFILE_DEBUGINFOD(MEMBER),
    {0},
};

static const char *const export_notes[] = {
    "A file appears when all of it is written; the profile is never written to.",
    "  tally export --format html && xdg-open tally.html",
    "  tally export --format pprof && go tool pprof -http : tally.pb.gz",
    "  tally export --format folded | flamegraph.pl > flame.svg",
    "  tally export --format callgrind && callgrind_annotate callgrind.out.tally",
    NULL,
};

static const struct base_options_command export_command = {
    .name = "tally export",
    .synopsis = {"--format FORMAT [OPTIONS] [FILE]"},
    .summary =
        "Write a profile in the format of another tool. FILE is a profile that tally record left (default "
        "tally.out).",
    .options = export_options,
    .maximum_arguments = 1,
    .arguments = "FILE",
    .notes = export_notes,
};

/* --- what makes sense --- */

static int export_refuse(struct base_error *error, const char *option, const char *formats)
{
    return base_fail(error, BASE_EUSAGE, "export: %s is for --format %s", option, formats);
}

/* What would be ignored is refused. */
static int export_check(struct export_request *request, struct base_error *error)
{
    bool csv = request->format == EXPORT_CSV, folded = request->format == EXPORT_FOLDED;
    bool functions =
        csv && (request->table < 0 || request->table == EXPORT_FLAT || request->table == EXPORT_EDGES);
    if (request->format < 0)
        return base_fail(error, BASE_EUSAGE,
                         "export: which --format? There are pprof, callgrind, folded, speedscope, csv, "
                         "html, massif, gprof, firefox and perfetto");
    if (request->table >= 0 && !csv)
        return export_refuse(error, "--table", "csv");
    if (request->samples && !folded)
        return export_refuse(error, "--samples", "folded: the other formats have them beside the values");
    if (request->marks && !folded)
        return export_refuse(error, "--marks", "folded");
    if (request->threads && !folded && request->format != EXPORT_SPEEDSCOPE)
        return export_refuse(error, "--threads", "folded or speedscope");
    bool html = request->format == EXPORT_HTML;
    if (request->page.against && !html)
        return export_refuse(error, "--against", "html; tally diff compares as text");
    if (request->page.annotated != UINT64_MAX && !html)
        return export_refuse(error, "--annotate", "html");
    if (request->page.maps.count && !html)
        return export_refuse(error, "--source-map", "html");
    if (html && !export_has_page())
        return base_fail(error, BASE_EUNSUPPORTED,
                         "export: this tally was built without npm and has no page in it; install nodejs and "
                         "npm (make setup) and build it anew");
    if (request->inlines && !functions && request->format != EXPORT_CALLGRIND &&
        request->format != EXPORT_GPROF)
        return export_refuse(error, "--inlines", "callgrind, gprof, or csv with --table flat or edges");
    if (csv && request->table == EXPORT_EDGES && (request->part.cpus || request->counter))
        return base_fail(error, BASE_EUSAGE, "export: --table edges has no %s",
                         request->part.cpus ? "--cpu: calls are counted by thread"
                                            : "--counter: it is calls");
    bool period = request->part.from_ns || request->part.to_ns;
    if (period && (request->format == EXPORT_MASSIF || (csv && request->table == EXPORT_EDGES)))
        return base_fail(error, BASE_EUSAGE, "export: --from and --to are of samples, and %s has none",
                         csv ? "--table edges" : "massif");
    if (period && html)
        return base_fail(error, BASE_EUSAGE,
                         "export: html has no --from and --to: the page has all of it, and shows periods");
    if (request->counter && !strcmp(request->counter, PROFILE_CALLS) &&
        !(csv && request->table == EXPORT_COUNTERS))
        return base_fail(error, BASE_EUSAGE,
                         "export: calls are counted by edge, not by stack: pprof and callgrind have them "
                         "beside the time, and --format csv --table edges alone");
    if (request->counter && request->format == EXPORT_MASSIF)
        return base_fail(error, BASE_EUSAGE, "export: massif has no --counter: it is memory held");
    request->table = request->table < 0 ? EXPORT_FLAT : request->table;
    return BASE_OK;
}

/* --- where it goes --- */

static const struct {
    const char *name, *file;
} formats[] = {
    [EXPORT_PPROF] = {"pprof", "tally.pb.gz"},
    [EXPORT_CALLGRIND] = {"callgrind", "callgrind.out.tally"},
    [EXPORT_FOLDED] = {"folded", "tally.folded"},
    [EXPORT_SPEEDSCOPE] = {"speedscope", "tally.speedscope.json"},
    [EXPORT_CSV] = {"csv", "tally.csv"},
    [EXPORT_HTML] = {"html", "tally.html"},
    [EXPORT_MASSIF] = {"massif", "massif.out.tally"},
    [EXPORT_GPROF] = {"gprof", "tally.gprof"},
    [EXPORT_FIREFOX] = {"firefox", "tally.firefox.json"},
    [EXPORT_PERFETTO] = {"perfetto", "tally.perfetto.json"},
};

/* NULL: standard output. */
static const char *choose_output(const struct export_request *request)
{
    if (request->output)
        return strcmp(request->output, "-") ? request->output : NULL;
    bool to_file =
        request->format == EXPORT_PPROF || request->format == EXPORT_HTML || base_terminal_is(STDOUT_FILENO);
    return to_file ? formats[request->format].file : NULL;
}

static bool write_standard(void *context, const void *bytes, size_t length)
{
    int *number = context;
    bool written = base_write(STDOUT_FILENO, bytes, length);
    *number = written ? 0 : errno;
    return written;
}

static int to_standard(const struct profile *profile, const struct export_options *options,
                       struct base_error *error)
{
    int number = 0;
    if (options->format == EXPORT_PPROF && base_terminal_is(STDOUT_FILENO)) {
        base_fail(error, BASE_EUSAGE, "export: pprof's format is not for a terminal; name a file with -o");
        return cli_fail(error);
    }
    int result = export_profile(profile, options, write_standard, &number, error);
    if (result == BASE_EIO && number == EPIPE)
        return CLI_PIPE_CLOSED;
    if (result == BASE_EIO)
        base_fail_errno(error, number, "cannot write to standard output");
    return result < 0 ? cli_fail(error) : CLI_OK;
}

static void say_written(const char *format, const char *path, uint64_t length)
{
    if (length < 10000)
        cli_say("%s -> %s (%llu bytes)", format, path, (unsigned long long)length);
    else if (length < 10000000)
        cli_say("%s -> %s (%llu kB)", format, path, (unsigned long long)(length + 500) / 1000);
    else
        cli_say("%s -> %s (%llu MB)", format, path, (unsigned long long)(length + 500000) / 1000000);
}

static int to_file(const struct profile *profile, const struct export_options *options, const char *path,
                   struct base_error *error)
{
    struct cli_file file;
    if (cli_file_begin(&file, path, options->file, error) < 0)
        return cli_fail(error);
    int result = export_profile(profile, options, cli_file_write, &file, error);
    uint64_t length = file.length;
    int finished = cli_file_finish(&file, result == BASE_OK, error);
    if (result < 0 || finished < 0)
        return cli_fail(error);
    say_written(formats[options->format].name, path, length);
    return CLI_OK;
}

/* --- the command --- */

static int export_put(const struct profile *profile, const struct export_options *options, const char *path,
                      struct base_error *error)
{
    return path ? to_file(profile, options, path, error) : to_standard(profile, options, error);
}

/* The page has reports in it beside the profile. */
static int export_page(const struct profile *profile, const struct export_request *request,
                       struct export_options *options, struct view_options *part, struct base_error *error)
{
    struct cli_page page;
    part->file = options->file;
    part->debuginfod = request->debuginfod;
    if (cli_page_build(&page, profile, part, &request->page, options, error) < 0)
        return cli_fail(error);
    int status = export_put(profile, options, choose_output(request), error);
    cli_page_free(&page);
    return status;
}

/* Has room for the figures of one counter? */
static bool is_of_one(int format)
{
    return format == EXPORT_FOLDED || format == EXPORT_GPROF || format == EXPORT_FIREFOX ||
           format == EXPORT_PERFETTO;
}

static int check_counter(const struct profile *profile, const struct export_request *request,
                         uint16_t counter, const char *file, struct base_error *error)
{
    bool of_time = request->format == EXPORT_GPROF || request->format == EXPORT_PERFETTO;
    if (of_time && strcmp(profile_text(profile, profile->counters[counter].unit), "ns"))
        return base_fail(error, BASE_EUSAGE, "export: the format of %s is of time, and %s of %s is none",
                         formats[request->format].name,
                         counter ? profile_text(profile, profile->counters[counter].name) : "what there is",
                         file);
    if (request->format == EXPORT_MASSIF && !profile_heap_find(profile, PROFILE_HEAP_PEAK))
        return base_fail(error, BASE_EUSAGE,
                         "export: %s has no memory in it; tally record --heap counts that", file);
    return BASE_OK;
}

/* The timeline, for formats that draw it. */
static int read_times(const struct profile *profile, const struct export_request *request, const char *file,
                      struct store_timeline_list *times, struct base_error *error)
{
    if (request->format != EXPORT_FIREFOX && request->format != EXPORT_PERFETTO)
        return BASE_OK;
    const struct store_period period = {request->part.from_ns,
                                        request->part.to_ns ? request->part.to_ns : UINT64_MAX};
    int code = store_timeline_read(file, profile, times, error);
    store_period_cut(times, &period);
    if (code >= 0 && request->format == EXPORT_PERFETTO && !times->count)
        return base_fail(error, BASE_EUSAGE,
                         "export: %s has no timeline to draw; tally record --timeline keeps one", file);
    return code;
}

static int write_part(const struct profile *profile, const struct export_request *request,
                      struct view_options *part, struct export_options *options, struct base_error *error)
{
    struct store_timeline_list times = {0};
    if (read_times(profile, request, options->file, &times, error) < 0) {
        store_timeline_list_free(&times);
        return cli_fail(error);
    }
    options->times = &times;
    int status = request->format == EXPORT_HTML ? export_page(profile, request, options, part, error)
                                                : export_put(profile, options, choose_output(request), error);
    store_timeline_list_free(&times);
    return status;
}

static int export_part(const struct profile *profile, const struct export_request *request, const char *file,
                       struct base_error *error)
{
    struct view_options part = {.part = request->part, .counter = request->counter};
    uint32_t by_edge = profile_counts_calls(profile);
    bool calls = by_edge && request->counter && !strcmp(request->counter, PROFILE_CALLS);
    struct view_selection selection;
    if (calls) /* of which reports have no selection */
        part.counter = NULL;
    if (view_select(profile, &part, &selection, error) < 0)
        return cli_fail(error);
    uint16_t counter = calls ? (uint16_t)by_edge : selection.counter;
    struct export_options options = {
        .format = (enum export_format)request->format,
        .table = (enum export_table)request->table,
        .part = {selection.threads, selection.images, selection.cpus, selection.period},
        .counter = request->counter || is_of_one(request->format) ? counter : 0,
        .preferred = counter,
        .samples = request->samples,
        .threads = request->threads,
        .inlines = request->inlines,
        .marks = request->marks,
        .creator = "tally " TALLY_VERSION,
        .file = file,
    };
    int status = check_counter(profile, request, counter, file, error) < 0
                     ? cli_fail(error)
                     : write_part(profile, request, &part, &options, error);
    view_select_free(&selection);
    return status;
}

int cmd_export(int argc, char **argv)
{
    struct export_request request = {.format = -1, .table = -1, .page.annotated = UINT64_MAX};
    struct base_options_rest rest;
    struct base_error error = {0};
    struct profile *profile = NULL;
    int status;
    if (!cli_parse(&export_command, argc, argv, &request, &rest, &status))
        return status;
    const char *file = rest.count ? rest.arguments[0] : "tally.out";
    if (export_check(&request, &error) < 0)
        return cli_fail(&error);
    const struct cli_profile_wanted wanted = {.lines = request.format != EXPORT_CSV ||
                                                       request.table != EXPORT_COUNTERS,
                                              .debuginfod = request.debuginfod,
                                              .part = &request.part,
                                              .counter = request.counter};
    if (cli_profile_load(file, &wanted, &profile, &error) < 0)
        return cli_fail(&error);
    status = export_part(profile, &request, file, &error);
    profile_free(profile);
    return status;
}
