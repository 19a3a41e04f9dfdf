#include "shared_nodes.h"

#include <stdlib.h>
#include <string.h>

enum { STACK_MOST = WIRE_AGENT_FRAMES + WIRE_AGENT_PATH + 8 };

bool shared_nodes_begin(struct shared_nodes *nodes)
{
    nodes->folds = profile_folds(nodes->profile);
    nodes->known = calloc((size_t)nodes->tree->node_count + 1, sizeof *nodes->known);
    return nodes->known != NULL;
}

void shared_nodes_end(struct shared_nodes *nodes)
{
    free(nodes->known);
    nodes->known = NULL;
}

uint32_t shared_nodes_address(const struct shared_nodes *nodes, uint32_t cookie, uint64_t pc)
{
    if (!cookie || cookie > nodes->cookie_count)
        return nodes->special_unknown;
    const struct shared_cookie *it = &nodes->cookies[cookie - 1];
    return profile_address(nodes->profile, it->image, pc - it->bias);
}

static uint32_t address_of(const struct shared_nodes *nodes, const struct wire_agent_node *node)
{
    uint64_t pc = node->flags & WIRE_AGENT_NODE_EXACT ? node->pc : node->pc - 1;
    return shared_nodes_address(nodes, node->cookie, pc);
}

/* The nodes from `number` to its root, the root not included; false with *count past the most when there is
 * no end. The root's collector goes to *collector. */
static bool climb_tree(const struct shared_nodes *nodes, uint32_t number, uint32_t *stack, size_t *count,
                       uint64_t *collector)
{
    const struct shared_tree *tree = nodes->tree;
    *count = 0;
    while (number && number <= tree->node_count && tree->nodes[number].ready) {
        const struct wire_agent_node *node = &tree->nodes[number];
        if (!node->parent) {
            *collector = node->pc;
            return true;
        }
        if (*count == STACK_MOST)
            return false;
        stack[(*count)++] = number;
        number = node->parent;
    }
    return false;
}

/* Folding half-way makes nodes known before stale. */
uint32_t shared_nodes_find(struct shared_nodes *nodes, uint64_t number, enum wire_agent_collector collector)
{
    struct profile *profile = nodes->profile;
    uint32_t stack[STACK_MOST], node = 0;
    uint64_t of = 0;
    size_t count;
    if (number > nodes->tree->node_count || !climb_tree(nodes, (uint32_t)number, stack, &count, &of) ||
        of != collector)
        return 0;
    for (size_t i = count; i-- > 0;) {
        if (profile_folds(profile) != nodes->folds) {
            memset(nodes->known, 0, (nodes->tree->node_count + (size_t)1) * sizeof *nodes->known);
            nodes->folds = profile_folds(profile);
        }
        if (nodes->known[stack[i]]) {
            node = nodes->known[stack[i]];
            continue;
        }
        const struct wire_agent_node *from = &nodes->tree->nodes[stack[i]];
        uint32_t flags = i + 1 == count && from->flags & WIRE_AGENT_NODE_CUT ? PROFILE_NODE_CUT : 0;
        node = profile_node(profile, node, address_of(nodes, from), flags);
        if (!node)
            return 0;
        nodes->known[stack[i]] = node;
    }
    return node;
}
