/* view_calls.c - edges of the profile to pairs of functions.
 *
 * Which calls recurse is decided on everything that is known of who calls whom: the counted edges and the
 * stacks of the samples. A callback that comes back through a library whose calls are not counted is on the
 * stacks alone. Signal handlers are not called by what they interrupt, and frames that are no functions close
 * no cycle. */
#include "view_calls.h"

#include <math.h>
#include <stdlib.h>

#include "base_array.h"
#include "profile_extent.h"
#include "view_complete.h"
#include "view_cycle.h"
#include "view_text.h"

static uint64_t calls_add(uint64_t one, uint64_t two)
{
    uint64_t sum;
    return __builtin_add_overflow(one, two, &sum) ? UINT64_MAX : sum;
}

/* --- pairs --- */

static uint64_t calls_key_of(uint32_t caller, uint32_t callee)
{
    return (uint64_t)caller << 32 | callee;
}

static struct view_pair *pair_of(struct view_calls *calls, uint32_t caller, uint32_t callee)
{
    uint64_t key = calls_key_of(caller, callee);
    uint32_t known = base_map_find(&calls->map, key);
    if (known != BASE_MAP_NONE)
        return &calls->pairs[known];
    if (!base_array_room(calls->pairs, calls->pair_count, calls->pair_capacity) ||
        !base_map_set(&calls->map, key, (uint32_t)calls->pair_count))
        return NULL;
    struct view_pair *pair = &calls->pairs[calls->pair_count++];
    *pair = (struct view_pair){.caller = caller, .callee = callee};
    return pair;
}

static bool calls_takes(const struct view_selection *selection, const struct profile *profile,
                        const struct profile_edge *edge, bool by_image)
{
    if (by_image)
        return view_select_takes_edge(selection, profile, edge);
    return !selection->threads || selection->threads[edge->thread];
}

/* The call is made by what is innermost at its site; it reaches a function, not what is inlined at its
 * beginning. */
static bool ends_of(struct view_entities *entities, const struct profile_edge *edge, uint32_t *caller,
                    uint32_t *callee)
{
    size_t count;
    const uint32_t *chain = view_entity_chain(entities, edge->site, &count);
    *caller = count ? chain[0] : 0;
    chain = view_entity_chain(entities, edge->callee, &count);
    *callee = count ? chain[count - 1] : 0;
    return *caller && *callee;
}

static bool calls_add_edges(struct view_context *context, struct view_entities *entities, bool by_image,
                            const struct view_complete *complete, struct view_calls *calls)
{
    const struct profile *profile = context->profile;
    for (size_t i = 1; i < profile->edge_count; i++) {
        const struct profile_edge *edge = &profile->edges[i];
        uint32_t caller, callee;
        calls->all = calls_add(calls->all, edge->calls);
        if (!edge->calls || !calls_takes(&context->selection, profile, edge, by_image))
            continue;
        calls->taken = calls_add(calls->taken, edge->calls);
        struct view_pair *pair =
            ends_of(entities, edge, &caller, &callee) ? pair_of(calls, caller, callee) : NULL;
        if (!pair)
            return false;
        pair->calls = calls_add(pair->calls, edge->calls);
        pair->kinds[edge->kind] = calls_add(pair->kinds[edge->kind], edge->calls);
        pair->partial |= !view_complete_edge(complete, edge->site, edge->callee);
        pair->callee_partial |= !view_complete_callee(complete, edge->callee);
    }
    return true;
}

/* --- cycles --- */

struct arcs {
    const struct view_entities *entities;
    struct arc {
        uint32_t from, to;
    } * items;
    size_t count, capacity;
};

static bool is_function(const struct view_entities *entities, uint32_t entity)
{
    enum view_entity_kind kind = entities->items[entity].kind;
    return kind == VIEW_FUNCTION || kind == VIEW_JIT_FUNCTION || kind == VIEW_INLINED_FUNCTION ||
           kind == VIEW_ADDRESS;
}

static bool add_arc(struct arcs *arcs, uint32_t from, uint32_t to)
{
    if (!is_function(arcs->entities, from) || !is_function(arcs->entities, to))
        return true;
    if (!base_array_room(arcs->items, arcs->count, arcs->capacity))
        return false;
    arcs->items[arcs->count++] = (struct arc){from, to};
    return true;
}

/* The calls that a node of the tree shows: into it, and of what is inlined in it. */
static bool add_node(struct arcs *arcs, struct view_entities *entities, const struct profile *profile,
                     uint32_t node)
{
    uint32_t parent = profile->nodes[node].parent;
    bool called = parent && !(profile->nodes[parent].flags & PROFILE_NODE_SIGNAL);
    size_t count;
    const uint32_t *chain = view_entity_chain(entities, called ? profile->nodes[parent].address : 0, &count);
    uint32_t caller = count ? chain[0] : 0;
    chain = count ? view_entity_chain(entities, profile->nodes[node].address, &count) : NULL;
    if (!chain || !count)
        return false;
    bool added = !called || add_arc(arcs, caller, chain[count - 1]);
    for (size_t i = count - 1; added && i > 0; i--)
        added = add_arc(arcs, chain[i], chain[i - 1]);
    return added;
}

