/* tally merge: several recordings, hosts or ranks in one profile. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base_json.h"
#include "base_path.h"
#include "base_text.h"
#include "cli.h"
#include "cli_output.h"
#include "cli_profile.h"
#include "cli_progress.h"
#include "merge.h"
#include "store.h"
#include "view_text.h"

struct merge_request {
    const char *output;
    bool json, debuginfod;
};

#define MEMBER(member) .offset = offsetof(struct merge_request, member)

static const struct base_option merge_options[] = {
    {.name = "output",
     .letter = 'o',
     .kind = BASE_OPTION_FILE,
     MEMBER(output),
     .argument = "FILE",
     .help = "where it goes; an older profile there becomes FILE.old"},
    {.name = "json", .kind = BASE_OPTION_FLAG, MEMBER(json), .help = "say what was merged for machines"},
    CLI_PROFILE_DEBUGINFOD(MEMBER),
    {0},
};

static const char *const merge_notes[] = {
    "Images are the same by their build-id. Each process keeps the recording that it is of: its file, host "
    "and start (tally query: processes, origins), and --process @NAME chooses one in reports and exports.",
    "  tally merge -o all.out node1.out node2.out node3.out",
    "  tally report --process @node2 all.out",
    NULL,
};

static const struct base_options_command merge_command = {
    .name = "tally merge",
    .synopsis = {"-o FILE [OPTIONS] PROFILE..."},
    .summary = "Put several profiles into one. Its figures are the sums of theirs.",
    .options = merge_options,
    .minimum_arguments = 1,
    .maximum_arguments = 1000000,
    .arguments = "PROFILE",
    .notes = merge_notes,
};

/* --- merging --- */

