#include "export_tree.h"

#include <stdlib.h>

#include "base_array.h"

/* --- what is taken --- */

static bool has_cpu(const uint8_t *set, uint16_t cpu)
{
    return set[cpu / 8] >> (cpu % 8) & 1;
}

bool export_tree_takes(const struct profile *profile, const struct export_options *options,
                       const struct profile_cell *cell)
{
    const struct export_part *part = &options->part;
    return (!options->counter || cell->counter == options->counter) &&
           (!part->threads || part->threads[cell->thread]) &&
           (!part->cpus || has_cpu(part->cpus, cell->cpu)) &&
           (!part->images || part->images[profile->addresses[profile->nodes[cell->node].address].image]);
}

bool export_tree_has_calls(const struct export_options *options)
{
    return !options->part.cpus && !options->part.period;
}

bool export_tree_takes_edge(const struct profile *profile, const struct export_options *options,
                            const struct profile_edge *edge)
{
    const struct export_part *part = &options->part;
    return edge->calls && export_tree_has_calls(options) && (!part->threads || part->threads[edge->thread]) &&
           (!part->images || part->images[profile->addresses[edge->site].image] ||
            part->images[profile->addresses[edge->callee].image]);
}

/* --- growing --- */

static uint64_t tree_pair(uint32_t high, uint32_t low)
{
    return (uint64_t)high << 32 | low;
}

/* The child of `parent` at this frame; made when new. 0 when memory ran out. */
static uint32_t child_of(struct export_tree *tree, uint32_t parent, uint32_t frame, uint32_t thread)
{
    uint64_t key = tree_pair(parent, frame);
    uint32_t known = frame ? base_map_find(&tree->children, key) : 0, index = (uint32_t)tree->count;
    if (known != BASE_MAP_NONE)
        return known;
    if (!base_array_room(tree->branches, tree->count, tree->capacity) ||
        !base_map_set(&tree->children, key, index))
        return 0;
    tree->branches[tree->count++] = (struct export_branch){parent, frame, thread};
    return index;
}

/* What tells apart the branches of one node: the process or the thread. Processes of one name meet in the
 * branches. */
static uint32_t group_of(const struct export_tree *tree, uint32_t thread)
{
    const struct profile *profile = tree->frames->profile;
    uint32_t process = profile->threads[thread].process;
    switch (tree->apart) {
    case EXPORT_BY_NAME:
    case EXPORT_BY_PROCESS:
        return process;
    case EXPORT_BY_THREAD:
        return thread;
    case EXPORT_TOGETHER:
        break;
    }
    return 0;
}

/* The branch that stands above a group's stacks. */
static bool root_of(struct export_tree *tree, uint32_t thread, uint32_t *root)
{
    const struct profile *profile = tree->frames->profile;
    const struct profile_process *process = &profile->processes[profile->threads[thread].process];
    uint32_t name = process->name;
    int64_t number = process->pid;
    *root = 0;
    if (tree->apart == EXPORT_TOGETHER)
        return true;
    if (tree->apart == EXPORT_BY_NAME)
        number = -1;
    if (tree->apart == EXPORT_BY_THREAD) {
        name = profile->threads[thread].name ? profile->threads[thread].name : name;
        number = profile->threads[thread].tid;
    }
    uint32_t above = export_frames_process(tree->frames, name, number, process->origin);
    *root = child_of(tree, 0, above, thread);
    return *root != 0;
}

/* The mark that stands outside a node's frames: 0 none, but see *failed. */
static uint32_t tree_mark_of(struct export_tree *tree, uint32_t node, bool *failed)
{
    const struct profile_node *nodes = tree->frames->profile->nodes;
    bool cut = nodes[node].flags & PROFILE_NODE_CUT;
    bool handler = nodes[nodes[node].parent].flags & PROFILE_NODE_SIGNAL;
    if (!node || !tree->marks || (!cut && !handler))
        return 0;
    uint32_t mark = export_frames_mark(tree->frames, cut ? EXPORT_CUT : EXPORT_SIGNAL);
    *failed |= !mark;
    return mark;
}

/* The branches of one node's frames below `branch`; the innermost one, or 0. */
static uint32_t tree_grow(struct export_tree *tree, uint32_t branch, uint32_t node, uint32_t thread)
{
    const struct profile *profile = tree->frames->profile;
    bool failed = false;
    size_t count;
    uint32_t mark = tree_mark_of(tree, node, &failed);
    if (mark)
        failed |= !(branch = child_of(tree, branch, mark, thread));
    const uint32_t *chain = export_frames_chain(tree->frames, profile->nodes[node].address, &count);
    if (!count || failed)
        return 0;
    while (count-- > 0) {
        branch = child_of(tree, branch, chain[count], thread);
        if (!branch)
            return 0;
    }
    return branch;
}

