#include "shared_counts.h"

#include <stdlib.h>

#include "base_array.h"

static const struct {
    const char *name, *unit;
    bool sampled;
    enum profile_combine combine;
    enum wire_agent_collector collector;
} kinds[SHARED_COUNTS] = {
    [SHARED_THROWN] = {"throw.count", "exceptions", false, PROFILE_SUM, WIRE_AGENT_THROWS},
    [SHARED_MAPPED] = {"map.total", "bytes", false, PROFILE_SUM, WIRE_AGENT_MAP},
    [SHARED_STILL_MAPPED] = {"map.live", "bytes", false, PROFILE_LIVE, WIRE_AGENT_MAP},
    [SHARED_CALLED] = {"function.calls", "calls", false, PROFILE_SUM, WIRE_AGENT_FUNCTION},
    [SHARED_TIMED] = {"function.time", "ns", false, PROFILE_SUM, WIRE_AGENT_FUNCTION},
    [SHARED_TIME] = {"time.cpu", "ns", true, PROFILE_SUM, WIRE_AGENT_TIME},
    [SHARED_USER_TIME] = {"time.user", "ns", true, PROFILE_SUM, WIRE_AGENT_TIME},
    [SHARED_REAL_TIME] = {"time.real", "ns", true, PROFILE_SUM, WIRE_AGENT_TIME},
    [SHARED_ENTERED] = {"call.count", "calls", false, PROFILE_SUM, WIRE_AGENT_INSTRUMENTED},
    [SHARED_SPENT] = {"call.time", "ns", false, PROFILE_SUM, WIRE_AGENT_INSTRUMENTED},
};

int shared_counts_init(struct shared_counts *counts, struct profile *profile, uint32_t which,
                       enum shared_count time, struct base_error *error)
{
    *counts = (struct shared_counts){.profile = profile};
    for (int i = 0; i < SHARED_COUNTS; i++) {
        bool other = kinds[i].collector == WIRE_AGENT_TIME && i != (int)time;
        if (!(which & 1u << kinds[i].collector) || other)
            continue;
        counts->counters[i] = (uint16_t)profile_counter(profile, kinds[i].name, kinds[i].unit,
                                                        !kinds[i].sampled, kinds[i].combine);
        if (!counts->counters[i])
            return base_fail(error, BASE_ENOMEM, "out of memory");
    }
    return BASE_OK;
}

void shared_counts_published_free(struct shared_counts_published *published)
{
    free(published->cells);
    *published = (struct shared_counts_published){0};
}

/* Is it one of events? */
static bool is_count(enum shared_count which)
{
    return which == SHARED_THROWN || which == SHARED_CALLED || which == SHARED_ENTERED;
}

static int64_t cell_figure(const struct shared_counts *counts, const struct wire_agent_cell *cell,
                           enum shared_count which)
{
    if (is_count(which))
        return shared_tree_figure(cell->count);
    if (which == SHARED_TIMED || which == SHARED_SPENT) {
        double ns = (double)cell->total * counts->ns_of_tick;
        return ns < 9e18 ? (int64_t)ns : INT64_MAX;
    }
    /* what was unmapped may be read a moment later than what was mapped */
    uint64_t gone = which == SHARED_STILL_MAPPED ? cell->freed_own : 0;
    return gone < cell->total ? shared_tree_figure(cell->total - gone) : 0;
}

/* So many more than were published stand for the difference. */
static uint64_t samples_of(struct shared_counts *counts, enum shared_count which,
                           const struct wire_agent_cell *cell, int64_t more, int64_t *published)
{
    if (is_count(which) && more > 0)
        return (uint64_t)more;
    if (!kinds[which].sampled)
        return more > 0;
    int64_t count = shared_tree_figure(cell->count);
    uint64_t samples = count > *published ? (uint64_t)(count - *published) : 0;
    *published = count;
    counts->samples += samples;
    counts->sampled_ns += more > 0 ? (uint64_t)more : 0;
    return samples;
}

static void publish_cell(struct shared_counts *counts, struct shared_nodes *nodes,
                         const struct wire_agent_cell *cell, int64_t *published, uint32_t thread)
{
    for (int i = 0; i < SHARED_COUNTS; i++) {
        int64_t now = cell_figure(counts, cell, (enum shared_count)i);
        if (!counts->counters[i] || now == published[i])
            continue;
        uint32_t node = shared_nodes_find(nodes, cell->node, kinds[i].collector);
        if (!node)
            continue;
        int64_t more = now - published[i];
        uint64_t samples = samples_of(counts, (enum shared_count)i, cell, more, &published[SHARED_COUNTS]);
        profile_count(counts->profile,
                      (struct profile_key){node, thread, PROFILE_NO_CPU, counts->counters[i]}, more, samples);
        published[i] = now;
    }
}

int shared_counts_publish(struct shared_counts *counts, struct shared_nodes *nodes,
                          struct shared_counts_published *published, uint32_t thread,
                          struct base_error *error)
{
    const struct shared_tree *tree = nodes->tree;
    bool wanted = false;
    for (int i = 0; i < SHARED_COUNTS; i++)
        wanted |= counts->counters[i] != 0;
    if (!wanted)
        return BASE_OK;
    if (!base_array_extend(published->cells, published->cell_count, (size_t)tree->cell_count + 1) ||
        !shared_nodes_begin(nodes))
        return base_fail(error, BASE_ENOMEM, "out of memory for what the agent counted");
    for (uint32_t i = 1; i <= tree->cell_count; i++)
        if (tree->cells[i].count)
            publish_cell(counts, nodes, &tree->cells[i], published->cells[i], thread);
    shared_nodes_end(nodes);
    return BASE_OK;
}
