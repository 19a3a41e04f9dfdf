#include "proc_status.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_error.h"
#include "base_read.h"

#define MOST (1u << 20) /* 65,536 groups fit */

int proc_status_read(pid_t pid, pid_t tid, struct base_text *status)
{
    char path[64];
    if (tid)
        snprintf(path, sizeof path, "/proc/%d/task/%d/status", (int)pid, (int)tid);
    else
        snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    int result = base_read_file(path, MOST, status);
    return result == -ENOMEM ? BASE_ENOMEM : result < 0 || status->length == 0 ? BASE_ENOTFOUND : BASE_OK;
}

const char *proc_status_field(const char *status, const char *name)
{
    size_t length = strlen(name);
    for (const char *line = status; line && *line; line = strchr(line, '\n'), line += line != NULL)
        if (!strncmp(line, name, length) && line[length] == ':')
            return line + length + 1;
    return NULL;
}

/* The next number of the same line; false: there is none. */
static bool take_number(const char **at, long *number)
{
    char *end;
    const char *from = *at + strspn(*at, "\t ");
    if (*from < '0' || *from > '9')
        return false;
    *number = strtol(from, &end, 10);
    *at = end;
    return true;
}

long proc_status_number(const char *status, const char *name, unsigned index)
{
    const char *at = proc_status_field(status, name);
    long number = 0;
    for (unsigned i = 0; at && i <= index; i++)
        if (!take_number(&at, &number))
            return 0;
    return number;
}

uint64_t proc_status_set(const char *status, const char *name)
{
    const char *at = proc_status_field(status, name);
    return at ? strtoull(at, NULL, 16) : 0;
}

unsigned proc_status_numbers(const char *status, const char *name, long *last)
{
    const char *at = proc_status_field(status, name);
    unsigned count = 0;
    *last = 0;
    while (at && take_number(&at, last))
        count++;
    return count;
}