/* Climbs to the nearest ancestor that has its branch, then grows the way down. */
static uint32_t branch_of(struct export_tree *tree, uint32_t node, uint32_t thread)
{
    const struct profile *profile = tree->frames->profile;
    uint32_t group = group_of(tree, thread), branch = BASE_MAP_NONE;
    size_t steps = 0;
    do {
        branch = base_map_find(&tree->nodes, tree_pair(group, node));
        if (branch != BASE_MAP_NONE)
            break;
        if (!base_array_room(tree->climb, steps, tree->climb_capacity))
            return 0;
        tree->climb[steps++] = node;
        node = profile->nodes[node].parent;
    } while (node);
    if (branch == BASE_MAP_NONE && !root_of(tree, thread, &branch))
        return 0;
    while (steps-- > 0) {
        branch = tree_grow(tree, branch, tree->climb[steps], thread);
        if (!branch || !base_map_set(&tree->nodes, tree_pair(group, tree->climb[steps]), branch))
            return 0;
    }
    return branch;
}

uint32_t export_tree_branch(const struct export_tree *tree, uint32_t node, uint32_t thread)
{
    uint32_t branch = base_map_find(&tree->nodes, tree_pair(group_of(tree, thread), node));
    return branch == BASE_MAP_NONE ? 0 : branch;
}

/* Children by parent, by counting sort. */
static bool tree_sort_children(struct export_tree *tree)
{
    tree->first = calloc(tree->count + 2, sizeof *tree->first);
    tree->next = calloc(tree->count + 1, sizeof *tree->next);
    if (!tree->first || !tree->next)
        return false;
    for (size_t i = 1; i < tree->count; i++)
        tree->first[tree->branches[i].parent + 2]++;
    for (size_t i = 2; i < tree->count + 2; i++)
        tree->first[i] += tree->first[i - 1];
    for (size_t i = 1; i < tree->count; i++)
        tree->next[tree->first[tree->branches[i].parent + 1]++] = (uint32_t)i;
    return true;
}

bool export_tree_build(struct export_tree *tree, const struct export_options *options)
{
    const struct profile *profile = tree->frames->profile;
    tree->leaf = calloc(profile->cell_count + 1, sizeof *tree->leaf);
    if (!tree->leaf || !base_array_room(tree->branches, 0, tree->capacity))
        return false;
    tree->branches[tree->count++] = (struct export_branch){0};
    for (size_t i = 0; i < profile->cell_count; i++) {
        const struct profile_cell *cell = &profile->cells[i];
        if (!export_tree_takes(profile, options, cell) || (!cell->value && !cell->samples))
            continue;
        tree->leaf[i] = branch_of(tree, cell->node, cell->thread);
        if (!tree->leaf[i])
            return false;
    }
    return tree_sort_children(tree);
}

void export_tree_free(struct export_tree *tree)
{
    free(tree->branches);
    free(tree->leaf);
    free(tree->first);
    free(tree->next);
    free(tree->climb);
    base_map_free(&tree->children);
    base_map_free(&tree->nodes);
    *tree = (struct export_tree){0};
}

/* --- figures --- */

void export_tree_add(const struct profile *profile, uint16_t counter, struct export_figure *sum,
                     const struct export_figure *more)
{
    if (__builtin_add_overflow(sum->samples, more->samples, &sum->samples))
        sum->samples = UINT64_MAX;
    if (profile->counters[counter].combine == PROFILE_PEAK)
        sum->value = more->value > sum->value ? more->value : sum->value;
    else if (__builtin_add_overflow(sum->value, more->value, &sum->value))
        sum->value = more->value < 0 ? INT64_MIN : INT64_MAX;
}

void export_tree_figures(const struct export_tree *tree, uint16_t counter, struct export_figure *self,
                         struct export_figure *total)
{
    const struct profile *profile = tree->frames->profile;
    for (size_t i = 0; i < tree->count; i++)
        self[i] = (struct export_figure){0, 0};
    for (size_t i = 0; i < profile->cell_count; i++) {
        const struct profile_cell *cell = &profile->cells[i];
        if (tree->leaf[i] && cell->counter == counter)
            export_tree_add(profile, counter, &self[tree->leaf[i]],
                            &(struct export_figure){cell->value, cell->samples});
    }
    for (size_t i = 0; total && i < tree->count; i++)
        total[i] = self[i];
    for (size_t i = tree->count; total && i-- > 1;)
        export_tree_add(profile, counter, &total[tree->branches[i].parent], &total[i]);
}

/* --- walking --- */

/* The way back from `branch` until the next thing to enter is below the one on top. */
static void leave_branches(const struct export_tree *tree, const struct export_visitor *visitor,
                           uint32_t branch, uint32_t parent)
{
    for (; branch != parent; branch = tree->branches[branch].parent)
        if (visitor->leave)
            visitor->leave(visitor->context, branch);
}

bool export_tree_walk(const struct export_tree *tree, const struct export_visitor *visitor)
{
    uint32_t *pending = calloc(tree->count + 1, sizeof *pending), at = 0;
    size_t waiting = 0;
    bool going = pending != NULL;
    for (uint32_t branch = 0; going; branch = pending[--waiting]) {
        if (branch) {
            leave_branches(tree, visitor, at, tree->branches[branch].parent);
            going = visitor->enter(visitor->context, branch);
            at = branch;
        }
        for (uint32_t i = tree->first[branch + 1]; i-- > tree->first[branch];)
            pending[waiting++] = tree->next[i];
        if (!waiting)
            break;
    }
    if (going)
        leave_branches(tree, visitor, at, 0);
    free(pending);
    return going;
}