static bool gather_arcs(struct arcs *arcs, struct view_entities *entities, const struct view_calls *calls)
{
    const struct profile *profile = entities->profile;
    arcs->entities = entities;
    for (size_t i = 0; i < calls->pair_count; i++)
        if (!add_arc(arcs, calls->pairs[i].caller, calls->pairs[i].callee))
            return false;
    for (uint32_t i = 1; i < profile->node_count; i++)
        if (profile->nodes[i].address && !add_node(arcs, entities, profile, i))
            return false;
    return true;
}

/* By counting sort into the form that view_cycle_find reads. */
static bool find_components(const struct arcs *arcs, size_t vertices, uint32_t *component)
{
    uint32_t *first = calloc(vertices + 2, sizeof *first),
             *targets = calloc(arcs->count + 1, sizeof *targets);
    bool done = first && targets;
    for (size_t i = 0; done && i < arcs->count; i++)
        first[arcs->items[i].from + 2]++;
    for (size_t i = 2; done && i < vertices + 2; i++)
        first[i] += first[i - 1];
    for (size_t i = 0; done && i < arcs->count; i++)
        targets[first[arcs->items[i].from + 1]++] = arcs->items[i].to;
    done = done && view_cycle_find(vertices, first, targets, component);
    free(first);
    free(targets);
    return done;
}

static bool find_recursion(struct view_entities *entities, struct view_calls *calls)
{
    struct arcs arcs = {0};
    bool done = gather_arcs(&arcs, entities, calls);
    uint32_t *component = done ? calloc(entities->count + 1, sizeof *component) : NULL;
    done = component && find_components(&arcs, entities->count, component);
    for (size_t i = 0; done && i < calls->pair_count; i++) {
        struct view_pair *pair = &calls->pairs[i];
        pair->recursive = pair->caller == pair->callee ||
                          (component[pair->caller] && component[pair->caller] == component[pair->callee]);
    }
    free(arcs.items);
    free(component);
    return done;
}

/* --- by callee --- */

static int by_callee(const void *a, const void *b, void *context)
{
    const struct view_pair *x = a, *y = b;
    if (x->callee != y->callee)
        return x->callee < y->callee ? -1 : 1;
    if (x->calls != y->calls)
        return x->calls > y->calls ? -1 : 1;
    return view_compare_names(context, x->caller, y->caller);
}

static bool index_pairs(struct view_entities *entities, struct view_calls *calls)
{
    calls->entity_count = entities->count;
    calls->called = calloc(entities->count + 1, sizeof *calls->called);
    calls->first = calloc(entities->count + 2, sizeof *calls->first);
    if (!calls->called || !calls->first)
        return false;
    if (calls->pair_count)
        qsort_r(calls->pairs, calls->pair_count, sizeof *calls->pairs, by_callee, entities);
    for (size_t i = 0; i < calls->pair_count; i++) {
        const struct view_pair *pair = &calls->pairs[i];
        struct view_called *called = &calls->called[pair->callee];
        called->calls = calls_add(called->calls, pair->calls);
        called->partial |= pair->callee_partial;
        called->itself += pair->caller == pair->callee ? pair->calls : 0;
        called->recursive = calls_add(called->recursive, pair->recursive ? pair->calls : 0);
        calls->first[pair->callee + 1]++;
        if (!base_map_set(&calls->map, calls_key_of(pair->caller, pair->callee), (uint32_t)i))
            return false;
    }
    for (size_t i = 1; i < entities->count + 2; i++)
        calls->first[i] += calls->first[i - 1];
    return true;
}

int view_calls_gather(struct view_context *context, struct view_entities *entities, bool by_image,
                      struct view_calls *calls)
{
    *calls = (struct view_calls){.counted = profile_extent_has_calls(context->profile)};
    if (!calls->counted)
        return 0;
    struct view_complete complete = {0};
    bool done = view_complete_init(&complete, context->profile) &&
                calls_add_edges(context, entities, by_image, &complete, calls) &&
                find_recursion(entities, calls) && index_pairs(entities, calls);
    view_complete_free(&complete);
    return done ? 0 : view_memory(context);
}

void view_calls_free(struct view_calls *calls)
{
    free(calls->pairs);
    free(calls->called);
    free(calls->first);
    base_map_free(&calls->map);
    *calls = (struct view_calls){0};
}

/* --- asking --- */

const struct view_pair *view_calls_pair_of(const struct view_context *context, struct view_entities *entities,
                                           bool by_image, const struct view_calls *calls,
                                           const struct profile_edge *edge)
{
    uint32_t caller, callee;
    if (!edge->calls || !calls_takes(&context->selection, context->profile, edge, by_image) ||
        !ends_of(entities, edge, &caller, &callee))
        return NULL;
    return view_calls_between(calls, caller, callee);
}

