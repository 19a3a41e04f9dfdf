#include "proc_cgroup.h"

#include <fcntl.h>
#include <mntent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base_read.h"
#include "base_text.h"

enum { CGROUP_MOST = 64 << 10 };

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

/* How good a hierarchy's line says where a process belongs: version 2's unless it is its root, which on mixed
 * systems all processes are in. */
static int cgroup_rank(const char *controllers, size_t length, const char *path)
{
    if (!length)
        return !strcmp(path, "/") ? 1 : 4;
    return length == strlen("name=systemd") && !strncmp(controllers, "name=systemd", length) ? 3 : 2;
}

bool proc_cgroup_parse(const char *text, char *group, size_t size)
{
    int best = 0;
    while (*text) {
        size_t length = strcspn(text, "\n");
        char line[4400];
        snprintf(line, sizeof line, "%.*s", (int)(length < sizeof line ? length : sizeof line - 1), text);
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
        int rank = path ? cgroup_rank(controllers + 1, (size_t)(path - controllers - 1), path + 1) : 0;
        if (rank > best && strlen(path + 1) < size) {
            memcpy(group, path + 1, strlen(path + 1) + 1);
            best = rank;
        }
        text += length + (text[length] == '\n');
    }
    return best > 0;
}

bool proc_cgroup_of(pid_t pid, char *group, size_t size)
{
    char path[64];
    struct base_text text = {0};
    snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
    bool found = base_read_file(path, CGROUP_MOST, &text) >= 0 && text.length &&
                 proc_cgroup_parse(base_text_string(&text), group, size);
    base_text_free(&text);
    return found;
}
