#include "view_walk.h"

#include <stdlib.h>

#include "base_array.h"

static int out_of_memory(struct base_error *error)
{
    return base_fail(error, BASE_ENOMEM, "out of memory for the report");
}

/* --- the order of nodes --- */

struct children {
    uint32_t *first; /* by parent: where its children begin in `items`; one more at the end */
    uint32_t *items;
};

/* Children by parent, by counting sort. Free slots (no address) belong to nobody. */
static bool walk_sort_children(const struct profile *profile, struct children *children)
{
    size_t count = profile->node_count;
    children->first = calloc(count + 2, sizeof *children->first);
    children->items = calloc(count + 1, sizeof *children->items);
    if (!children->first || !children->items)
        return false;
    for (size_t i = 1; i < count; i++)
        if (profile->nodes[i].address)
            children->first[profile->nodes[i].parent + 2]++;
    for (size_t i = 2; i < count + 2; i++)
        children->first[i] += children->first[i - 1];
    for (size_t i = 1; i < count; i++)
        if (profile->nodes[i].address)
            children->items[children->first[profile->nodes[i].parent + 1]++] = (uint32_t)i;
    return true;
}

/* Depth first, parents before children; nodes with equal parents in order of their index. */
static void walk_put_in_order(const struct children *children, struct view_nodes *nodes, uint32_t *pending)
{
    size_t waiting = 0;
    pending[waiting++] = 0;
    while (waiting) {
        uint32_t node = pending[--waiting];
        nodes->order[nodes->count++] = node;
        for (uint32_t i = children->first[node + 1]; i-- > children->first[node];)
            pending[waiting++] = children->items[i];
    }
}

static bool order_nodes(const struct profile *profile, struct view_nodes *nodes)
{
    struct children children = {0};
    uint32_t *pending = calloc(profile->node_count + 1, sizeof *pending);
    bool done = pending && walk_sort_children(profile, &children);
    if (done)
        walk_put_in_order(&children, nodes, pending);
    free(pending);
    free(children.first);
    free(children.items);
    return done;
}

/* --- figures --- */

static void add_cells(const struct profile *profile, const struct view_selection *selection,
                      struct view_nodes *nodes, bool *touched)
{
    for (size_t i = 0; i < profile->cell_count; i++) {
        const struct profile_cell *cell = &profile->cells[i];
        if (!view_select_takes(selection, profile, cell))
            continue;
        struct view_figure figure = {cell->value, cell->samples};
        view_select_add(selection, &nodes->self[cell->node], &figure);
        touched[cell->node] = true;
    }
}

/* Totals from the leaves up; nodes without anything leave the order. */
static void add_totals(const struct profile *profile, const struct view_selection *selection,
                       struct view_nodes *nodes, bool *touched)
{
    size_t kept = 0;
    for (size_t i = nodes->count; i-- > 0;) {
        uint32_t node = nodes->order[i], parent = profile->nodes[node].parent;
        view_select_add(selection, &nodes->total[node], &nodes->self[node]);
        if (node && touched[node]) {
            view_select_add(selection, &nodes->total[parent], &nodes->total[node]);
            touched[parent] = true;
        }
    }
    for (size_t i = 0; i < nodes->count; i++)
        if (touched[nodes->order[i]])
            nodes->order[kept++] = nodes->order[i];
    nodes->count = kept;
}

int view_walk_prepare(const struct profile *profile, const struct view_selection *selection,
                      struct view_nodes *nodes, struct base_error *error)
{
    size_t count = profile->node_count + 1;
    *nodes = (struct view_nodes){0};
    bool *touched = calloc(count, sizeof *touched);
    nodes->self = calloc(count, sizeof *nodes->self);
    nodes->total = calloc(count, sizeof *nodes->total);
    nodes->order = calloc(count, sizeof *nodes->order);
    if (!touched || !nodes->self || !nodes->total || !nodes->order || !order_nodes(profile, nodes)) {
        free(touched);
        view_walk_free(nodes);
        return out_of_memory(error);
    }
    add_cells(profile, selection, nodes, touched);
    add_totals(profile, selection, nodes, touched);
    free(touched);
    return 0;
}

