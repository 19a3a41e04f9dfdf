#include "shared_heap.h"

#include <stdlib.h>

#include "base_array.h"
#include "base_map.h"
#include "wire_loss.h"

/* What was added of one cell. */
struct shared_heap_cell {
    int64_t sums[PROFILE_HEAP_COUNTERS];
    uint64_t samples[PROFILE_HEAP_COUNTERS];
};

int shared_heap_init_idle(struct shared_heap *heap, struct profile *profile, struct base_error *error)
{
    *heap = (struct shared_heap){.profile = profile};
    uint32_t image = profile_image(profile, PROFILE_IMAGE_SPECIAL, "(unknown)", "", 0);
    heap->special_unknown = image ? profile_address(profile, image, 0) : 0;
    return heap->special_unknown ? BASE_OK : base_fail(error, BASE_ENOMEM, "out of memory");
}

int shared_heap_init(struct shared_heap *heap, struct profile *profile, uint64_t sample_bytes,
                     struct base_error *error)
{
    int result = shared_heap_init_idle(heap, profile, error);
    heap->sample_bytes = sample_bytes;
    for (int i = 0; i < PROFILE_HEAP_COUNTERS && result == BASE_OK; i++) {
        heap->counters[i] = (uint16_t)profile_heap_counter(profile, (enum profile_heap)i, sample_bytes == 0);
        if (!heap->counters[i])
            result = base_fail(error, BASE_ENOMEM, "out of memory");
    }
    return result;
}

void shared_heap_published_free(struct shared_heap_published *published)
{
    free(published->cells);
    *published = (struct shared_heap_published){0};
}

struct publication {
    struct shared_heap *heap;
    const struct shared_tree *tree;
    struct shared_heap_published *published;
    struct shared_heap_of of;
    struct shared_nodes nodes;
    struct base_map peaks; /* (node, which) -> sum over groups of threads, in peak_sums */
    int64_t *peak_sums;
    size_t peak_count;
};

/* --- figures --- */

/* What was released may be read a moment later than what was allocated. */
static uint64_t figure_less(uint64_t all, uint64_t one, uint64_t other)
{
    uint64_t gone;
    return __builtin_add_overflow(one, other, &gone) || gone > all ? 0 : all - gone;
}

/* Where samples stand for others, more may be left than ever was: then what is gone is below 0. */
static uint64_t figure_left(const struct publication *publication, uint64_t all, uint64_t one, uint64_t other)
{
    uint64_t gone = one + other;
    if (publication->tree->process.level && gone >> 63)
        return all < INT64_MAX && 0 - gone < INT64_MAX ? all - gone : INT64_MAX;
    return figure_less(all, one, other);
}

static int64_t block_figure(const struct publication *publication, uint64_t count)
{
    uint64_t scale = publication->heap->sample_bytes ? WIRE_AGENT_SCALE : 1;
    return shared_tree_figure(count / scale + (count % scale >= scale / 2 && scale > 1));
}

static void read_cell(const struct publication *publication, const struct wire_agent_cell *cell,
                      int64_t *sums)
{
    uint64_t live = figure_left(publication, cell->total, cell->freed_own, cell->freed_other);
    uint64_t live_count =
        figure_left(publication, cell->count, cell->freed_own_count, cell->freed_other_count);
    const struct wire_agent_process *process = &publication->tree->process;
    sums[PROFILE_HEAP_TOTAL] = shared_tree_figure(cell->total);
    sums[PROFILE_HEAP_COUNT] = block_figure(publication, cell->count);
    sums[PROFILE_HEAP_PEAK] = shared_tree_figure(cell->peak_epoch == process->peak_epoch ? cell->peak : live);
    sums[PROFILE_HEAP_LIVE] = shared_tree_figure(live);
    sums[PROFILE_HEAP_LIVE_COUNT] = block_figure(publication, live_count);
    sums[PROFILE_HEAP_TEMPORARY] = block_figure(publication, cell->temporary);
    sums[PROFILE_HEAP_LARGEST] = shared_tree_figure(cell->largest);
    sums[PROFILE_HEAP_MAX] = shared_tree_figure(cell->max);
    sums[PROFILE_HEAP_AGE] = live_count && publication->of.now_ns > cell->live_since_ns
                                 ? shared_tree_figure(publication->of.now_ns - cell->live_since_ns)
                                 : 0;
}

