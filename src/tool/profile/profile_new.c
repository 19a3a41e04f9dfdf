/* profile_new.c - a profile with nothing in it but the entries that stand for none, and its end. */
#include <stdlib.h>

#include "base_array.h"
#include "profile.h"
#include "profile_model.h"

enum { DEFAULT_MAX_NODES = 1000000 };

static bool add_none_entries(struct profile *profile)
{
    struct profile_model *self = profile->self;
    if (!base_array_room(profile->images, 0, self->image_capacity) ||
        !base_array_room(profile->processes, 0, self->process_capacity) ||
        !base_array_room(profile->threads, 0, self->thread_capacity) ||
        !base_array_room(profile->addresses, 0, self->address_capacity) ||
        !base_array_room(profile->inlined, 0, self->inlined_capacity) ||
        !base_array_room(profile->functions, 0, self->function_capacity) ||
        !base_array_room(profile->nodes, 0, self->node_capacity) ||
        !base_array_room(profile->counters, 0, self->counter_capacity) ||
        !base_array_room(profile->edges, 0, self->edge_capacity) ||
        !base_array_room(profile->coverage, 0, self->coverage_capacity) ||
        !base_array_room(profile->left, 0, self->left_capacity) ||
        !base_array_room(profile->uncovered, 0, self->uncovered_capacity) ||
        !base_array_room(profile->peaks, 0, self->peak_capacity) ||
        !base_array_room(profile->latencies, 0, self->latency_capacity) ||
        !base_array_room(profile->latency_buckets, 0, self->latency_bucket_capacity) ||
        !base_array_room(profile->descriptors, 0, self->descriptor_capacity) ||
        !base_array_room(self->strings.texts, 0, self->strings.capacity))
        return false;
    profile->images[0] = (struct profile_image){0};
    profile->processes[0] = (struct profile_process){0};
    profile->threads[0] = (struct profile_thread){0};
    profile->addresses[0] = (struct profile_address){0};
    profile->inlined[0] = (struct profile_inlined){0};
    profile->functions[0] = (struct profile_function){0};
    profile->nodes[0] = (struct profile_node){0};
    profile->counters[0] = (struct profile_counter){0};
    profile->edges[0] = (struct profile_edge){0};
    profile->coverage[0] = (struct profile_coverage){0};
    profile->left[0] = (struct profile_left){0};
    profile->uncovered[0] = (struct profile_uncovered){0};
    profile->peaks[0] = (struct profile_peak){0};
    profile->latencies[0] = (struct profile_latency){0};
    profile->latency_buckets[0] = (struct profile_latency_bucket){0};
    profile->descriptors[0] = (struct profile_descriptor){0};
    self->strings.texts[0] = "";
    profile->image_count = profile->process_count = profile->thread_count = profile->address_count = 1;
    profile->inlined_count = profile->function_count = profile->node_count = profile->counter_count = 1;
    profile->edge_count = profile->coverage_count = profile->left_count = profile->uncovered_count = 1;
    profile->peak_count = profile->descriptor_count = profile->latency_count = profile->latency_bucket_count =
        1;
    self->latency_index.rows = self->latency_index.bucket_rows = 1;
    self->strings.count = 1;
    return true;
}

#define MARKS(self)                                                                                          \
    {                                                                                                        \
        &(self)->images, &(self)->processes, &(self)->threads, &(self)->addresses, &(self)->inlined,         \
            &(self)->functions, &(self)->nodes, &(self)->counters, &(self)->edges, &(self)->coverage,        \
            &(self)->left, &(self)->uncovered, &(self)->peaks, &(self)->descriptors, &(self)->latencies,     \
            &(self)->latency_buckets                                                                         \
    }

static void mark_none_entries_written(struct profile_model *self)
{
    struct profile_marks *marks[] = MARKS(self);
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        marks[i]->written = 1;
}

struct profile *profile_new(void)
{
    struct profile *profile = calloc(1, sizeof *profile);
    if (!profile)
        return NULL;
    profile->self = calloc(1, sizeof *profile->self);
    if (!profile->self || !add_none_entries(profile)) {
        profile_free(profile);
        return NULL;
    }
    mark_none_entries_written(profile->self);
    profile->max_nodes = DEFAULT_MAX_NODES;
    return profile;
}

static void free_private(struct profile *profile)
{
    struct profile_model *self = profile->self;
    while (self->strings.blocks) {
        struct profile_text_block *next = self->strings.blocks->next;
        free(self->strings.blocks);
        self->strings.blocks = next;
    }
    free(self->strings.texts);
    for (int i = 0; i < PROFILE_TABLES; i++)
        free(self->tables[i].slots);
    struct profile_marks *marks[] = MARKS(self);
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        profile_marks_free(marks[i]);
    free(self->free_nodes);
    free(self->dirty_cells);
    free(self->own_left_out);
    free(self->own_program);
    profile_timeline_free(profile, false);
    profile_coverage_free(profile);
    profile_latency_free(profile);
    base_map_free(&self->peak_rows);
    free(self);
}

void profile_free(struct profile *profile)
{
    if (!profile)
        return;
    if (profile->self)
        free_private(profile);
    free(profile->images);
    free(profile->processes);
    free(profile->threads);
    free(profile->addresses);
    free(profile->inlined);
    free(profile->functions);
    free(profile->nodes);
    free(profile->counters);
    free(profile->cells);
    free(profile->edges);
    free(profile->coverage);
    free(profile->left);
    free(profile->uncovered);
    free(profile->peaks);
    free(profile->latencies);
    free(profile->latency_buckets);
    free(profile->descriptors);
    free(profile->meta);
    free(profile);
}
