#include "cli_progress.h"

#include <stdint.h>
#include <unistd.h>

#include "base_terminal.h"
#include "base_text.h"
#include "base_write.h"

enum { AFTER_MS = 500, BETWEEN_MS = 80, WIDEST_NAME = 50 };

static int64_t milliseconds_since(const struct timespec *then, const struct timespec *now)
{
    return (int64_t)(now->tv_sec - then->tv_sec) * 1000 + (now->tv_nsec - then->tv_nsec) / 1000000;
}

struct cli_progress cli_progress_begin(void)
{
    bool possible = base_terminal_redraws(STDERR_FILENO) && base_terminal_foreground(STDERR_FILENO);
    struct cli_progress progress = {.descriptor = possible ? STDERR_FILENO : -1};
    clock_gettime(CLOCK_MONOTONIC, &progress.begin);
    return progress;
}

/* What is being done may hold the name of a file: no control characters, and not too much of it. */
static void progress_add_words(struct base_text *line, const char *words)
{
    for (int i = 0; words[i] && i < WIDEST_NAME; i++) {
        char byte = words[i];
        if ((unsigned char)byte < ' ' || byte == 127)
            byte = '?';
        base_text_add_bytes(line, &byte, 1);
    }
}

void cli_progress_show(struct cli_progress *progress, const char *what, size_t done, size_t total)
{
    struct timespec now;
    struct base_text line = {0};
    if (progress->descriptor < 0)
        return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (milliseconds_since(&progress->begin, &now) < AFTER_MS ||
        (progress->shown && total && milliseconds_since(&progress->last, &now) < BETWEEN_MS))
        return;
    base_text_add(&line, "\rtally: ");
    progress_add_words(&line, what);
    if (total)
        base_text_addf(&line, ": %zu %%", done < total ? 100 * done / total : 100);
    base_text_add(&line, "\033[K");
    base_write(progress->descriptor, base_text_string(&line), line.length);
    progress->shown = true;
    progress->last = now;
    base_text_free(&line);
}

void cli_progress_end(struct cli_progress *progress)
{
    if (progress->shown)
        base_write(progress->descriptor, "\r\033[K", 4);
    progress->shown = false;
}