/* How many equal samples would be as sure as `value` is: (sum of weights)^2 / sum of their squares (L.
 * Kish). */
static uint64_t samples_of(const struct publication *publication, int64_t value, uint64_t variance)
{
    uint64_t bytes = publication->heap->sample_bytes;
    double mean = (double)(bytes ? bytes : wire_agent_level_bytes(1)), sum = (double)value;
    double squares = (double)variance * mean * mean / 65536;
    double samples = squares > 0 ? sum * sum / squares : sum;
    return samples < 1 ? 1 : samples < 1e18 ? (uint64_t)(samples + 0.5) : UINT64_C(1) << 60;
}

static bool is_maximum(int which)
{
    return which == PROFILE_HEAP_MAX || which == PROFILE_HEAP_LARGEST || which == PROFILE_HEAP_AGE;
}

static void count_figure(const struct publication *publication, uint32_t node, int which, int64_t value,
                         uint64_t samples)
{
    profile_count(publication->heap->profile,
                  (struct profile_key){node, publication->of.thread, PROFILE_NO_CPU,
                                       publication->heap->counters[which]},
                  value, samples);
}

/* Several groups of threads at one stack: each had a maximum of its own, and no more than their sum was ever
 * there. */
static int64_t sum_of_groups(struct publication *publication, uint32_t node, int64_t most)
{
    uint32_t index = base_map_find(&publication->peaks, node);
    if (index == BASE_MAP_NONE) {
        index = (uint32_t)publication->peak_count;
        if (!base_map_set(&publication->peaks, node, index))
            return most;
        publication->peak_sums[publication->peak_count++] = 0;
    }
    int64_t *sum = &publication->peak_sums[index];
    if (__builtin_add_overflow(*sum, most, sum))
        *sum = INT64_MAX;
    return *sum;
}

static void publish_maxima(struct publication *publication, uint32_t node, const int64_t *sums)
{
    if (sums[PROFILE_HEAP_MAX])
        count_figure(publication, node, PROFILE_HEAP_MAX,
                     sum_of_groups(publication, node, sums[PROFILE_HEAP_MAX]), 1);
    if (sums[PROFILE_HEAP_LARGEST])
        count_figure(publication, node, PROFILE_HEAP_LARGEST, sums[PROFILE_HEAP_LARGEST], 1);
    if (sums[PROFILE_HEAP_AGE])
        count_figure(publication, node, PROFILE_HEAP_AGE, sums[PROFILE_HEAP_AGE], 1);
}

/* What is not exact where the agent's tables were full (wire_agent_block.h: level). */
static bool is_estimate(int which)
{
    return which == PROFILE_HEAP_LIVE || which == PROFILE_HEAP_LIVE_COUNT || which == PROFILE_HEAP_PEAK ||
           which == PROFILE_HEAP_MAX || which == PROFILE_HEAP_TEMPORARY;
}

static void publish_level(const struct publication *publication)
{
    for (int i = 0; i < PROFILE_HEAP_COUNTERS && publication->tree->process.level; i++)
        if (is_estimate(i))
            profile_set_sampled(publication->heap->profile, publication->heap->counters[i]);
}

/* Exact figures are of so many blocks; sampled ones as sure as so many samples. What was there at one
 * moment is published when that is the last: samples cannot be taken back. */
static uint64_t weight_of(const struct publication *publication, const struct wire_agent_cell *cell,
                          int which, const int64_t *sums)
{
    bool of_all = which == PROFILE_HEAP_TOTAL || which == PROFILE_HEAP_COUNT;
    bool of_live = which == PROFILE_HEAP_LIVE || which == PROFILE_HEAP_LIVE_COUNT;
    if (!of_all && !publication->of.final)
        return 0;
    if (!publication->heap->sample_bytes && !(cell->variance && is_estimate(which)))
        return (uint64_t)(of_all    ? sums[PROFILE_HEAP_COUNT]
                          : of_live ? sums[PROFILE_HEAP_LIVE_COUNT]
                                    : sums[which] != 0);
    if (!sums[which])
        return 0;
    if (of_live)
        return samples_of(publication, sums[PROFILE_HEAP_LIVE],
                          figure_less(cell->variance, cell->freed_variance, 0));
    return samples_of(publication, sums[PROFILE_HEAP_TOTAL], cell->variance);
}