struct view_called view_calls_of(const struct view_calls *calls, uint32_t entity)
{
    return entity < calls->entity_count ? calls->called[entity] : (struct view_called){0};
}

const struct view_pair *view_calls_between(const struct view_calls *calls, uint32_t caller, uint32_t callee)
{
    uint32_t known = base_map_find(&calls->map, calls_key_of(caller, callee));
    return known == BASE_MAP_NONE ? NULL : &calls->pairs[known];
}

uint64_t view_calls_entering(const struct view_called *called)
{
    uint64_t outside = called->calls - called->recursive;
    return outside ? outside : called->calls - called->itself;
}

uint64_t view_calls_divisor(const struct view_called *called)
{
    return called->partial ? 0 : view_calls_entering(called);
}

struct view_mean view_calls_mean(const struct view_selection *selection, const struct view_figure *figure,
                                 uint64_t calls)
{
    struct view_share share = view_select_share(selection, figure);
    double scale = calls ? (double)selection->taken.value / (double)calls : 0;
    return (struct view_mean){share.share * scale, share.low * scale, share.high * scale};
}

static bool in_nanoseconds(const struct view_selection *selection)
{
    return selection->counter && !selection->peak && selection->unit[0] == 'n' && selection->unit[1] == 's' &&
           !selection->unit[2];
}

bool view_calls_timed(const struct view_context *context, const struct view_calls *calls)
{
    const struct view_selection *selection = &context->selection;
    return calls->counted && in_nanoseconds(selection) && !selection->images && !selection->cpus &&
           !selection->period;
}

/* --- as people read them --- */

void view_calls_at_least(struct base_text *out, const struct view_called *called, bool ascii)
{
    if (called->partial)
        base_text_add(out, ascii ? ">=" : "≥");
}

void view_calls_text(struct base_text *out, const struct view_called *called, bool ascii)
{
    if (!called->calls)
        return;
    view_calls_at_least(out, called, ascii);
    uint64_t entering = view_calls_entering(called);
    if (entering)
        view_text_count(out, entering);
    if (called->calls == entering)
        return;
    base_text_add(out, "+");
    view_text_count(out, called->calls - entering);
}

void view_calls_mean_text(struct base_text *out, const struct view_mean *mean, bool ascii)
{
    static const char *const units[] = {"ns", "µs", "ms", "s"};
    double scale = 1, leading = mean->value > 0 ? mean->value : mean->high;
    size_t unit = 0;
    for (; leading / scale >= 999.5 && unit < 3; unit++)
        scale *= 1e3;
    const char *name = unit == 1 && ascii ? "us" : units[unit];
    int digits = leading / scale < 9.995 ? 2 : leading / scale < 99.95 ? 1 : 0;
    if (mean->value > 0 && mean->low >= mean->high)
        base_text_addf(out, "%.*f %s", digits, mean->value / scale, name);
    else if (mean->value > 0)
        base_text_addf(out, "%.*f %s%.*f %s", digits, mean->value / scale, ascii ? "+-" : "±", digits,
                       (mean->high - mean->low) / 2 / scale, name);
    else
        base_text_addf(out, "<%.*f %s", digits, mean->high / scale, name);
}

void view_calls_json(struct base_json *json, const struct view_called *called)
{
    base_json_unsigned(json, "calls", called->calls);
    base_json_unsigned(json, "recursive_calls", called->calls - view_calls_entering(called));
    base_json_bool(json, "calls_complete", !called->partial);
}

void view_calls_mean_json(struct base_json *json, const char *key, const struct view_mean *mean)
{
    base_json_begin(json, key, '{');
    base_json_number(json, "value", mean->value);
    base_json_number(json, "low", mean->low);
    base_json_number(json, "high", mean->high);
    base_json_end(json, '}');
}

bool view_calls_count(const struct profile *profile, uint64_t *calls, size_t *edges)
{
    struct view_entities entities = {0};
    struct base_map kinds = {0}; /* (caller, callee) -> bits of kinds */
    bool done = view_entity_init(&entities, profile, VIEW_DETAIL_FUNCTION);
    *calls = *edges = 0;
    for (size_t i = 1; done && i < profile->edge_count; i++) {
        const struct profile_edge *edge = &profile->edges[i];
        uint32_t caller, callee;
        if (!edge->calls)
            continue;
        *calls = calls_add(*calls, edge->calls);
        done = ends_of(&entities, edge, &caller, &callee);
        uint32_t known = done ? base_map_find(&kinds, calls_key_of(caller, callee)) : 0;
        uint32_t seen = known == BASE_MAP_NONE ? 0 : known;
        *edges += !(seen >> edge->kind & 1);
        done = done && base_map_set(&kinds, calls_key_of(caller, callee), seen | 1u << edge->kind);
    }
    base_map_free(&kinds);
    view_entity_free(&entities);
    return done;
}
