#include "browse_data.h"

#include <stdlib.h>

#include "base_array.h"

/* --- the order of the tree --- */

static bool order_branches(struct browse_data *data)
{
    const struct view_merge *merge = &data->merge;
    uint32_t *pending = calloc(merge->count + 1, sizeof *pending);
    size_t waiting = 0;
    data->walk = calloc(merge->count + 1, sizeof *data->walk);
    data->at = calloc(merge->count + 1, sizeof *data->at);
    if (!pending || !data->walk || !data->at) {
        free(pending);
        return false;
    }
    pending[waiting++] = 0;
    while (waiting) {
        uint32_t branch = pending[--waiting];
        if (branch) {
            data->at[branch] = (uint32_t)data->walk_count;
            data->walk[data->walk_count++] = branch;
        }
        for (uint32_t i = merge->first[branch + 1]; i-- > merge->first[branch];)
            pending[waiting++] = merge->children[i];
    }
    free(pending);
    return true;
}

/* --- sums --- */

static struct browse_edge *edge_between(struct browse_data *data, uint32_t caller, uint32_t callee)
{
    uint64_t key = (uint64_t)caller << 32 | callee;
    uint32_t known = base_map_find(&data->map, key), fresh = (uint32_t)data->edge_count;
    if (known != BASE_MAP_NONE)
        return &data->edges[known];
    if (!base_array_room(data->edges, data->edge_count, data->edge_capacity) ||
        !base_map_set(&data->map, key, fresh))
        return NULL;
    data->edges[data->edge_count] = (struct browse_edge){.caller = caller, .callee = callee};
    return &data->edges[data->edge_count++];
}

/* What recurs counts once: only the outermost frame of a function, or of a pair, adds to its total. */
static bool data_enter(struct browse_data *data, uint32_t index)
{
    const struct view_branch *branch = &data->merge.branches[index];
    const struct view_selection *selection = &data->context.selection;
    struct browse_function *function = &data->functions[branch->entity];
    function->seen = true;
    view_select_add(selection, &function->self, &branch->self);
    if (!function->active++)
        view_select_add(selection, &function->total, &branch->total);
    if (!branch->parent)
        return true;
    struct browse_edge *edge =
        edge_between(data, data->merge.branches[branch->parent].entity, branch->entity);
    if (edge && !edge->active++)
        view_select_add(selection, &edge->total, &branch->total);
    return edge != NULL;
}

static void data_leave(struct browse_data *data, uint32_t index)
{
    const struct view_branch *branch = &data->merge.branches[index];
    data->functions[branch->entity].active--;
    if (branch->parent)
        edge_between(data, data->merge.branches[branch->parent].entity, branch->entity)->active--;
}

/* Along the tree: what is left of a branch is left before the next that does not lie in it. */
static bool sum_branches(struct browse_data *data)
{
    uint32_t current = 0;
    for (size_t i = 0; i < data->walk_count; i++) {
        uint32_t next = data->walk[i], parent = data->merge.branches[next].parent;
        for (; current != parent; current = data->merge.branches[current].parent)
            data_leave(data, current);
        if (!data_enter(data, next))
            return false;
        current = next;
    }
    for (; current; current = data->merge.branches[current].parent)
        data_leave(data, current);
    return true;
}

static bool data_add_calls(struct browse_data *data)
{
    for (size_t i = 0; i < data->calls.pair_count; i++) {
        const struct view_pair *pair = &data->calls.pairs[i];
        if (!edge_between(data, pair->caller, pair->callee))
            return false;
        data->functions[pair->caller].seen = data->functions[pair->callee].seen = true;
    }
    return true;
}

/* --- the list --- */

static int data_by_self(const void *a, const void *b, void *context)
{
    const struct browse_data *data = context;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    const struct browse_function *x = &data->functions[i], *y = &data->functions[j];
    if (x->self.value != y->self.value)
        return x->self.value > y->self.value ? -1 : 1;
    if (x->total.value != y->total.value)
        return x->total.value > y->total.value ? -1 : 1;
    return view_compare_names(&data->merge.entities, i, j);
}

/* Marks are no functions, and neither is a caller that is not known. */
static bool is_listed(const struct browse_data *data, uint32_t entity)
{
    enum view_entity_kind kind = data->merge.entities.items[entity].kind;
    const struct view_figure *total = &data->functions[entity].total;
    return data->functions[entity].seen && kind != VIEW_SIGNAL && kind != VIEW_CUT &&
           (kind != VIEW_UNKNOWN || total->samples || total->value);
}

static bool list_functions(struct browse_data *data)
{
    data->flat = calloc(data->function_count + 1, sizeof *data->flat);
    if (!data->flat)
        return false;
    for (uint32_t i = 1; i < data->function_count; i++)
        if (is_listed(data, i))
            data->flat[data->flat_count++] = i;
    if (data->flat_count)
        qsort_r(data->flat, data->flat_count, sizeof *data->flat, data_by_self, data);
    return true;
}

/* --- all of it --- */

static int compute_data(struct browse_data *data)
{
    struct view_context *context = &data->context;
    int code = view_walk_prepare(context->profile, &context->selection, &context->nodes, context->error);
    if (!code)
        code = view_merge_build(context, &data->merge);
    if (!code)
        code = view_calls_gather(context, &data->merge.entities, false, &data->calls);
    if (code)
        return code;
    data->function_count = data->merge.entities.count;
    data->functions = calloc(data->function_count + 1, sizeof *data->functions);
    bool done = data->functions && order_branches(data) && sum_branches(data) && data_add_calls(data) &&
                list_functions(data);
    return done ? 0 : view_memory(context);
}

int browse_data_open(struct browse_data *data, const struct profile *profile, const char *counter,
                     bool inlines, struct base_error *error)
{
    *data = (struct browse_data){.options = {.counter = counter, .limit_percent = -1},
                                 .context = {.profile = profile, .error = error},
                                 .merge = {.plain = !inlines}};
    data->context.options = &data->options;
    int code = view_select(profile, &data->options, &data->context.selection, error);
    if (!code)
        code = compute_data(data);
    if (code)
        browse_data_close(data);
    data->context.error = NULL; /* the caller's may not last */
    return code;
}

void browse_data_close(struct browse_data *data)
{
    view_calls_free(&data->calls);
    view_merge_free(&data->merge);
    view_walk_free(&data->context.nodes);
    view_select_free(&data->context.selection);
    base_map_free(&data->map);
    free(data->functions);
    free(data->edges);
    free(data->flat);
    free(data->walk);
    free(data->at);
    *data = (struct browse_data){0};
}