static void publish_sums(struct publication *publication, uint32_t node, const struct wire_agent_cell *cell,
                         struct shared_heap_cell *published, const int64_t *sums)
{
    for (int i = 0; i < PROFILE_HEAP_COUNTERS; i++) {
        if (is_maximum(i))
            continue;
        uint64_t weight = weight_of(publication, cell, i, sums);
        uint64_t more = weight > published->samples[i] ? weight - published->samples[i] : 0;
        if (sums[i] == published->sums[i] && !more)
            continue;
        count_figure(publication, node, i, sums[i] - published->sums[i], more);
        published->sums[i] = sums[i];
        published->samples[i] += more;
    }
}

static void publish_cell(struct publication *publication, uint32_t number)
{
    const struct wire_agent_cell *cell = &publication->tree->cells[number];
    int64_t sums[PROFILE_HEAP_COUNTERS] = {0};
    uint32_t node = cell->count ? shared_nodes_find(&publication->nodes, cell->node, WIRE_AGENT_HEAP) : 0;
    if (!node)
        return;
    read_cell(publication, cell, sums);
    publish_sums(publication, node, cell, &publication->published->cells[number], sums);
    if (publication->of.final)
        publish_maxima(publication, node, sums);
}

/* --- losses --- */

/* Changes of mapped memory that were written down, and that no thread will make any more. */
static uint64_t unmade_changes(const struct publication *publication)
{
    uint32_t waiting = publication->tree->process.range_waiting;
    if (!publication->of.final)
        return 0;
    return waiting < WIRE_AGENT_CHANGES ? waiting : WIRE_AGENT_CHANGES;
}

static uint64_t lost_now(const struct publication *publication, int number)
{
    uint64_t losses = publication->tree->process.losses[number];
    return number == WIRE_AGENT_LOSS_NO_RANGE ? losses + unmade_changes(publication) : losses;
}

static void publish_losses(struct publication *publication)
{
    static const unsigned reasons[WIRE_AGENT_LOSSES] = {
        [WIRE_AGENT_LOSS_INTERRUPTED] = WIRE_LOSS_AGENT_INTERRUPTED,
        [WIRE_AGENT_LOSS_NO_RECORD] = WIRE_LOSS_AGENT_THREADS,
        [WIRE_AGENT_LOSS_NO_NODE] = WIRE_LOSS_AGENT_STACKS,
        [WIRE_AGENT_LOSS_NO_CELL] = WIRE_LOSS_AGENT_FULL,
        [WIRE_AGENT_LOSS_NO_BLOCK] = WIRE_LOSS_AGENT_RELEASES,
        [WIRE_AGENT_LOSS_TOO_DEEP] = WIRE_LOSS_AGENT_TOO_DEEP,
        [WIRE_AGENT_LOSS_CUT] = WIRE_LOSS_AGENT_BAD_READ,
        [WIRE_AGENT_LOSS_NO_ROWS] = WIRE_LOSS_AGENT_NO_ROWS,
        [WIRE_AGENT_LOSS_ODD_RULE] = WIRE_LOSS_AGENT_ODD_RULE,
        [WIRE_AGENT_LOSS_NO_MAPPING] = WIRE_LOSS_AGENT_NO_MAPPING,
        [WIRE_AGENT_LOSS_NO_PROGRESS] = WIRE_LOSS_AGENT_NO_PROGRESS,
        [WIRE_AGENT_LOSS_NO_ANSWER] = WIRE_LOSS_AGENT_UNANSWERED,
        [WIRE_AGENT_LOSS_INERT] = WIRE_LOSS_AGENT_INERT,
        [WIRE_AGENT_LOSS_SAMPLED] = WIRE_LOSS_AGENT_SAMPLED,
        [WIRE_AGENT_LOSS_NO_RANGE] = WIRE_LOSS_AGENT_MAPPINGS,
        [WIRE_AGENT_LOSS_FRAME_POINTER] = WIRE_LOSS_AGENT_FRAME_POINTER,
        [WIRE_AGENT_LOSS_UNTIMED] = WIRE_LOSS_FUNCTION_UNTIMED,
        [WIRE_AGENT_LOSS_PUT_BACK] = WIRE_LOSS_FUNCTION_PUT_BACK,
        [WIRE_AGENT_LOSS_FORGOTTEN] = WIRE_LOSS_FUNCTION_FORGOTTEN,
        [WIRE_AGENT_LOSS_NO_HISTOGRAM] = WIRE_LOSS_FUNCTION_NO_HISTOGRAM,
        [WIRE_AGENT_LOSS_NO_RESULT] = WIRE_LOSS_DESCRIPTOR_CALLS,
        [WIRE_AGENT_LOSS_INNER] = WIRE_LOSS_FUNCTION_INNER,
        [WIRE_AGENT_LOSS_FORBIDDEN] = WIRE_LOSS_AGENT_FORBIDDEN,
        [WIRE_AGENT_LOSS_PATH_DEEP] = WIRE_LOSS_INSTRUMENTED_DEEP,
        [WIRE_AGENT_LOSS_RESTED] = WIRE_LOSS_FUNCTION_RESTED,
        [WIRE_AGENT_LOSS_NO_ROOM] = WIRE_LOSS_AGENT_NO_ROOM,
    };
    /* Of stacks of samples, as perf_event's are. */
    static const uint8_t of_samples[WIRE_AGENT_LOSSES] = {
        [WIRE_AGENT_LOSS_TOO_DEEP] = WIRE_LOSS_TOO_DEEP,
        [WIRE_AGENT_LOSS_CUT] = WIRE_LOSS_BAD_READ,
        [WIRE_AGENT_LOSS_NO_ROWS] = WIRE_LOSS_NO_ROWS,
        [WIRE_AGENT_LOSS_ODD_RULE] = WIRE_LOSS_ODD_RULE,
        [WIRE_AGENT_LOSS_NO_MAPPING] = WIRE_LOSS_NO_MAPPING,
        [WIRE_AGENT_LOSS_NO_PROGRESS] = WIRE_LOSS_NO_PROGRESS,
        [WIRE_AGENT_LOSS_FRAME_POINTER] = WIRE_LOSS_FRAME_POINTER,
    };
    for (int i = 0; i < WIRE_AGENT_LOSSES; i++) {
        uint64_t now = lost_now(publication, i), *published = &publication->published->losses[i];
        unsigned reason =
            publication->heap->samples_only && of_samples[i] ? of_samples[i] : (unsigned)reasons[i];
        if (reason && now > *published)
            profile_lose(publication->heap->profile, reason, now - *published);
        *published = now > *published ? now : *published;
    }
}

