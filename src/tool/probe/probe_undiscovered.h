/* probe_undiscovered.h - children of fork that have the agent, load objects, and have not come to a hook
 * yet.
 *
 * Nothing else knows of them: they take a region of their tables' file with their first hook. Until then
 * what is hooked in their new objects is kept here, because it must not be hooked again. Context: tool, one
 * thread. */
#ifndef PROBE_UNDISCOVERED_H
#define PROBE_UNDISCOVERED_H

#include <stddef.h>
#include <sys/types.h>

#include "base_error.h"
#include "loader.h"

struct probe_undiscovered {
    struct probe_undiscovered_child *items;
    size_t count, capacity;
};

void probe_undiscovered_free(struct probe_undiscovered *undiscovered);

/* The agent of process `pid`, which stays here; NULL: it is not here. */
struct loader_agent *probe_undiscovered_find(struct probe_undiscovered *undiscovered, pid_t pid);
/* The same, and it becomes the caller's. */
struct loader_agent *probe_undiscovered_take(struct probe_undiscovered *undiscovered, pid_t pid);
/* BASE_ENOTFOUND: the process has ended. */
int probe_undiscovered_add(struct probe_undiscovered *undiscovered, const struct loader_agent *parent,
                           pid_t pid, struct loader_agent **agent, struct base_error *error);

#endif
