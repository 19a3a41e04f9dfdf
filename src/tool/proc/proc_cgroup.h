/* proc_cgroup.h - the control group that is to be recorded.
 *
 * Where version 2 of them is mounted is in /proc/self/mounts: /sys/fs/cgroup, or /sys/fs/cgroup/unified where
 * version 1 has the place. Context: tool. Source: cgroups(7), proc(5). */
#ifndef PROC_CGROUP_H
#define PROC_CGROUP_H

#include <stdbool.h>
#include <stddef.h>

#include "base_error.h"

/* Where cgroup2 is mounted, by `root`/proc/self/mounts ("" on a real machine); false: nowhere, or no room for
 * it. */
bool proc_cgroup_mount(const char *root, char *place, size_t size);

/* Opens the directory of a group for perf_event_open: an absolute path, or one below the mount. The
 * descriptor is the caller's, close-on-exec. BASE_ENOTFOUND: there is no such group. */
int proc_cgroup_open(const char *path, int *descriptor, struct base_error *error);

#endif
