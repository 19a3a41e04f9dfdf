/* merge_parts.h - one merge, as its files share it. merge_add calls the parts in the order below: each
 * needs the maps that those before it filled. All are false when memory ran out. Context: tool; private to
 * src/tool/merge. */
#ifndef MERGE_PARTS_H
#define MERGE_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base_error.h"
#include "base_map.h"
#include "profile.h"
#include "store_timeline.h"

enum { MERGE_AMBIGUOUS = UINT32_MAX - 1 };

/* How an image of the one is found in the other. */
struct merge_image {
    uint32_t image;
    uint64_t slide; /* what is added to its addresses, modulo 2^64 */
    bool guessed;   /* by its functions, not by its build-id */
    uint32_t apart; /* where addresses go that contradict the guess; 0: not needed yet */
};

struct merge {
    struct profile *into;
    const struct profile *from;
    uint32_t first_origin; /* the number that origin 1, or the whole, of `from` gets */
    uint32_t origins;      /* how many it is */
    struct merge_image *images;
    uint32_t *processes, *threads, *addresses, *inlined, *nodes, *counters;
    uint32_t *climb;
    uint32_t images_before;  /* images of `into` that are not of this recording only */
    size_t addresses_before; /* addresses, likewise */
    /* (image, name) in `into` -> function, MERGE_AMBIGUOUS when there are several */
    struct base_map functions;
    struct base_error *error;
};

/* merge_parts.c */
int merge_no_memory(const struct merge *merge);
const char *merge_text(const struct merge *merge, uint32_t string);

/* merge_images.c */
bool merge_images(struct merge *merge);
bool merge_inlined(struct merge *merge);
bool merge_addresses(struct merge *merge);

/* merge_figures.c */
bool merge_nodes(struct merge *merge);
bool merge_cells(struct merge *merge);
bool merge_edges(struct merge *merge);
bool merge_peaks(struct merge *merge);
bool merge_latencies(struct merge *merge);
bool merge_descriptors(struct merge *merge);

/* merge_coverage.c */
bool merge_coverage(struct merge *merge);

/* merge_meta.c */
/* "origin.N.rest", or {0, NULL}. */
struct merge_key {
    uint32_t origin;
    const char *rest;
};

struct merge_key merge_read_key(const char *key);
/* How many origins there are. A number without meta values was not written by merging: counting up to it
 * would not end. */
uint32_t merge_count_origins(const struct profile *profile);
/* Of a merged profile its origins' values; its own can be made again from them. */
bool merge_meta(struct merge *merge, const char *file);
/* The file may have grown since it was loaded, while it is being recorded: what is not in the tree stays
 * out. */
bool merge_sample(void *context, const struct store_timeline_sample *sample);

#endif
