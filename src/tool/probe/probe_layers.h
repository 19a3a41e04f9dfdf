/* probe_layers.h - the allocators of a process, for what the agent must know of each beside its hooked
 * functions.
 *
 * An operator new that may throw is not called by the agent, since no exception may pass through it: the
 * malloc of the same object is, and the operator only when that has failed (wire_agent_layer.h:
 * layer.plain_new); where a block of malloc may not be deleted, the operator that does not throw. And what
 * an allocator calls of its own functions is known by the caller's address. What blocks really take is asked
 * of the allocator that they are of, and of no other: asked of a wrong one, it might end the program.
 * Context: tool, one thread. */
#ifndef PROBE_LAYERS_H
#define PROBE_LAYERS_H

#include <sys/types.h>

#include "loader.h"
#include "shared_file.h"

struct probe_layers_request {
    const struct loader_function *functions; /* the agent's; the first `allocators` allocate or release */
    size_t allocators;
    bool sizes; /* what blocks really take is to be known */
};

/* Publishes to region `region`, of process `pid`, whose modules were published last (shared_modules),
 * which allocators were hooked in it. Returns the path of one whose blocks' sizes cannot be known, or
 * NULL. */
const char *probe_layers(const struct shared_file *file, uint32_t region, pid_t pid,
                         const struct loader_agent *agent, const struct probe_layers_request *request);

#endif
