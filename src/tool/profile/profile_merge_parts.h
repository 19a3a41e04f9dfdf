/* profile_merge_parts.h - one merge, as its files share it. profile_merge_add calls the parts in the order below: each
 * needs the maps that those before it filled. All are false when memory ran out. Context: tool; private to this room. */
#ifndef PROFILE_MERGE_PARTS_H
#define PROFILE_MERGE_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base_error.h"
#include "base_map.h"
#include "profile.h"
#include "profile_timeline.h"

enum { PROFILE_MERGE_AMBIGUOUS = UINT32_MAX - 1 };

/* How an image of the one is found in the other. */
struct profile_merge_image {
    uint32_t image;
    uint64_t slide; /* what is added to its addresses, modulo 2^64 */
    bool guessed;   /* by its functions, not by its build-id */
    uint32_t apart; /* where addresses go that contradict the guess; 0: not needed yet */
};

struct profile_merge {
    struct profile *into;
    const struct profile *from;
    uint32_t first_origin; /* the number that origin 1, or the whole, of `from` gets */
    uint32_t origins;      /* how many it is */
    struct profile_merge_image *images;
    uint32_t *processes, *threads, *addresses, *inlined, *nodes, *counters;
    uint32_t *climb;
    uint32_t images_before;  /* images of `into` that are not of this recording only */
    size_t addresses_before; /* addresses, likewise */
    /* (image, name) in `into` -> function, PROFILE_MERGE_AMBIGUOUS when there are several */
    struct base_map functions;
    struct base_error *error;
};

/* profile_merge_parts.c */
int profile_merge_no_memory(const struct profile_merge *merge);
const char *profile_merge_text(const struct profile_merge *merge, uint32_t string);

/* profile_merge_images.c */
bool profile_merge_images(struct profile_merge *merge);
bool profile_merge_inlined(struct profile_merge *merge);
bool profile_merge_addresses(struct profile_merge *merge);

/* profile_merge_figures.c */
bool profile_merge_nodes(struct profile_merge *merge);
bool profile_merge_cells(struct profile_merge *merge);
bool profile_merge_edges(struct profile_merge *merge);
bool profile_merge_peaks(struct profile_merge *merge);
bool profile_merge_latencies(struct profile_merge *merge);
bool profile_merge_descriptors(struct profile_merge *merge);

/* profile_merge_coverage.c */
bool profile_merge_coverage(struct profile_merge *merge);

/* profile_merge_meta.c */
/* "origin.N.rest", or {0, NULL}. */
struct profile_merge_key {
    uint32_t origin;
    const char *rest;
};

struct profile_merge_key profile_merge_read_key(const char *key);
/* Each origin has meta values: a number above theirs is none that merging has written, and would be counted
 * to for ever. */
uint32_t profile_merge_count_origins(const struct profile *profile);
/* Of a merged profile its origins' values; its own can be made again from them. */
bool profile_merge_meta(struct profile_merge *merge, const char *file);
/* The file may have grown since it was loaded, while it is being recorded: what is not in the tree stays
 * out. */
bool profile_merge_sample(void *context, const struct profile_timeline_sample *sample);

#endif
