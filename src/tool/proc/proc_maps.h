/* proc_maps.h - /proc/PID/maps, parsed.
 * Context: tool. */
#ifndef PROC_MAPS_H
#define PROC_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"

struct proc_mapping {
    uint64_t start, end, offset; /* run-time addresses, file offset, bytes */
    bool readable, writable, executable, shared;
    uint32_t device_major, device_minor;
    uint64_t inode;
    char *path; /* owned by the list; "" for anonymous; without " (deleted)", see `deleted` */
    bool deleted;
};

struct proc_maps {
    struct proc_mapping *items;
    size_t count, capacity;
};

/* Also of a process whose first thread has ended, whose own file is empty then. */
int proc_maps_read(pid_t pid, struct proc_maps *maps, struct base_error *error);
/* `text`: the contents of such a file. */
int proc_maps_parse(const char *text, struct proc_maps *maps, struct base_error *error);
void proc_maps_free(struct proc_maps *maps);

/* Opens the very file that is mapped, in whatever mount namespace, deleted or replaced:
 * /proc/PID/map_files/START-END first (needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE; follows the mapping),
 * then /proc/PID/root/PATH, then PATH. Each must have the mapping's inode number, on the mapping's device
 * unless the file system (overlay, btrfs, bcachefs) reports another device in stat() than in its mappings.
 * Inode 0 means unknown: any regular file is opened, and the caller must compare build-ids. Returns a
 * descriptor, or a negative code. */
int proc_maps_open(pid_t pid, const struct proc_mapping *mapping, struct base_error *error);

#endif
