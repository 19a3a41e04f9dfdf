/* cli_progress.h - one line on standard error for what takes longer than half a second: "tally: loading
 * x.tally: 45 %". Only where it can be wiped away again (a terminal, in its foreground), and only redrawn
 * some times a second. Context: tool. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

struct cli_progress {
    int descriptor; /* negative: nothing is ever shown */
    struct timespec begin, last;
    bool shown;
};

/* Standard error, if it is a terminal of ours. */
struct cli_progress cli_progress_begin(void);

/* `total` 0: how much there is to do is not known, no per cent are shown. */
void cli_progress_show(struct cli_progress *progress, const char *what, size_t done, size_t total);

/* Wipes the line away: before anything else is written there. It may be shown again. */
void cli_progress_end(struct cli_progress *progress);

#endif
