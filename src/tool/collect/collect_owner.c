#include "collect_owner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

int collect_owner_take(pid_t pid, int *file, struct base_error *error)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    *file = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*file < 0 || !flock(*file, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK)
        return BASE_OK;
    close(*file);
    *file = -1;
    return base_fail(error, BASE_EBUSY, "process %d is being recorded by another tally: end that one first",
                     (int)pid);
}