/* --- all of it --- */

static bool make_room(struct publication *publication)
{
    struct shared_heap_published *published = publication->published;
    size_t cells = (size_t)publication->tree->cell_count + 1;
    if (!base_array_extend(published->cells, published->cell_count, cells))
        return false;
    publication->peak_sums = publication->of.final ? calloc(cells, sizeof *publication->peak_sums) : NULL;
    return shared_nodes_begin(&publication->nodes) && (publication->peak_sums || !publication->of.final);
}

static void publish_peak(const struct publication *publication)
{
    const struct wire_agent_process *process = &publication->tree->process;
    uint64_t when = process->peak_ns && process->peak_ns < publication->of.now_ns ? process->peak_ns
                                                                                  : publication->of.now_ns;
    if (process->peak > 0)
        profile_set_peak(publication->heap->profile, publication->of.process,
                         publication->heap->counters[PROFILE_HEAP_PEAK], process->peak, when);
}

int shared_heap_publish(struct shared_heap *heap, const struct shared_tree *tree,
                        struct shared_heap_published *published, struct shared_heap_of of,
                        struct base_error *error)
{
    struct publication publication = {.heap = heap,
                                      .tree = tree,
                                      .published = published,
                                      .of = of,
                                      .nodes = {.profile = heap->profile,
                                                .tree = tree,
                                                .cookies = heap->cookies,
                                                .cookie_count = heap->cookie_count,
                                                .special_unknown = heap->special_unknown}};
    bool counted = heap->counters[PROFILE_HEAP_TOTAL] != 0, room = !counted || make_room(&publication);
    for (uint32_t i = 1; counted && room && i <= tree->cell_count; i++)
        publish_cell(&publication, i);
    if (counted && room) {
        publish_level(&publication);
        publish_peak(&publication);
    }
    if (room)
        publish_losses(&publication);
    shared_nodes_end(&publication.nodes);
    free(publication.peak_sums);
    base_map_free(&publication.peaks);
    return room ? BASE_OK : base_fail(error, BASE_ENOMEM, "out of memory for what the agent counted");
}
