#include "cli_profile.h"

#include <stdio.h>
#include <string.h>

#include "cli_progress.h"
#include "profile_own.h"
#include "sample_resolve.h"
#include "store.h"
#include "store_period.h"
#include "view_text.h"

struct loading {
    struct cli_progress progress;
    const char *path;
};

static void show_loading(void *context, size_t done, size_t total)
{
    struct loading *loading = context;
    char what[64];
    const char *slash = strrchr(loading->path, '/');
    snprintf(what, sizeof what, "loading %s", slash ? slash + 1 : loading->path);
    cli_progress_show(&loading->progress, what, done, total);
}

static void show_naming(void *context, size_t done, size_t total)
{
    struct loading *loading = context;
    cli_progress_show(&loading->progress, "naming functions", done, total);
}

static int resolve_addresses(struct profile *profile, const struct cli_profile_wanted *wanted,
                             struct loading *loading, struct base_error *error)
{
    struct sample_resolve_options options = {.debuginfod = wanted->debuginfod,
                                             .lines = wanted->lines,
                                             .progress = show_naming,
                                             .context = loading};
    return sample_resolve(profile, &options, error);
}

int cli_profile_read_map(const struct base_option *option, const char *argument, void *target,
                         struct base_error *error)
{
    struct cli_profile_maps *maps = (struct cli_profile_maps *)(void *)((char *)target + option->offset);
    const char *sign = strchr(argument, '=');
    if (!sign || sign == argument)
        return base_fail(error, BASE_EUSAGE, "%s is not of the form FROM=TO", argument);
    if (maps->count == CLI_PROFILE_MAPS)
        return base_fail(error, BASE_EUSAGE, "no more than %d are possible", CLI_PROFILE_MAPS);
    maps->items[maps->count++] = argument;
    return BASE_OK;
}

int cli_profile_limit(const char *argument, double *percent, uint64_t *rows, struct base_error *error)
{
    size_t length = strlen(argument);
    char share[64];
    if (!length || argument[length - 1] != '%') {
        double ignored;
        if (strchr(argument, '.') && base_options_read_real(argument, &ignored, NULL) == BASE_OK)
            return base_fail(error, BASE_EUSAGE, "%s is no number of rows; for a share write %s%%", argument,
                             argument);
        *percent = -1;
        return base_options_read_number(argument, rows, error);
    }
    if (length > sizeof share)
        return base_fail(error, BASE_EUSAGE, "'%s' is not a share", argument);
    memcpy(share, argument, length - 1);
    share[length - 1] = '\0';
    *rows = 0;
    int result = base_options_read_real(share, percent, error);
    if (result == BASE_OK && *percent > 100)
        return base_fail(error, BASE_EUSAGE, "%s is more than everything", argument);
    return result;
}

/* --- a part of the time --- */

/* "1.5 s to 2 s" */
static void describe_period(struct base_text *text, const struct view_part *part)
{
    base_text_addf(text, "%.9g s to ", (double)part->from_ns / 1e9);
    if (part->to_ns)
        base_text_addf(text, "%.9g s", (double)part->to_ns / 1e9);
    else
        base_text_add(text, "the end");
}

static int check_times(const struct profile *profile, const char *file,
                       const struct store_timeline_list *list, const char *counter, struct base_error *error)
{
    uint32_t wanted = counter ? profile_counter_named(profile, counter) : 0;
    bool timed = !wanted; /* an unknown one is not refused here */
    if (!list->count)
        return base_fail(error, BASE_EUSAGE,
                         "%s does not say when its samples were; tally record --timeline keeps that", file);
    for (size_t i = 0; i < list->count && !timed; i++)
        timed = list->items[i].counter == wanted;
    return timed ? BASE_OK
                 : base_fail(error, BASE_EUSAGE, "--from and --to are of samples, and %s has no times in %s",
                             counter, file);
}

static int keep_period(struct profile *profile, struct store_timeline_list *list,
                       const struct view_part *part, struct base_error *error)
{
    const struct store_period period = {part->from_ns, part->to_ns ? part->to_ns : UINT64_MAX};
    uint64_t all = list->count;
    double last = (double)list->items[list->count - 1].time_ns / 1e9;
    struct base_text text = {0};
    store_period_cut(list, &period);
    describe_period(&text, part);
    int code = list->count ? store_period_keep(profile, list, error)
                           : base_fail(error, BASE_EUSAGE, "no sample is from %s; the last one is at %.6g s",
                                       base_text_string(&text), last);
    base_text_add(&text, ": ");
    view_text_count(&text, list->count);
    base_text_add(&text, " of ");
    view_text_count(&text, all);
    profile_set_metaf(profile, "period_notice", "only samples from %s%s", base_text_string(&text),
                      profile_counts_calls(profile) ? "; calls are of the whole recording" : "");
    base_text_free(&text);
    return code;
}

static int profile_take_period(struct profile *profile, const char *file, const struct view_part *part,
                               const char *counter, struct base_error *error)
{
    struct store_timeline_list list = {0};
    if (!part->from_ns && !part->to_ns)
        return BASE_OK;
    if (part->to_ns && part->to_ns <= part->from_ns)
        return base_fail(error, BASE_EUSAGE, "--to is not after --from");
    int code = store_timeline_read(file, profile, &list, error);
    if (code >= 0)
        code = check_times(profile, file, &list, counter, error);
    if (code >= 0)
        code = keep_period(profile, &list, part, error);
    store_timeline_list_free(&list);
    return code;
}

/* --- loading --- */

static int profile_take_part(struct profile *profile, const char *path,
                             const struct cli_profile_wanted *wanted, struct base_error *error)
{
    if (!wanted->part)
        return BASE_OK;
    int result = profile_take_period(profile, path, wanted->part, wanted->counter, error);
    return result < 0 || wanted->part->overhead ? result : profile_own_leave_out(profile, error);
}

int cli_profile_load(const char *path, const struct cli_profile_wanted *wanted, struct profile **loaded,
                     struct base_error *error)
{
    struct loading loading = {.progress = cli_progress_begin(), .path = path};
    struct profile *profile = NULL;
    int result = store_load_watched(path, show_loading, &loading, &profile, error);
    if (result == BASE_OK)
        result = resolve_addresses(profile, wanted, &loading, error);
    cli_progress_end(&loading.progress);
    if (result == BASE_OK)
        result = profile_take_part(profile, path, wanted, error);
    if (result < 0)
        profile_free(profile);
    else
        *loaded = profile;
    return result;
}
