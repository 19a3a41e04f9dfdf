#include "proc_status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base_error.h"

#define GROUPS "Groups:"

/* The text so far, and where its last line begins. */
struct copy {
    struct proc_status *status;
    size_t length, line;
    bool skips; /* the rest of a line */
};

static void copy_bytes(struct copy *copy, const char *bytes, size_t count)
{
    char *text = copy->status->text;
    for (size_t i = 0; i < count && copy->length < sizeof copy->status->text - 1; i++) {
        if (copy->skips) {
            copy->skips = bytes[i] != '\n';
            continue;
        }
        text[copy->length++] = bytes[i];
        if (bytes[i] == '\n')
            copy->line = copy->length;
        copy->skips = copy->length - copy->line == strlen(GROUPS) &&
                      memcmp(text + copy->line, GROUPS, strlen(GROUPS)) == 0;
        if (copy->skips)
            copy->length = copy->line;
    }
    text[copy->length] = '\0';
}

int proc_status_read(pid_t pid, pid_t tid, struct proc_status *status)
{
    char path[64], bytes[4096];
    struct copy copy = {.status = status};
    status->text[0] = '\0';
    if (tid)
        snprintf(path, sizeof path, "/proc/%d/task/%d/status", (int)pid, (int)tid);
    else
        snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : 0;
    while (file >= 0 && ((got = read(file, bytes, sizeof bytes)) > 0 || (got < 0 && errno == EINTR)))
        copy_bytes(&copy, bytes, got > 0 ? (size_t)got : 0);
    if (file >= 0)
        close(file);
    if (got == 0 && copy.length > 0)
        return BASE_OK;
    status->text[0] = '\0';
    return BASE_ENOTFOUND;
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
