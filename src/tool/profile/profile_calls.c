/* profile_calls.c - exact calls by edge. They stand beside the tree, not in it: a site and a callee say
 * nothing of the frames above, and no folding ever touches them. */
#include <string.h>

#include "base_array.h"
#include "profile.h"
#include "profile_model.h"
#include "wire_loss.h"

uint32_t profile_calls_counter(struct profile *profile)
{
    return profile_counter(profile, PROFILE_CALLS, PROFILE_CALLS, true, PROFILE_SUM);
}

uint32_t profile_counts_calls(const struct profile *profile)
{
    for (uint32_t i = 1; i < profile->counter_count; i++) {
        const struct profile_counter *counter = &profile->counters[i];
        if (counter->exact && !strcmp(profile_text(profile, counter->name), PROFILE_CALLS) &&
            !strcmp(profile_text(profile, counter->unit), PROFILE_CALLS))
            return i;
    }
    return 0;
}

static bool same_edge(const struct profile *profile, uint32_t index, const void *key)
{
    const struct profile_edge *edge = &profile->edges[index], *wanted = key;
    return edge->site == wanted->site && edge->callee == wanted->callee && edge->thread == wanted->thread &&
           edge->kind == wanted->kind;
}

static bool is_edge(const struct profile *profile, const struct profile_edge *edge)
{
    return edge->site < profile->address_count && edge->callee && edge->callee < profile->address_count &&
           edge->thread < profile->thread_count && edge->kind && edge->kind < PROFILE_CALL_KINDS;
}

static bool edge_room(struct profile *profile)
{
    return profile_table_room(profile, PROFILE_TABLE_EDGES) && profile->edge_count < INT32_MAX &&
           base_array_room(profile->edges, profile->edge_count, profile->self->edge_capacity) &&
           (profile->edge_count > 1 || profile_calls_counter(profile));
}

uint32_t profile_edge(struct profile *profile, uint32_t site, uint32_t callee, uint32_t thread, uint32_t kind)
{
    struct profile_edge wanted = {.site = site, .callee = callee, .thread = thread, .kind = kind};
    if (!is_edge(profile, &wanted))
        return 0;
    if (!edge_room(profile)) {
        profile_lose(profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
        return 0;
    }
    struct profile_table *table = &profile->self->tables[PROFILE_TABLE_EDGES];
    uint32_t *slot = profile_table_slot(profile, table, profile_hash_edge(&wanted), same_edge, &wanted);
    if (*slot)
        return *slot - 1;
    profile->edges[profile->edge_count] = wanted;
    profile_table_put(table, slot, (uint32_t)profile->edge_count);
    return (uint32_t)profile->edge_count++;
}

void profile_set_calls(struct profile *profile, uint32_t edge, uint64_t calls)
{
    if (!edge || edge >= profile->edge_count)
        return;
    uint64_t most = calls < INT64_MAX ? calls : INT64_MAX;
    if (profile->edges[edge].calls == most)
        return;
    profile->edges[edge].calls = most;
    profile_marks_set(&profile->self->edges, edge);
}

void profile_add_calls(struct profile *profile, uint32_t edge, uint64_t calls)
{
    if (!edge || edge >= profile->edge_count)
        return;
    uint64_t sum;
    if (__builtin_add_overflow(profile->edges[edge].calls, calls, &sum))
        sum = INT64_MAX;
    profile_set_calls(profile, edge, sum);
}
