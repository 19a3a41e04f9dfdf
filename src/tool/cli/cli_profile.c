#include "cli_profile.h"

#include <stdio.h>
#include <string.h>

#include "cli_progress.h"
#include "collect_resolve.h"
#include "profile_store.h"

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

static int resolve(struct profile *profile, bool lines, bool debuginfod, struct loading *loading,
                   struct base_error *error)
{
    struct collect_resolve_options options = {
        .debuginfod = debuginfod, .lines = lines, .progress = show_naming, .context = loading};
    return collect_resolve(profile, &options, error);
}

int cli_profile_load(const char *path, bool lines, bool debuginfod, struct profile **loaded,
                     struct base_error *error)
{
    struct loading loading = {.progress = cli_progress_begin(), .path = path};
    struct profile *profile = NULL;
    int result = profile_load_watched(path, show_loading, &loading, &profile, error);
    if (result == BASE_OK)
        result = resolve(profile, lines, debuginfod, &loading, error);
    cli_progress_end(&loading.progress);
    if (result < 0)
        profile_free(profile);
    else
        *loaded = profile;
    return result;
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
