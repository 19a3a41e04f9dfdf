#include "collect_agent_counts.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *unit;
    bool sampled;
    enum profile_combine combine;
    enum wire_agent_collector collector;
} kinds[COLLECT_AGENT_COUNTS] = {
    [COLLECT_AGENT_THROWN] = {"throw.count", "exceptions", false, PROFILE_SUM, WIRE_AGENT_THROWS},
    [COLLECT_AGENT_MAPPED] = {"map.total", "bytes", false, PROFILE_SUM, WIRE_AGENT_MAP},
    [COLLECT_AGENT_STILL_MAPPED] = {"map.live", "bytes", false, PROFILE_LIVE, WIRE_AGENT_MAP},
    [COLLECT_AGENT_CALLED] = {"function.calls", "calls", false, PROFILE_SUM, WIRE_AGENT_FUNCTION},
    [COLLECT_AGENT_TIMED] = {"function.time", "ns", false, PROFILE_SUM, WIRE_AGENT_FUNCTION},
    [COLLECT_AGENT_TIME] = {"time.cpu", "ns", true, PROFILE_SUM, WIRE_AGENT_TIME},
    [COLLECT_AGENT_USER_TIME] = {"time.user", "ns", true, PROFILE_SUM, WIRE_AGENT_TIME},
    [COLLECT_AGENT_REAL_TIME] = {"time.real", "ns", true, PROFILE_SUM, WIRE_AGENT_TIME},
    [COLLECT_AGENT_ENTERED] = {"call.count", "calls", false, PROFILE_SUM, WIRE_AGENT_INSTRUMENTED},
    [COLLECT_AGENT_SPENT] = {"call.time", "ns", false, PROFILE_SUM, WIRE_AGENT_INSTRUMENTED},
};

int collect_agent_counts_init(struct collect_agent_counts *counts, struct profile *profile, uint32_t which,
                              enum collect_agent_count time, struct base_error *error)
{
    *counts = (struct collect_agent_counts){.profile = profile};
    for (int i = 0; i < COLLECT_AGENT_COUNTS; i++) {
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

void collect_agent_counts_told_free(struct collect_agent_counts_told *told)
{
    free(told->cells);
    *told = (struct collect_agent_counts_told){0};
}

static bool make_room(struct collect_agent_counts_told *told, size_t cells)
{
    if (cells <= told->cell_count)
        return true;
    void *more = realloc(told->cells, cells * sizeof *told->cells);
    if (!more)
        return false;
    told->cells = more;
    memset(told->cells + told->cell_count, 0, (cells - told->cell_count) * sizeof *told->cells);
    told->cell_count = cells;
    return true;
}

/* Is it one of events? */
static bool is_count(enum collect_agent_count which)
{
    return which == COLLECT_AGENT_THROWN || which == COLLECT_AGENT_CALLED || which == COLLECT_AGENT_ENTERED;
}

static int64_t figure(const struct collect_agent_counts *counts, const struct wire_agent_cell *cell,
                      enum collect_agent_count which)
{
    if (is_count(which))
        return collect_agent_tree_figure(cell->count);
    if (which == COLLECT_AGENT_TIMED || which == COLLECT_AGENT_SPENT) {
        double ns = (double)cell->total * counts->ns_of_tick;
        return ns < 9e18 ? (int64_t)ns : INT64_MAX;
    }
    /* what was unmapped may be read a moment later than what was mapped */
    uint64_t gone = which == COLLECT_AGENT_STILL_MAPPED ? cell->freed_own : 0;
    return gone < cell->total ? collect_agent_tree_figure(cell->total - gone) : 0;
}

/* So many more than were told stand for the difference. */
static uint64_t samples_of(struct collect_agent_counts *counts, enum collect_agent_count which,
                           const struct wire_agent_cell *cell, int64_t more, int64_t *told)
{
    if (is_count(which) && more > 0)
        return (uint64_t)more;
    if (!kinds[which].sampled)
        return more > 0;
    int64_t count = collect_agent_tree_figure(cell->count);
    uint64_t samples = count > *told ? (uint64_t)(count - *told) : 0;
    *told = count;
    counts->samples += samples;
    counts->sampled_ns += more > 0 ? (uint64_t)more : 0;
    return samples;
}

static void tell_cell(struct collect_agent_counts *counts, struct collect_agent_nodes *nodes,
                      const struct wire_agent_cell *cell, int64_t *told, uint32_t thread)
{
    for (int i = 0; i < COLLECT_AGENT_COUNTS; i++) {
        int64_t now = figure(counts, cell, (enum collect_agent_count)i);
        if (!counts->counters[i] || now == told[i])
            continue;
        uint32_t node = collect_agent_nodes_find(nodes, cell->node, kinds[i].collector);
        if (!node)
            continue;
        int64_t more = now - told[i];
        uint64_t samples =
            samples_of(counts, (enum collect_agent_count)i, cell, more, &told[COLLECT_AGENT_COUNTS]);
        profile_count(counts->profile, node, thread, PROFILE_NO_CPU, counts->counters[i], more, samples);
        told[i] = now;
    }
}

int collect_agent_counts_tell(struct collect_agent_counts *counts, struct collect_agent_nodes *nodes,
                              struct collect_agent_counts_told *told, uint32_t thread,
                              struct base_error *error)
{
    const struct collect_agent_tree *tree = nodes->tree;
    bool wanted = false;
    for (int i = 0; i < COLLECT_AGENT_COUNTS; i++)
        wanted |= counts->counters[i] != 0;
    if (!wanted)
        return BASE_OK;
    if (!make_room(told, (size_t)tree->cell_count + 1) || !collect_agent_nodes_begin(nodes))
        return base_fail(error, BASE_ENOMEM, "out of memory for what the agent counted");
    for (uint32_t i = 1; i <= tree->cell_count; i++)
        if (tree->cells[i].count)
            tell_cell(counts, nodes, &tree->cells[i], told->cells[i], thread);
    collect_agent_nodes_end(nodes);
    return BASE_OK;
}
