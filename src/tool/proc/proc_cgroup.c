#include "proc_cgroup.h"

#include <fcntl.h>
#include <mntent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool proc_cgroup_mount(const char *root, char *place, size_t size)
{
    char path[512], line[4096];
    struct mntent entry;
    bool found = false;
    snprintf(path, sizeof path, "%s/proc/self/mounts", root);
    FILE *mounts = setmntent(path, "re");
    while (mounts && !found && getmntent_r(mounts, &entry, line, sizeof line))
        found = !strcmp(entry.mnt_type, "cgroup2") && strlen(entry.mnt_dir) < size;
    if (found)
        memcpy(place, entry.mnt_dir, strlen(entry.mnt_dir) + 1);
    if (mounts)
        endmntent(mounts);
    return found;
}

/* Every group has this file, and no other directory has it. */
static bool is_group(const char *directory)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/cgroup.procs", directory);
    return access(path, R_OK) == 0;
}

int proc_cgroup_open(const char *path, int *descriptor, struct base_error *error)
{
    char mounted[512], directory[4096];
    bool there = proc_cgroup_mount("", mounted, sizeof mounted);
    const char *const roots[] = {"", mounted, "/sys/fs/cgroup/perf_event" /* version 1 */};
    *descriptor = -1;
    for (size_t i = 0; i < sizeof roots / sizeof *roots && *descriptor < 0; i++) {
        if (roots[i] == mounted ? !there : !roots[i][0] && path[0] != '/')
            continue;
        snprintf(directory, sizeof directory, "%s%s%s", roots[i], path[0] == '/' ? "" : "/", path);
        if (is_group(directory))
            *descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (*descriptor >= 0)
        return BASE_OK;
    if (there)
        return base_fail(error, BASE_ENOTFOUND, "no cgroup '%s' (cgroup2 is mounted at %s)", path, mounted);
    return base_fail(error, BASE_ENOTFOUND, "no cgroup '%s', and cgroup2 is not mounted: see 'tally doctor'",
                     path);
}
