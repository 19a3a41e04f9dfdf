/* request_pids.h - process numbers as people type them: -p 12 -p 34,56.
 * Context: tool. */
#ifndef REQUEST_PIDS_H
#define REQUEST_PIDS_H

#include <stddef.h>
#include <sys/types.h>

#include "base_error.h"

enum { REQUEST_PIDS_MAX = 4096 };

struct request_pids {
    pid_t items[REQUEST_PIDS_MAX];
    size_t count;
};

/* Adds the numbers in `argument`, which commas separate, each once. BASE_EUSAGE. */
int request_pids_read(struct request_pids *pids, const char *argument, struct base_error *error);

#endif