static bool is_same_file(const char *one, const char *other)
{
    struct stat a, b;
    return !stat(one, &a) && !stat(other, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Where there is an older result it becomes FILE.old, and what was called so goes: that must be none of the
 * parts either. */
static int check_old(const char *output, const struct base_options_rest *rest, struct base_error *error)
{
    struct stat there;
    struct base_text old = {0};
    char *real = NULL;
    int result = base_path_resolve(output, &real, error);
    if (result == BASE_OK && !stat(real, &there) && there.st_size) {
        base_text_addf(&old, "%s" STORE_OLD, real);
        for (int i = 0; i < rest->count && result == BASE_OK; i++)
            if (is_same_file(base_text_string(&old), rest->arguments[i]))
                result = base_fail(error, BASE_EUSAGE,
                                   "merge: %s is to be merged, and would be replaced by the older %s",
                                   rest->arguments[i], output);
        if (old.failed)
            result = base_fail(error, BASE_ENOMEM, "out of memory");
    }
    base_text_free(&old);
    free(real);
    return result;
}

/* The result replaces what has its name: that must be none of the parts. */
static int merge_check(const struct merge_request *request, const struct base_options_rest *rest,
                       struct base_error *error)
{
    if (!request->output)
        return base_fail(error, BASE_EUSAGE, "merge: where to? Name a file with -o");
    for (int i = 0; i < rest->count; i++) {
        if (is_same_file(request->output, rest->arguments[i]))
            return base_fail(error, BASE_EUSAGE, "merge: %s is to be merged, and cannot be the result",
                             rest->arguments[i]);
        for (int j = 0; j < i; j++)
            if (is_same_file(rest->arguments[j], rest->arguments[i]))
                return base_fail(error, BASE_EUSAGE, "merge: %s and %s are the same profile",
                                 rest->arguments[j], rest->arguments[i]);
    }
    return check_old(request->output, rest, error);
}

/* Names are looked for now: where the merged profile is read, files may be others. */
static int merge_add_file(struct profile *into, const char *file, bool debuginfod, struct base_error *error)
{
    struct profile *from = NULL;
    int result = cli_profile_load(file, &(struct cli_profile_wanted){.debuginfod = debuginfod}, &from, error);
    if (result < 0)
        return result;
    result = merge_add(into, from, file, error);
    profile_free(from);
    return result < 0 ? base_fail_context(error, result, "%s", file) : BASE_OK;
}

static int add_all(struct profile *into, const struct merge_request *request,
                   const struct base_options_rest *rest, struct base_error *error)
{
    struct cli_progress progress = cli_progress_begin();
    int result = BASE_OK;
    for (int i = 0; result == BASE_OK && i < rest->count; i++) {
        cli_progress_show(&progress, "merging", (size_t)i, (size_t)rest->count);
        result = merge_add_file(into, rest->arguments[i], request->debuginfod, error);
    }
    cli_progress_end(&progress);
    return result == BASE_OK ? merge_finish(into, error) : result;
}

/* --- what was merged --- */

/* Of what was sampled: exact counters count other things. */
static uint64_t count_samples(const struct profile *profile)
{
    uint64_t samples = 0;
    for (size_t i = 0; i < profile->cell_count; i++)
        if (!profile->counters[profile->cells[i].counter].exact)
            samples += profile->cells[i].samples;
    return samples;
}

static void json_meta(struct base_json *json, const struct profile *profile, uint32_t origin, const char *key)
{
    base_json_string(json, key, profile_origin(profile, origin, key));
}

static void merge_add_json(struct base_text *out, const struct profile *profile, const char *file,
                           uint64_t bytes)
{
    struct base_json json = {.out = out, .lines = 2};
    base_json_begin(&json, NULL, '{');
    base_json_string(&json, "file", file);
    base_json_unsigned(&json, "bytes", bytes);
    base_json_unsigned(&json, "samples", count_samples(profile));
    base_json_unsigned(&json, "processes", profile->process_count - 1);
    base_json_unsigned(&json, "images", profile->image_count - 1);
    base_json_unsigned(&json, "nodes", profile->live_nodes);
    base_json_begin(&json, "origins", '[');
    for (uint32_t i = 1; profile_origin(profile, i, "file"); i++) {
        base_json_begin(&json, NULL, '{');
        json_meta(&json, profile, i, "name");
        json_meta(&json, profile, i, "file");
        json_meta(&json, profile, i, "hostname");
        json_meta(&json, profile, i, "command");
        json_meta(&json, profile, i, "start_time");
        json_meta(&json, profile, i, "rate_hz");
        base_json_end(&json, '}');
    }
    base_json_end(&json, ']');
    base_json_end(&json, '}');
}

static void print_merge_summary(const struct profile *profile, const char *output, uint64_t bytes)
{
    struct base_text samples = {0};
    const char *origins = profile_meta(profile, "origins");
    view_text_count(&samples, count_samples(profile));
    cli_say("%s recording%s, %s samples -> %s (%llu kB)", origins ? origins : "0",
            origins && !strcmp(origins, "1") ? "" : "s", base_text_string(&samples), output,
            (unsigned long long)(bytes + 500) / 1000);
    base_text_free(&samples);
}

static int merge_report(const struct profile *profile, const struct merge_request *request, uint64_t bytes)
{
    struct base_text text = {0};
    if (!request->json) {
        print_merge_summary(profile, request->output, bytes);
        return CLI_OK;
    }
    merge_add_json(&text, profile, request->output, bytes);
    int status = cli_output_text(&text);
    base_text_free(&text);
    return status;
}

/* --- the command --- */

static int write_merged(struct profile *profile, const struct merge_request *request,
                        struct base_error *error)
{
    struct store *store = NULL;
    int result = store_create(request->output, &store, error);
    if (result == BASE_OK && (result = store_flush(store, profile, error)) < 0)
        store_close(store, profile, true, NULL);
    if (result < 0)
        return cli_fail(error);
    uint64_t bytes = store_size(store);
    if (store_close(store, profile, false, error) < 0)
        return cli_fail(error);
    return merge_report(profile, request, bytes);
}

int cmd_merge(int argc, char **argv)
{
    struct merge_request request = {0};
    struct base_options_rest rest;
    struct base_error error = {0};
    int status;
    if (!cli_parse(&merge_command, argc, argv, &request, &rest, &status))
        return status;
    if (merge_check(&request, &rest, &error) < 0)
        return cli_fail(&error);
    struct profile *profile = profile_new();
    if (!profile)
        base_fail(&error, BASE_ENOMEM, "out of memory");
    if (!profile || add_all(profile, &request, &rest, &error) < 0)
        status = cli_fail(&error);
    else
        status = write_merged(profile, &request, &error);
    profile_free(profile);
    return status;
}
