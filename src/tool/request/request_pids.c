#include "request_pids.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static bool is_named_pid(const struct request_pids *pids, pid_t pid)
{
    for (size_t i = 0; i < pids->count; i++)
        if (pids->items[i] == pid)
            return true;
    return false;
}

int request_pids_read(struct request_pids *pids, const char *argument, struct base_error *error)
{
    for (const char *at = argument;;) {
        char *end;
        errno = 0;
        long pid = strtol(at, &end, 10);
        if (end == at || (*end && *end != ',') || pid <= 0 || pid > INT32_MAX || errno)
            return base_fail(error, BASE_EUSAGE, "'%s' is no process number, nor a list of them with commas",
                             argument);
        if (!is_named_pid(pids, (pid_t)pid)) {
            if (pids->count == REQUEST_PIDS_MAX)
                return base_fail(error, BASE_EUSAGE, "more than %d processes", REQUEST_PIDS_MAX);
            pids->items[pids->count++] = (pid_t)pid;
        }
        if (!*end)
            return BASE_OK;
        at = end + 1;
    }
}
