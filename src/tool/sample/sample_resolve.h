/* sample_resolve.h - names, lines and inlined frames for a profile's addresses.
 *
 * Once at the end of a recording (with the images at hand, and a limit on the time), and again by a report
 * for what was left (images are then found by path and checked by build-id). Context: tool. */
#ifndef SAMPLE_RESOLVE_H
#define SAMPLE_RESOLVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base_error.h"
#include "elf_image.h"
#include "profile.h"

struct sample_resolve_options {
    bool debuginfod;
    bool lines; /* lines and inlined frames as well */
    /* Lines from separate debug files only for images in which at least this share (0..1) of the samples were
     * interrupted: opening one means decompressing it whole. What is left out is found when it is asked
     * for. */
    double debug_file_share;
    uint64_t limit_ns; /* stop after this much work; 0: no limit */
    /* The open image behind a profile image, if the caller has it; NULL, or returns NULL: it is opened by its
     * path. */
    const struct elf_image *(*image)(void *context, uint32_t profile_image);
    /* The directory that was the root of its process, written to `path`; NULL, or leaves it empty: Tally's
     * own. */
    void (*root)(void *context, uint32_t profile_image, char *path, size_t size);
    void (*progress)(void *context, size_t done, size_t total); /* may be NULL; called now and then */
    void *context;
};

/* Resolves what is PROFILE_UNRESOLVED. Fails only when memory runs out; everything else is a loss or left
 * unresolved (WIRE_LOSS_NOT_YET_RESOLVED is set to what is left, WIRE_LOSS_NO_SYMBOL to what no symbol
 * names). */
int sample_resolve(struct profile *profile, const struct sample_resolve_options *options,
                   struct base_error *error);

#endif
