/* collect_agent_unheard.h - children of fork that have the agent, load objects, and have not come to a hook
 * yet.
 *
 * Nobody else knows of them: they take a region of their tables' file with their first hook. Until then what
 * is hooked in their new objects is kept here, because it must not be hooked again. Context: tool, one
 * thread. */
#ifndef COLLECT_AGENT_UNHEARD_H
#define COLLECT_AGENT_UNHEARD_H

#include <stddef.h>
#include <sys/types.h>

#include "base_error.h"
#include "patch_agent.h"

struct collect_agent_unheard {
    struct collect_agent_unheard_child *items;
    size_t count, capacity;
};

void collect_agent_unheard_free(struct collect_agent_unheard *unheard);

/* The agent of process `pid`, which stays here; NULL: it is not here. */
struct patch_agent *collect_agent_unheard_find(struct collect_agent_unheard *unheard, pid_t pid);
/* The same, and it becomes the caller's. */
struct patch_agent *collect_agent_unheard_take(struct collect_agent_unheard *unheard, pid_t pid);
/* BASE_ENOTFOUND: the process has ended. */
int collect_agent_unheard_add(struct collect_agent_unheard *unheard, const struct patch_agent *parent,
                              pid_t pid, struct patch_agent **agent, struct base_error *error);

#endif
