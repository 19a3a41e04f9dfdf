/* cli_pids.h - process numbers as people type them: -p 12 -p 34,56.
 * Context: tool. */
#ifndef CLI_PIDS_H
#define CLI_PIDS_H

#include <stddef.h>
#include <sys/types.h>

#include "base_error.h"

enum { CLI_PIDS_MAX = 4096 };

struct cli_pids {
    pid_t items[CLI_PIDS_MAX];
    size_t count;
};

/* Adds the numbers in `argument`, which commas separate, each once. BASE_EUSAGE. */
int cli_pids_read(struct cli_pids *pids, const char *argument, struct base_error *error);

#endif
