/* shared_nodes.h - from the agent's tree in a process to nodes of the profile's tree.
 *
 * Stacks become nodes as those of samples do: a return address minus one, in the image that was mapped there
 * when the agent met it (the module's cookie says which). The target may have written anything into the
 * tree: indices stay within bounds, and a cycle ends. Context: tool, one thread. */
#ifndef SHARED_NODES_H
#define SHARED_NODES_H

#include "profile.h"
#include "shared_file.h"
#include "wire_agent_node.h"

/* What tally called a mapping (wire_agent_module.cookie - 1 is the index). */
struct shared_cookie {
    uint32_t image; /* of the profile */
    uint64_t bias;  /* run-time address - image address */
};

struct shared_nodes {
    struct profile *profile;
    const struct shared_tree *tree;
    const struct shared_cookie *cookies;
    size_t cookie_count;
    uint32_t special_unknown; /* the profile's address of what is in no module */
    /* its own */
    uint32_t *known; /* by the agent's number: the profile's; 0: not known yet */
    uint64_t folds;  /* when they were looked up: folding makes them stale */
};

/* The profile's address of a run-time one in the mapping that tally called `cookie`; that of what is in no
 * module when there is none. */
uint32_t shared_nodes_address(const struct shared_nodes *nodes, uint32_t cookie, uint64_t pc);

/* The fields above "its own" are filled. False: out of memory. */
bool shared_nodes_begin(struct shared_nodes *nodes);
void shared_nodes_end(struct shared_nodes *nodes);

/* The profile's node of the agent's `number` below a root of `collector`; 0: it is of another one,
 * corrupt, or memory ran out. */
uint32_t shared_nodes_find(struct shared_nodes *nodes, uint64_t number, enum wire_agent_collector collector);

#endif
