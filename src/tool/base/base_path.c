#include "base_path.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS_MOST 40 /* as the kernel (MAXSYMLINKS) */

/* Where a link at `path` leads; relative ones from the link's directory. NULL: errno. */
static char *follow_link(const char *path)
{
    char target[PATH_MAX];
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length < 0)
        return NULL;
    target[length] = '\0';
    const char *last = strrchr(path, '/');
    if (target[0] == '/' || !last)
        return strdup(target);
    size_t prefix = (size_t)(last - path) + 1;
    char *joined = malloc(prefix + (size_t)length + 1);
    if (joined) {
        memcpy(joined, path, prefix);
        memcpy(joined + prefix, target, (size_t)length + 1);
    }
    return joined;
}

int base_path_resolve(const char *path, char **real, struct base_error *error)
{
    struct stat link, seen, reached;
    bool exists = stat(path, &seen) == 0;
    char *at = strdup(path);
    for (int i = 0; at && i < LINKS_MOST && !lstat(at, &link) && S_ISLNK(link.st_mode); i++) {
        char *next = follow_link(at);
        free(at);
        at = next;
    }
    if (!at)
        return base_fail_errno(error, errno, "%s", path);
    bool same =
        exists && !stat(at, &reached) && reached.st_dev == seen.st_dev && reached.st_ino == seen.st_ino;
    bool cycle = !lstat(at, &link) && S_ISLNK(link.st_mode);
    if (cycle || (exists && !same)) {
        free(at);
        return base_fail(error, BASE_EUSAGE, "%s leads to no name that could be written to", path);
    }
    *real = at;
    return BASE_OK;
}
