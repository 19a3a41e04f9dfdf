/* tally annotate: one function, line by line or instruction by instruction. */
#include <stddef.h>
#include <unistd.h>

#include "annotate.h"
#include "base_terminal.h"
#include "base_text.h"
#include "cli.h"
#include "cli_pager.h"
#include "cli_profile.h"

static const double DEFAULT_LIMIT = 1; /* percent of the function */
enum { AROUND = 4, AROUND_MOST = 1000 };

struct annotate_request {
    int syntax, color, header;
    const char *counter;
    struct view_part part;
    struct cli_profile_maps maps;
    double limit_percent;
    uint64_t around;
    bool assembly, whole, wide, json, debuginfod, pager;
};

static int annotate_read_limit(const struct base_option *option, const char *argument, void *target,
                               struct base_error *error)
{
    (void)option;
    struct annotate_request *request = target;
    uint64_t rows = 0;
    int result = cli_profile_limit(argument, &request->limit_percent, &rows, error);
    if (result == BASE_OK && request->limit_percent < 0)
        return base_fail(error, BASE_EUSAGE, "%s is no share of the function: write %s%%", argument,
                         argument);
    return result;
}

#define MEMBER(member) .offset = offsetof(struct annotate_request, member)

static const struct base_option annotate_options[] = {
    {.kind = BASE_OPTION_HEADING, .help = "What is shown"},
    {.name = "asm",
     .kind = BASE_OPTION_FLAG,
     MEMBER(assembly),
     .help = "instructions under their lines, with arrows for jumps and the loops they lie in"},
    {.name = "syntax",
     .kind = BASE_OPTION_CHOICE,
     MEMBER(syntax),
     .argument = "att|intel",
     .help = "how x86-64 instructions are written"},
    {.name = "counter",
     .kind = BASE_OPTION_TEXT,
     MEMBER(counter),
     .argument = "NAME",
     .help = "the figures to show (default: the first counter of the profile, time.cpu where there is one)"},
    {.name = "limit",
     .kind = BASE_OPTION_CALL,
     .handler = annotate_read_limit,
     .argument = "PERCENT",
     .help = "of a long function, lines count from this share of its total on (default 1%)"},
    {.name = "context",
     .kind = BASE_OPTION_NUMBER,
     MEMBER(around),
     .argument = "N",
     .maximum = AROUND_MOST,
     .help = "lines around those that count (default 4; twice as many instructions)"},
    {.name = "whole", .kind = BASE_OPTION_FLAG, MEMBER(whole), .help = "leave no line out"},
    CLI_PROFILE_MAP(MEMBER(maps), ""),
    {.kind = BASE_OPTION_HEADING, .help = "Only a part"},
    {.name = "image",
     .kind = BASE_OPTION_TEXT,
     MEMBER(part.image),
     .argument = "NAME",
     .help =
         "the function of that file, by name (* and ? stand for anything) or the beginning of its build-id"},
    CLI_PROFILE_THREADS(MEMBER),
    CLI_PROFILE_CPUS(MEMBER, ""),
    CLI_PROFILE_OVERHEAD(MEMBER),
    {.kind = BASE_OPTION_HEADING, .help = "How it is shown"},
    CLI_PROFILE_VERBOSE(MEMBER),
    {.name = "wide", .kind = BASE_OPTION_FLAG, MEMBER(wide), .help = "do not cut long lines"},
    CLI_PROFILE_SHOWN(MEMBER, "listings"),
    {0},
};

static const char *const annotate_notes[] = {
    "FUNCTION is a name, with or without its arguments and what qualifies it, a pattern, the beginning of a "
    "name, or IMAGE+0xADDRESS. Lines with a tenth of the function's own time are marked with >.",
    "  tally annotate sqlite3VdbeExec",
    "  tally annotate --asm 'Parser::next*' before.out",
    "  tally annotate main --source-map /build/app=.",
    NULL,
};

static const struct base_options_command annotate_command = {
    .name = "tally annotate",
    .synopsis = {"[OPTIONS] FUNCTION [FILE]"},
    .summary =
        "Show one function line by line, or instruction by instruction, with the cost beside each. FILE "
        "is a profile that tally record left (default tally.out).",
    .options = annotate_options,
    .minimum_arguments = 1,
    .maximum_arguments = 2,
    .arguments = "FUNCTION FILE",
    .notes = annotate_notes,
};

/* What would be ignored is refused. */
static int annotate_check(struct annotate_request *request, struct base_error *error)
{
    if (request->syntax > 0 && !request->assembly)
        return base_fail(error, BASE_EUSAGE, "annotate: --syntax goes with --asm");
    if (request->header && request->json)
        return base_fail(error, BASE_EUSAGE, "annotate: -v is for text; --json has all of it");
    return BASE_OK;
}

static int print_annotated(const struct profile *profile, const struct annotate_request *request,
                           const char *function, const char *file, struct base_error *error)
{
    struct view_annotation annotation = {
        .function = function,
        .image = request->part.image,
        .assembly = request->assembly,
        .intel = request->syntax == 1,
        .whole = request->whole,
        .around = request->around,
        .maps = request->maps.items,
        .map_count = request->maps.count,
    };
    struct view_options options = {
        .view = VIEW_ANNOTATE,
        .counter = request->counter,
        .header = (enum view_header)request->header,
        .limit_percent = request->limit_percent,
        .part = {.thread = request->part.thread,
                 .process = request->part.process,
                 .cpus = request->part.cpus}, /* NAME is of the function */
        .json = request->json,
        .color = base_terminal_color(STDOUT_FILENO, (enum base_terminal_color)request->color),
        .ascii = !base_terminal_utf8(),
        .width = request->wide ? 0 : base_terminal_width(STDOUT_FILENO),
        .file = file,
        .debuginfod = request->debuginfod,
        .annotation = &annotation,
    };
    struct base_text text = {0};
    int result = annotate_print(profile, &options, &text, error);
    int status = result < 0 ? cli_fail(error) : cli_pager_show(&text, request->pager && !request->json);
    base_text_free(&text);
    return status;
}

int cmd_annotate(int argc, char **argv)
{
    struct annotate_request request = {.limit_percent = DEFAULT_LIMIT, .around = AROUND, .pager = true};
    struct base_options_rest rest;
    struct base_error error = {0};
    struct profile *profile = NULL;
    int status;
    if (!cli_parse(&annotate_command, argc, argv, &request, &rest, &status))
        return status;
    const char *file = rest.count > 1 ? rest.arguments[1] : "tally.out";
    const struct cli_profile_wanted wanted = {
        .lines = true, .debuginfod = request.debuginfod, .part = &request.part};
    if (annotate_check(&request, &error) < 0 || cli_profile_load(file, &wanted, &profile, &error) < 0)
        return cli_fail(&error);
    status = print_annotated(profile, &request, rest.arguments[0], file, &error);
    profile_free(profile);
    return status;
}
