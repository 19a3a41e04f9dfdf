/* patch_stage.h - a list of changes on its way to the helper: tally writes it once, and the helper reads it where it lies.
 *
 * A large program has a million changes, 64 bytes each; every copy of them on the way costs more than making them. A list of more than
 * a few pages is a memory file that is handed over with the request. It is sealed first, so that nothing that tally does afterwards,
 * its death included, can change or shorten it under the helper's eyes.
 * Context: struct patch_stage tool, struct patch_staged helper. */
#ifndef PATCH_STAGE_H
#define PATCH_STAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base_error.h"
#include "patch_memory.h"

/* Tally's: room for a list. */
struct patch_stage {
    struct patch_memory_change *changes; /* to be filled; zeros, or whatever was there */
    size_t room;
    int file; /* -1: the list is small, and malloc'ed */
};

int patch_stage_new(struct patch_stage *stage, size_t room, struct base_error *error);
/* No more writing; `changes` is NULL from now on if the list is a file. */
int patch_stage_seal(struct patch_stage *stage, struct base_error *error);
void patch_stage_free(struct patch_stage *stage);

/* The helper's: a list that was handed over. */
struct patch_staged {
    struct patch_memory_change *changes; /* its own: sorting them changes no file */
    size_t count;
    bool mapped; /* else malloc'ed */
};

/* Maps the first `count` changes of a sealed file; BASE_EUSAGE: it is none, or too short. The descriptor stays the caller's. */
int patch_staged_map(struct patch_staged *staged, int file, size_t count, struct base_error *error);
void patch_staged_free(struct patch_staged *staged);

#endif
