/* merge_figures.c - the tree of one recording put into that of the other, with all figures on it. */
#include <stdlib.h>

#include "merge_parts.h"
#include "profile_latency.h"
#include "wire_loss.h"

/* Parents may come after their children: climbs to one that is there, and comes back down. */
static bool add_node(struct merge *merge, uint32_t node)
{
    const struct profile_node *nodes = merge->from->nodes;
    size_t steps = 0;
    for (; node && !merge->nodes[node]; node = nodes[node].parent)
        merge->climb[steps++] = node;
    while (steps-- > 0) {
        uint32_t at = merge->climb[steps];
        merge->nodes[at] = profile_node(merge->into, merge->nodes[nodes[at].parent],
                                        merge->addresses[nodes[at].address], nodes[at].flags);
        if (!merge->nodes[at])
            return false;
    }
    return true;
}

bool merge_nodes(struct merge *merge)
{
    for (uint32_t i = 1; i < merge->from->node_count; i++)
        if (merge->from->nodes[i].address && !add_node(merge, i))
            return false;
    return true;
}

/* Losses are added up by themselves: what the model counts on the way would be counted twice. */
bool merge_cells(struct merge *merge)
{
    uint64_t before = merge->into->losses[WIRE_LOSS_OUT_OF_MEMORY];
    for (size_t i = 0; i < merge->from->cell_count; i++) {
        const struct profile_cell *it = &merge->from->cells[i];
        profile_count(merge->into,
                      (struct profile_key){merge->nodes[it->node], merge->threads[it->thread], it->cpu,
                                           (uint16_t)merge->counters[it->counter]},
                      it->value, it->samples);
    }
    return merge->into->losses[WIRE_LOSS_OUT_OF_MEMORY] == before;
}

bool merge_edges(struct merge *merge)
{
    if (profile_counts_calls(merge->from) && !profile_calls_counter(merge->into))
        return false;
    for (size_t i = 1; i < merge->from->edge_count; i++) {
        const struct profile_edge *it = &merge->from->edges[i];
        if (!it->calls)
            continue;
        uint32_t edge = profile_edge(merge->into, merge->addresses[it->site], merge->addresses[it->callee],
                                     merge->threads[it->thread], it->kind);
        if (!edge)
            return false;
        profile_add_calls(merge->into, edge, it->calls);
    }
    return true;
}

bool merge_peaks(struct merge *merge)
{
    uint64_t before = merge->into->losses[WIRE_LOSS_OUT_OF_MEMORY];
    for (size_t i = 1; i < merge->from->peak_count; i++) {
        const struct profile_peak *it = &merge->from->peaks[i];
        profile_set_peak(merge->into, merge->processes[it->process], merge->counters[it->counter], it->value,
                         it->time_ns);
    }
    return merge->into->losses[WIRE_LOSS_OUT_OF_MEMORY] == before;
}

bool merge_latencies(struct merge *merge)
{
    const struct profile *from = merge->from;
    uint32_t *rows = calloc(from->latency_count, sizeof *rows);
    bool good = rows != NULL;
    for (size_t i = 1; good && i < from->latency_count; i++) {
        const struct profile_latency *it = &from->latencies[i];
        rows[i] = profile_latency(merge->into, merge->processes[it->process], merge->addresses[it->address]);
        good = rows[i] != 0;
        profile_add_latency(merge->into, rows[i], it->sum_ns, it->min_ns, it->max_ns);
    }
    for (size_t i = 1; good && i < from->latency_bucket_count; i++) {
        const struct profile_latency_bucket *it = &from->latency_buckets[i];
        good = profile_add_latency_calls(merge->into, rows[it->latency], it->bucket, it->calls);
    }
    free(rows);
    return good;
}

bool merge_descriptors(struct merge *merge)
{
    for (size_t i = 1; i < merge->from->descriptor_count; i++) {
        struct profile_descriptor it = merge->from->descriptors[i];
        if (!it.origin)
            continue;
        it.process = merge->processes[it.process];
        it.node = merge->nodes[it.node];
        it.kind = profile_string(merge->into, profile_text(merge->from, it.kind));
        it.name = profile_string(merge->into, profile_text(merge->from, it.name));
        if (!profile_add_descriptor(merge->into, &it))
            return false;
    }
    return true;
}