void view_walk_free(struct view_nodes *nodes)
{
    free(nodes->self);
    free(nodes->total);
    free(nodes->order);
    *nodes = (struct view_nodes){0};
}

/* --- the walk --- */

struct walk {
    const struct profile *profile;
    const struct view_nodes *nodes;
    struct view_entities *entities;
    const struct view_visitor *visitor;
    struct view_frame *frames;
    size_t depth, capacity;
};

static bool walk_push(struct walk *walk, uint32_t entity, uint32_t node, const struct view_figure *total)
{
    if (!entity || !base_array_room(walk->frames, walk->depth, walk->capacity))
        return false;
    walk->frames[walk->depth++] = (struct view_frame){entity, node, 0, walk->profile->nodes[node].flags};
    return walk->visitor->enter(walk->visitor->context, walk->frames, walk->depth, total);
}

/* The mark that stands outside a node's frames, if any. */
static uint32_t walk_mark_of(struct walk *walk, uint32_t node, bool *marked)
{
    const struct profile_node *nodes = walk->profile->nodes;
    bool cut = nodes[node].flags & PROFILE_NODE_CUT;
    bool handler = nodes[nodes[node].parent].flags & PROFILE_NODE_SIGNAL;
    *marked = node && walk->visitor->marks && (cut || handler);
    return *marked ? view_entity_mark(walk->entities, cut ? VIEW_CUT : VIEW_SIGNAL) : 0;
}

static bool push_node(struct walk *walk, uint32_t node, const struct view_figure *total)
{
    size_t count;
    bool marked;
    uint32_t mark = walk_mark_of(walk, node, &marked);
    if (marked && !walk_push(walk, mark, node, total))
        return false;
    const uint32_t *chain = view_entity_chain(walk->entities, walk->profile->nodes[node].address, &count);
    if (!count)
        return false;
    while (count-- > 0)
        if (!walk_push(walk, chain[count], node, total))
            return false;
    return true;
}

/* Pops every frame that does not lie on the way to `parent`. */
static void pop_frames(struct walk *walk, uint32_t parent)
{
    while (walk->depth && walk->frames[walk->depth - 1].node != parent) {
        walk->visitor->leave(walk->visitor->context, walk->frames, walk->depth);
        walk->depth--;
    }
}

static bool walk_leaf(struct walk *walk, const struct view_figure *self)
{
    return (!self->samples && !self->value) ||
           walk->visitor->leaf(walk->visitor->context, walk->frames, walk->depth, self);
}

/* Samples without a stack lie in the root itself: one unknown frame that nothing else lies under. */
static bool walk_visit(struct walk *walk, uint32_t node)
{
    const struct view_figure *self = &walk->nodes->self[node];
    if (node) {
        uint32_t parent = walk->profile->nodes[node].parent;
        pop_frames(walk, parent ? parent : UINT32_MAX);
        return push_node(walk, node, &walk->nodes->total[node]) && walk_leaf(walk, self);
    }
    if (!self->samples && !self->value)
        return true;
    if (!push_node(walk, 0, self) || !walk_leaf(walk, self))
        return false;
    pop_frames(walk, UINT32_MAX);
    return true;
}

int view_walk(const struct profile *profile, const struct view_nodes *nodes, struct view_entities *entities,
              const struct view_visitor *visitor, struct base_error *error)
{
    struct walk walk = {.profile = profile, .nodes = nodes, .entities = entities, .visitor = visitor};
    bool going = true;
    for (size_t i = 0; i < nodes->count && going; i++)
        going = walk_visit(&walk, nodes->order[i]);
    if (going)
        pop_frames(&walk, UINT32_MAX);
    free(walk.frames);
    return going ? 0 : out_of_memory(error);
}
