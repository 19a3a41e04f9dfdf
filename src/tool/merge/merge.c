#include "merge.h"

#include <stdlib.h>
#include <string.h>

#include "merge_parts.h"
#include "store_timeline.h"
#include "wire_loss.h"

/* --- counters --- */

static const char *kind_of(const struct profile_counter *counter)
{
    return counter->exact ? "counted" : "sampled";
}

static int match_counter(struct merge *merge, uint32_t index)
{
    const struct profile_counter *it = &merge->from->counters[index];
    const char *name = merge_text(merge, it->name), *unit = merge_text(merge, it->unit);
    uint32_t known = profile_counter(merge->into, name, unit, it->exact, it->combine);
    if (!known)
        return merge_no_memory(merge);
    const struct profile_counter *other = &merge->into->counters[known];
    const char *other_unit = profile_text(merge->into, other->unit);
    if (strcmp(unit, other_unit))
        return base_fail(merge->error, BASE_EUSAGE, "its counter %s is in %s, that of the others in %s", name,
                         unit, other_unit);
    if (other->exact != it->exact)
        return base_fail(merge->error, BASE_EUSAGE, "its counter %s was %s, that of the others %s", name,
                         kind_of(it), kind_of(other));
    if (other->combine != it->combine)
        return base_fail(merge->error, BASE_EUSAGE,
                         "its counter %s is of another kind than that of the others", name);
    merge->counters[index] = known;
    return BASE_OK;
}

static int match_counters(struct merge *merge)
{
    int result = BASE_OK;
    for (uint32_t i = 1; result == BASE_OK && i < merge->from->counter_count; i++)
        result = match_counter(merge, i);
    return result;
}

/* --- processes and threads: each is a new one --- */

static bool add_processes(struct merge *merge)
{
    for (uint32_t i = 1; i < merge->from->process_count; i++) {
        struct profile_process value = merge->from->processes[i];
        uint32_t process = profile_process(merge->into, value.pid, value.start_ns);
        if (!process)
            return false;
        bool known = value.origin && value.origin <= merge->origins;
        value.origin = merge->first_origin + (known ? value.origin - 1 : 0);
        value.name = profile_string(merge->into, merge_text(merge, value.name));
        value.command = profile_string(merge->into, merge_text(merge, value.command));
        value.cgroup = profile_string(merge->into, merge_text(merge, value.cgroup));
        profile_set_process(merge->into, process, &value);
        merge->processes[i] = process;
    }
    return true;
}

static bool add_threads(struct merge *merge)
{
    for (uint32_t i = 1; i < merge->from->thread_count; i++) {
        const struct profile_thread *it = &merge->from->threads[i];
        uint32_t thread = profile_thread(merge->into, merge->processes[it->process], it->tid);
        if (!thread)
            return false;
        profile_set_thread_name(merge->into, thread, merge_text(merge, it->name));
        merge->threads[i] = thread;
    }
    return true;
}

/* --- all of it --- */

static bool make_maps(struct merge *merge)
{
    const struct profile *from = merge->from;
    merge->images = calloc(from->image_count + 1, sizeof *merge->images);
    merge->processes = calloc(from->process_count + 1, sizeof *merge->processes);
    merge->threads = calloc(from->thread_count + 1, sizeof *merge->threads);
    merge->addresses = calloc(from->address_count + 1, sizeof *merge->addresses);
    merge->inlined = calloc(from->inlined_count + 1, sizeof *merge->inlined);
    merge->nodes = calloc(from->node_count + 1, sizeof *merge->nodes);
    merge->counters = calloc(from->counter_count + 1, sizeof *merge->counters);
    merge->climb = calloc(from->node_count + 1, sizeof *merge->climb);
    return merge->images && merge->processes && merge->threads && merge->addresses && merge->inlined &&
           merge->nodes && merge->counters && merge->climb;
}

static void free_maps(struct merge *merge)
{
    free(merge->images);
    free(merge->processes);
    free(merge->threads);
    free(merge->addresses);
    free(merge->inlined);
    free(merge->nodes);
    free(merge->counters);
    free(merge->climb);
    base_map_free(&merge->functions);
}

static void add_losses(struct profile *into, const uint64_t *before, const struct profile *from)
{
    memcpy(into->losses, before, sizeof into->losses);
    for (unsigned i = 0; i < PROFILE_LOSSES; i++)
        profile_lose(into, i, from->losses[i]);
}

static int add_everything(struct merge *merge, const char *file)
{
    if (!make_maps(merge))
        return merge_no_memory(merge);
    int result = match_counters(merge);
    if (result < 0)
        return result;
    if (!add_processes(merge) || !add_threads(merge) || !merge_images(merge) || !merge_inlined(merge) ||
        !merge_addresses(merge) || !merge_nodes(merge) || !merge_cells(merge) || !merge_edges(merge) ||
        !merge_peaks(merge) || !merge_descriptors(merge) || !merge_latencies(merge) ||
        !merge_coverage(merge) || !merge_meta(merge, file))
        return merge_no_memory(merge);
    return store_timeline_each(file, merge_sample, merge, merge->error);
}

int merge_add(struct profile *into, const struct profile *from, const char *file, struct base_error *error)
{
    uint64_t losses[PROFILE_LOSSES];
    uint32_t origins = merge_count_origins(from);
    struct merge merge = {.into = into,
                          .from = from,
                          .first_origin = merge_count_origins(into) + 1,
                          .origins = origins ? origins : 1,
                          .error = error};
    memcpy(losses, into->losses, sizeof losses);
    into->max_nodes = INT32_MAX; /* nothing is folded that was not */
    int result = add_everything(&merge, file);
    if (result == BASE_OK && into->losses[WIRE_LOSS_OUT_OF_MEMORY] != losses[WIRE_LOSS_OUT_OF_MEMORY])
        result = merge_no_memory(&merge);
    free_maps(&merge);
    add_losses(into, losses, from);
    return result;
}
