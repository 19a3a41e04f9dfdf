#include "cli_profile.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base_options.h"
#include "base_terminal.h"
#include "cli_output.h"
#include "collect_resolve.h"
#include "profile_store.h"

enum { PROGRESS_AFTER_MS = 500 };

struct progress {
    struct timespec begin;
    bool shown;
};

/* On standard error, once it has taken a while: only where it can be wiped away again. */
static void show_progress(void *context, size_t done, size_t total)
{
    struct progress *progress = context;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t waited =
        (now.tv_sec - progress->begin.tv_sec) * 1000 + (now.tv_nsec - progress->begin.tv_nsec) / 1000000;
    if (waited < PROGRESS_AFTER_MS)
        return;
    progress->shown = true;
    char line[64];
    int length = snprintf(line, sizeof line, "\rtally: naming functions: %zu %%\033[K",
                          total ? 100 * done / total : 100);
    cli_output_bytes(STDERR_FILENO, line, (size_t)length);
}

static int resolve(struct profile *profile, bool lines, bool debuginfod, struct base_error *error)
{
    bool possible = base_terminal_redraws(STDERR_FILENO) && base_terminal_foreground(STDERR_FILENO);
    struct progress progress = {0};
    clock_gettime(CLOCK_MONOTONIC, &progress.begin);
    struct collect_resolve_options options = {.debuginfod = debuginfod,
                                              .lines = lines,
                                              .progress = possible ? show_progress : NULL,
                                              .context = &progress};
    int result = collect_resolve(profile, &options, error);
    if (progress.shown)
        cli_output_bytes(STDERR_FILENO, "\r\033[K", 4);
    return result;
}

int cli_profile_load(const char *path, bool lines, bool debuginfod, struct profile **loaded,
                     struct base_error *error)
{
    struct profile *profile = NULL;
    int result = profile_load(path, &profile, error);
    if (result == BASE_OK)
        result = resolve(profile, lines, debuginfod, error);
    if (result < 0)
        profile_free(profile);
    else
        *loaded = profile;
    return result;
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
