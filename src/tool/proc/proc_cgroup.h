/* proc_cgroup.h - the control group that is to be recorded, and those of processes.
 *
 * Where version 2 of them is mounted is in /proc/self/mounts: /sys/fs/cgroup, or /sys/fs/cgroup/unified where
 * version 1 has the place. Context: tool. Source: cgroups(7), proc(5). */
#ifndef PROC_CGROUP_H
#define PROC_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base_error.h"

/* Where cgroup2 is mounted, by `root`/proc/self/mounts ("" on a real machine); false: nowhere, or no room for
 * it. */
bool proc_cgroup_mount(const char *root, char *place, size_t size);

/* Opens the directory of a group for perf_event_open: an absolute path, or one below the mount. The
 * descriptor is the caller's, close-on-exec. BASE_ENOTFOUND: there is no such group. */
int proc_cgroup_open(const char *path, int *descriptor, struct base_error *error);

/* The group that a process is in, as /proc/PID/cgroup names it: of version 2, or where that has none of it, of
 * the hierarchy of systemd, or of the first other one. False: the process is gone, or in no group. */
bool proc_cgroup_of(pid_t pid, char *group, size_t size);
/* The same out of the text of that file. */
bool proc_cgroup_parse(const char *text, char *group, size_t size);

#endif
