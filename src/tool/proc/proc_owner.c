#include "proc_owner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* The process that holds the lock, by /proc/locks; 0: unknown, or it is in another PID namespace. */
static int holder_of(int file)
{
    struct stat status;
    char line[256];
    int owner = 0;
    FILE *locks = fstat(file, &status) ? NULL : fopen("/proc/locks", "re");
    while (locks && !owner && fgets(line, sizeof line, locks)) {
        unsigned major, minor;
        unsigned long inode;
        int pid;
        bool read = sscanf(line, "%*d: FLOCK %*s %*s %d %x:%x:%lu", &pid, &major, &minor, &inode) == 4;
        if (read && inode == status.st_ino && makedev(major, minor) == status.st_dev && pid > 0)
            owner = pid;
    }
    if (locks)
        fclose(locks);
    return owner;
}

int proc_owner_take(pid_t pid, int *file, struct base_error *error)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    *file = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*file < 0 || !flock(*file, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK)
        return BASE_OK;
    int owner = holder_of(*file);
    close(*file);
    *file = -1;
    return owner ? base_fail(error, BASE_EBUSY, "process %d is being recorded by tally %d: end that one",
                             (int)pid, owner)
                 : base_fail(error, BASE_EBUSY, "process %d is being recorded by another tally: end that one",
                             (int)pid);
}
