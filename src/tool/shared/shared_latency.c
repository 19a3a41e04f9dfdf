#include "shared_latency.h"

#include <stdlib.h>

#include "base_array.h"
#include "profile_latency.h"

struct shared_latency_item {
    uint64_t sum_ns;
    uint64_t buckets[WIRE_LATENCY_BUCKETS];
};

void shared_latency_published_free(struct shared_latency_published *published)
{
    free(published->items);
    *published = (struct shared_latency_published){0};
}

/* Each clock is read apart, and ticks are a little longer or shorter than was thought at first. */
static uint64_t sum_of(const struct wire_agent_latency *it, double ns_of_tick)
{
    double calls = 0, ns = (double)it->sum * ns_of_tick;
    for (uint32_t i = 0; i < WIRE_LATENCY_BUCKETS; i++)
        calls += (double)it->buckets[i];
    ns = ns < calls * (double)~it->least ? calls * (double)~it->least : ns;
    ns = ns > calls * (double)it->most ? calls * (double)it->most : ns;
    return ns < 9e18 ? (uint64_t)(ns + 0.5) : INT64_MAX;
}

static bool publish_histogram(struct profile *profile, uint32_t latency, const struct wire_agent_latency *it,
                              struct shared_latency_item *published, double ns_of_tick)
{
    uint64_t sum = sum_of(it, ns_of_tick);
    for (uint32_t i = 0; i < WIRE_LATENCY_BUCKETS; i++) {
        if (it->buckets[i] <= published->buckets[i])
            continue;
        if (!profile_add_latency_calls(profile, latency, i, it->buckets[i] - published->buckets[i]))
            return false;
        published->buckets[i] = it->buckets[i];
    }
    profile_add_latency(profile, latency, sum > published->sum_ns ? sum - published->sum_ns : 0, ~it->least,
                        it->most);
    published->sum_ns = sum > published->sum_ns ? sum : published->sum_ns;
    return true;
}

int shared_latency_publish(struct shared_nodes *nodes, struct shared_latency_published *published,
                           uint32_t process, double ns_of_tick, struct base_error *error)
{
    const struct shared_tree *tree = nodes->tree;
    bool good = base_array_extend(published->items, published->count, (size_t)tree->latency_count + 1);
    for (uint32_t i = 1; good && i <= tree->latency_count; i++) {
        const struct wire_agent_latency *it = &tree->latencies[i];
        if (!it->least || ~it->least > it->most || it->most > INT64_MAX)
            continue;
        uint32_t address = shared_nodes_address(nodes, it->cookie, it->function),
                 latency = profile_latency(nodes->profile, process, address);
        good = latency && publish_histogram(nodes->profile, latency, it, &published->items[i], ns_of_tick);
    }
    return good ? BASE_OK : base_fail(error, BASE_ENOMEM, "out of memory for how long calls took");
}
