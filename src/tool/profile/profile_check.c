#include <stdlib.h>

#include "profile.h"
#include "profile_model.h"
#include "wire_latency.h"

/* Depth-first with colours: a node whose parents lead back to it is a cycle. */
static bool has_cycle(const struct profile *profile, uint8_t *safe)
{
    for (uint32_t start = 1; start < profile->node_count; start++) {
        uint32_t node = start, steps = 0;
        while (node && !safe[node]) {
            node = profile->nodes[node].parent;
            if (++steps > profile->node_count)
                return true;
        }
        for (node = start; node && !safe[node]; node = profile->nodes[node].parent)
            safe[node] = 1;
    }
    return false;
}

static int check_nodes(const struct profile *profile, struct base_error *error)
{
    for (uint32_t i = 1; i < profile->node_count; i++) {
        const struct profile_node *node = &profile->nodes[i];
        if (!node->address)
            continue;
        if (node->parent >= profile->node_count || node->address >= profile->address_count)
            return base_fail(error, BASE_EFORMAT, "node %u: index out of range", i);
        if (node->parent && !profile->nodes[node->parent].address)
            return base_fail(error, BASE_EFORMAT, "node %u has a parent that is none", i);
    }
    uint8_t *safe = calloc(profile->node_count + 1, 1);
    if (!safe)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    bool cycle = has_cycle(profile, safe);
    free(safe);
    return cycle ? base_fail(error, BASE_EFORMAT, "the tree has a cycle") : BASE_OK;
}

static int check_cells(const struct profile *profile, struct base_error *error)
{
    for (size_t i = 0; i < profile->cell_count; i++) {
        const struct profile_cell *cell = &profile->cells[i];
        if (cell->node >= profile->node_count || cell->thread >= profile->thread_count || !cell->counter ||
            cell->counter >= profile->counter_count || (cell->node && !profile->nodes[cell->node].address))
            return base_fail(error, BASE_EFORMAT, "cell %zu: index out of range", i);
    }
    return BASE_OK;
}

static int check_edges(const struct profile *profile, struct base_error *error)
{
    for (size_t i = 1; i < profile->edge_count; i++) {
        const struct profile_edge *edge = &profile->edges[i];
        if (edge->site >= profile->address_count || !edge->callee || edge->callee >= profile->address_count ||
            edge->thread >= profile->thread_count || !edge->kind || edge->kind >= PROFILE_CALL_KINDS ||
            edge->calls > INT64_MAX)
            return base_fail(error, BASE_EFORMAT, "edge %zu: index out of range", i);
    }
    return BASE_OK;
}

static int check_coverage(const struct profile *profile, struct base_error *error)
{
    size_t images = profile->image_count;
    for (size_t i = 1; i < profile->coverage_count; i++) {
        const struct profile_coverage *it = &profile->coverage[i];
        if (!it->image || it->image >= images || !it->kind || it->kind >= PROFILE_COVERAGE_KINDS ||
            it->found > INT64_MAX || it->counted > it->found)
            return base_fail(error, BASE_EFORMAT, "coverage %zu: index out of range", i);
    }
    for (size_t i = 1; i < profile->left_count; i++) {
        if (!profile->left[i].image || profile->left[i].image >= images || profile->left[i].count > INT64_MAX)
            return base_fail(error, BASE_EFORMAT, "reason %zu: index out of range", i);
    }
    for (size_t i = 1; i < profile->uncovered_count; i++) {
        if (!profile->uncovered[i].image || profile->uncovered[i].image >= images)
            return base_fail(error, BASE_EFORMAT, "uncovered function %zu: index out of range", i);
    }
    return BASE_OK;
}

static int check_peaks(const struct profile *profile, struct base_error *error)
{
    for (size_t i = 1; i < profile->peak_count; i++) {
        const struct profile_peak *it = &profile->peaks[i];
        if (!it->process || it->process >= profile->process_count || !it->counter ||
            it->counter >= profile->counter_count)
            return base_fail(error, BASE_EFORMAT, "peak %zu: index out of range", i);
    }
    return BASE_OK;
}

static int check_latencies(const struct profile *profile, struct base_error *error)
{
    for (size_t i = 1; i < profile->latency_count; i++) {
        const struct profile_latency *it = &profile->latencies[i];
        if (!it->process || it->process >= profile->process_count || !it->address ||
            it->address >= profile->address_count || it->sum_ns > INT64_MAX || it->min_ns > INT64_MAX ||
            it->max_ns > INT64_MAX)
            return base_fail(error, BASE_EFORMAT, "latency %zu: index out of range", i);
    }
    for (size_t i = 1; i < profile->latency_bucket_count; i++) {
        const struct profile_latency_bucket *it = &profile->latency_buckets[i];
        if (!it->latency || it->latency >= profile->latency_count || it->bucket >= WIRE_LATENCY_BUCKETS ||
            it->calls > INT64_MAX)
            return base_fail(error, BASE_EFORMAT, "latency bucket %zu: index out of range", i);
    }
    return BASE_OK;
}

static int check_descriptors(const struct profile *profile, struct base_error *error)
{
    for (size_t i = 1; i < profile->descriptor_count; i++) {
        const struct profile_descriptor *it = &profile->descriptors[i];
        if ((!it->process && it->origin) || it->process >= profile->process_count ||
            it->node >= profile->node_count || (it->node && !profile->nodes[it->node].address) ||
            it->origin >= PROFILE_DESCRIPTOR_ORIGINS)
            return base_fail(error, BASE_EFORMAT, "descriptor %zu: index out of range", i);
    }
    return BASE_OK;
}

static int check_addresses(const struct profile *profile, struct base_error *error)
{
    for (size_t i = 1; i < profile->address_count; i++) {
        const struct profile_address *address = &profile->addresses[i];
        if (address->image >= profile->image_count || address->function >= profile->function_count ||
            address->inlined >= profile->inlined_count || address->resolution > PROFILE_NO_SYMBOL)
            return base_fail(error, BASE_EFORMAT, "address %zu: index out of range", i);
    }
    for (size_t i = 1; i < profile->inlined_count; i++) {
        if (profile->inlined[i].outer >= i)
            return base_fail(error, BASE_EFORMAT, "inlined level %zu points inwards", i);
    }
    return BASE_OK;
}

int profile_check(const struct profile *profile, struct base_error *error)
{
    int result = check_addresses(profile, error);
    if (result == BASE_OK)
        result = check_nodes(profile, error);
    if (result == BASE_OK)
        result = check_cells(profile, error);
    if (result == BASE_OK)
        result = check_edges(profile, error);
    if (result == BASE_OK)
        result = check_coverage(profile, error);
    if (result == BASE_OK)
        result = check_peaks(profile, error);
    if (result == BASE_OK)
        result = check_descriptors(profile, error);
    return result == BASE_OK ? check_latencies(profile, error) : result;
}
