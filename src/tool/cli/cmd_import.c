/* tally import: what other profilers recorded, as a profile. */
#include <stddef.h>
#include <string.h>

#include "cli.h"
#include "cli_profile.h"
#include "cli_progress.h"
#include "import.h"
#include "import_file.h"
#include "sample_resolve.h"
#include "store.h"

struct import_request {
    int format; /* -1: not said */
    const char *output;
    double rate_hz; /* 0: not said */
    bool processes, debuginfod;
};

#define MEMBER(member) .offset = offsetof(struct import_request, member)

static const struct base_option import_options[] = {
    {.name = "output",
     .letter = 'o',
     .kind = BASE_OPTION_FILE,
     MEMBER(output),
     .argument = "FILE",
     .help = "where it goes (default tally.out); an older profile there becomes FILE.old"},
    {.name = "format",
     .kind = BASE_OPTION_CHOICE,
     MEMBER(format),
     .argument = "folded|pprof|gperftools|perf",
     .help = "what it is (default: what it looks like)"},
    {.name = "rate",
     .kind = BASE_OPTION_REAL,
     MEMBER(rate_hz),
     .argument = "HZ",
     .minimum = 0.001,
     .maximum = 1e9,
     .help = "of folded: weights are numbers of samples, taken HZ times a second of CPU time"},
    {.name = "processes",
     .kind = BASE_OPTION_FLAG,
     MEMBER(processes),
     .help = "of folded: the outermost frame is the name of a process"},
    CLI_PROFILE_DEBUGINFOD(MEMBER),
    {0},
};

/* In the order of --format. */
static const enum import_format choices[] = {IMPORT_FOLDED, IMPORT_PPROF, IMPORT_GPERFTOOLS, IMPORT_PERF};

static const char *const import_notes[] = {
    "FILE may be packed by gzip; - is standard input. What its format does not hold is said, not made up: a "
    "counter "
    "without numbers of samples has no intervals.",
    "  perf record -g -o - ./program | tally import -",
    "  tally import --rate 99 --processes stacks.folded && tally report",
    "  tally import -o old.tally profile.pb.gz && tally diff old.tally new.tally",
    NULL,
};

static const struct base_options_command import_command = {
    .name = "tally import",
    .synopsis = {"[OPTIONS] FILE"},
    .summary = "Make a profile of what another profiler recorded: " IMPORT_FORMAT_LIST ".",
    .options = import_options,
    .minimum_arguments = 1,
    .maximum_arguments = 1,
    .arguments = "FILE",
    .notes = import_notes,
};

/* --- the profile --- */

static int import_refuse(struct base_error *error, const char *option)
{
    return base_fail(error, BASE_EUSAGE, "import: %s is for folded stacks", option);
}

/* What would be ignored is refused. */
static int import_check(const struct import_request *request, enum import_format format,
                        struct base_error *error)
{
    if (format == IMPORT_FOLDED || format == IMPORT_UNKNOWN)
        return BASE_OK;
    if (request->rate_hz > 0)
        return import_refuse(error, "--rate");
    return request->processes ? import_refuse(error, "--processes") : BASE_OK;
}

static void import_show(void *context, size_t done, size_t total)
{
    cli_progress_show(context, "naming functions", done, total);
}

/* Now, as at the end of a recording: where the profile is read, files may be others. */
static int name_all(struct profile *profile, bool debuginfod, struct base_error *error)
{
    struct cli_progress progress = cli_progress_begin();
    struct sample_resolve_options options = {
        .debuginfod = debuginfod, .lines = true, .progress = import_show, .context = &progress};
    int result = sample_resolve(profile, &options, error);
    cli_progress_end(&progress);
    return result;
}

static int read_profile(const struct import_file *file, const char *name,
                        const struct import_request *request, struct profile **profile,
                        struct base_error *error)
{
    struct import_options options = {.file = name,
                                     .rate_hz = request->rate_hz,
                                     .processes = request->processes,
                                     .debuginfod = request->debuginfod};
    options.format =
        request->format >= 0 ? choices[request->format] : import_recognise(file->bytes, file->size);
    int result = import_check(request, options.format, error);
    if (result == BASE_OK)
        result = import_profile(file->bytes, file->size, &options, profile, error);
    if (result < 0)
        return result;
    result = import_file_check(file, error); /* before functions are named, which may take minutes */
    profile_set_meta(*profile, "tally_version", TALLY_VERSION);
    profile_set_meta(*profile, "imported_file", name);
    if (result == BASE_OK)
        result = name_all(*profile, request->debuginfod, error);
    if (result < 0)
        profile_free(*profile);
    return result;
}

/* --- the command --- */

static void import_report(const struct profile *profile, const char *output, uint64_t bytes)
{
    const char *notice = profile_meta(profile, "import_notice");
    cli_say("%s: %u nodes, %zu counter%s -> %s (%llu kB)", profile_meta(profile, "engine"),
            profile->live_nodes, profile->counter_count - 1, profile->counter_count == 2 ? "" : "s", output,
            (unsigned long long)(bytes + 500) / 1000);
    if (notice)
        cli_say("note: %s", notice);
}

static int write_profile(struct profile *profile, const char *output, struct base_error *error)
{
    struct store *store = NULL;
    int result = store_create(output, &store, error);
    if (result == BASE_OK && (result = store_flush(store, profile, error)) < 0)
        store_close(store, profile, true, NULL);
    if (result < 0)
        return cli_fail(error);
    uint64_t bytes = store_size(store);
    if (store_close(store, profile, false, error) < 0)
        return cli_fail(error);
    import_report(profile, output, bytes);
    return CLI_OK;
}

int cmd_import(int argc, char **argv)
{
    struct import_request request = {.output = "tally.out", .format = -1};
    struct base_options_rest rest;
    struct base_error error = {0};
    struct import_file file;
    struct profile *profile = NULL;
    int status;
    if (!cli_parse(&import_command, argc, argv, &request, &rest, &status))
        return status;
    const char *name = rest.arguments[0];
    bool standard = !strcmp(name, "-");
    if (import_file_open(standard ? NULL : name, &file, &error) < 0)
        return cli_fail(&error);
    int result = read_profile(&file, standard ? "standard input" : name, &request, &profile, &error);
    import_file_close(&file);
    if (result < 0)
        return cli_fail(&error);
    status = write_profile(profile, request.output, &error);
    profile_free(profile);
    return status;
}
