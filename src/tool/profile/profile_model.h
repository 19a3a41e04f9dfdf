/* profile_model.h - what the files of this module, src/tool/store and src/tool/merge share behind struct
 * profile.
 *
 * Dirty marks: rows of an array at or past `written` are not in the file yet; rows below it that changed are
 * listed in `changed`, each once. They are forgotten only after a commit (profile_marks_commit), so a flush
 * that failed is repeated by the next one. When there is no memory for a mark, `all` says: write everything
 * again. Context: tool; private to these. */
#ifndef PROFILE_MODEL_H
#define PROFILE_MODEL_H

#include "profile.h"
#include "profile_own.h"
#include "profile_table.h"

struct profile_marks {
    size_t written;
    uint32_t *changed;
    size_t count, capacity;
    uint8_t *bits; /* one a row: is it in `changed` */
    size_t bytes;
    bool all;
};

void profile_marks_set(struct profile_marks *marks, uint32_t row);
void profile_marks_commit(struct profile_marks *marks, size_t rows); /* the file has all `rows` */
void profile_marks_free(struct profile_marks *marks);

struct profile_text_block { /* strings never move: profile_text hands out pointers */
    struct profile_text_block *next;
    size_t used, size;
    char bytes[];
};

struct profile_strings {
    const char **texts; /* [0] is "" */
    size_t count, capacity;
    struct profile_text_block *blocks;
    size_t bytes; /* of all blocks */
};

/* One sample of the timeline before it is packed. */
struct profile_timeline_entry {
    uint64_t time_ns;
    uint32_t thread, node;
    uint16_t cpu, counter;
};

/* Packed and compressed, waiting for the next flush: entries of the timeline, or the map of one fold. */
struct profile_block {
    struct profile_block *next;
    uint64_t epoch, first_ns, last_ns;
    uint32_t entries;
    bool fold;
    size_t length;
    unsigned char bytes[];
};

struct profile_timeline {
    bool used;
    struct profile_timeline_entry *entries;
    size_t count, capacity;
    struct profile_block *first, *last; /* not yet in the file */
    size_t bytes;
    uint64_t limit;                        /* 0: none */
    uint64_t packed_samples, packed_bytes; /* since the beginning, also of what is in the file */
};

/* Where what was said of coverage is. A profile that was just loaded has none of it yet: `rows` tell how far
 * it goes. */
struct profile_coverage_index {
    struct base_map coverage, left; /* (image, kind or code) -> row */
    struct base_map images;         /* image -> its item below */
    struct profile_uncovered_image {
        struct base_map functions; /* address -> row; 0: one of those that are not kept */
        size_t kept;
    } * items;
    size_t item_count, item_capacity;
    size_t coverage_rows, left_rows, uncovered_rows;
};

/* Likewise of latencies, of which `rows` and `bucket_rows` tell how far it goes. */
struct profile_latency_index {
    struct base_map latencies, buckets; /* (process, address), (latency, bucket) -> row */
    size_t rows, bucket_rows;
};

struct profile_model {
    size_t image_capacity, process_capacity, thread_capacity, address_capacity, inlined_capacity,
        function_capacity, node_capacity, counter_capacity, cell_capacity, meta_capacity, edge_capacity,
        coverage_capacity, left_capacity, uncovered_capacity, peak_capacity, descriptor_capacity,
        latency_capacity, latency_bucket_capacity;
    struct profile_strings strings;
    struct profile_table tables[PROFILE_TABLES];
    struct profile_marks images, processes, threads, addresses, inlined, functions, nodes, counters, edges,
        coverage, left, uncovered, peaks, descriptors, latencies, latency_buckets;
    size_t free_descriptors; /* rows of descriptors that are not used */
    struct profile_coverage_index coverage_index;
    struct base_map peak_rows; /* (process, counter) -> row, of the first `peaks_indexed` rows */
    size_t peaks_indexed;
    struct profile_latency_index latency_index;
    uint32_t *free_nodes; /* slots that folding emptied */
    size_t free_count, free_capacity;
    uint32_t *dirty_cells; /* those with `dirty` set; not all of them when dirty_unlisted */
    size_t dirty_count, dirty_capacity;
    bool dirty_unlisted;
    size_t stored_cells; /* rows the file has */
    bool meta_changed;
    uint64_t stored_losses[PROFILE_LOSSES];
    uint64_t folds;
    uint32_t fold_pause; /* requests to let pass before folding is tried again after it freed nothing */
    struct profile_timeline timeline;
    struct profile_own *own_left_out; /* by counter (profile_own.h); NULL: nothing was left out */
    uint32_t *own_program; /* by node of the file, the one of the same stack without Tally's frames */
    size_t own_nodes;      /* of the file */
};

static inline uint64_t profile_hash_pair(uint64_t one, uint64_t two)
{
    return base_hash(one + 0x9e3779b97f4a7c15u * two);
}

static inline uint64_t profile_hash_node(const struct profile_node *node)
{
    return profile_hash_pair((uint64_t)node->parent << 32 | node->address, node->flags);
}

static inline uint64_t profile_hash_cell(const struct profile_cell *cell)
{
    return profile_hash_pair((uint64_t)cell->node << 32 | cell->thread,
                             (uint32_t)cell->cpu << 16 | cell->counter);
}

static inline uint64_t profile_hash_edge(const struct profile_edge *edge)
{
    return profile_hash_pair((uint64_t)edge->site << 32 | edge->callee,
                             (uint64_t)edge->thread << 32 | edge->kind);
}

/* Is this a real node: not the root, not a free slot? */
static inline bool profile_node_lives(const struct profile *profile, size_t node)
{
    return node && profile->nodes[node].address;
}

/* Samples on it, and on what would be below it, are counted as folded. */
static inline bool profile_node_is_folded(const struct profile *profile, uint32_t node)
{
    return profile->folded_address && profile->nodes[node].address == profile->folded_address;
}

/* Adds a string without looking for it (loading); 0 when memory ran out. */
uint32_t profile_string_append(struct profile *profile, const char *text, size_t length);

/* --- profile_fold.c --- */
/* Frees about a quarter of the nodes; `keep` and what is above it stay. False: nothing could be freed,
 * nothing changed. */
bool profile_fold(struct profile *profile, uint32_t keep);
/* The special address, made when new; 0 when memory ran out. */
uint32_t profile_folded_address(struct profile *profile);

/* --- profile_coverage.c --- */
void profile_coverage_free(struct profile *profile); /* its index */

/* --- profile_latency.c --- */
void profile_latency_free(struct profile *profile); /* its index */

/* --- profile_cells.c --- */
/* Gives the cells of nodes whose target[] is another to that node, and joins those that meet. Allocates
 * nothing. */
void profile_cells_move(struct profile *profile, const uint32_t *target);

/* --- profile_descriptors.c --- */
/* Likewise, where what is open was opened. */
void profile_descriptors_move(struct profile *profile, const uint32_t *target);

/* --- profile_timeline.c --- */
/* Packs what is pending, because it is to be written or because node numbers are about to change. */
void profile_timeline_seal(struct profile *profile);
/* A block holding {node, target} of each fold; NULL when memory ran out. Ready to be appended. */
struct profile_block *profile_timeline_pack_fold(const uint32_t *nodes, size_t count, const uint32_t *target);
void profile_timeline_append(struct profile *profile, struct profile_block *block);
void profile_timeline_free(struct profile *profile, bool written); /* written: only what a flush has taken */

#endif
