/* patch_stage.h - a list of changes on its way to the helper: tally writes it once, and the helper reads it
 * where it lies.
 *
 * A large program has a million changes, 64 bytes each; every copy of them on the way costs more than making
 * them. A list of more than a few pages is written to a memory file that is handed over with the request: by
 * write, since that takes fresh pages without a fault for each and without clearing them first. It is sealed,
 * so that nothing that tally does afterwards, its death included, can change or shorten it under the helper's
 * eyes. Context: struct patch_stage tool, struct patch_staged helper. */
#ifndef PATCH_STAGE_H
#define PATCH_STAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base_error.h"
#include "patch_memory.h"

/* Tally's list while it is made. {.file = -1} is an empty one. */
struct patch_stage {
    struct patch_memory_change *buffer; /* the last ones */
    size_t buffered, count;             /* count: of all */
    int file;                           /* with those that the buffer had no room for; -1: it had for all */
};

#define PATCH_STAGE_EMPTY                                                                                    \
    (struct patch_stage)                                                                                     \
    {                                                                                                        \
        .file = -1                                                                                           \
    }

/* BASE_ENOMEM, and then the list is as it was. */
int patch_stage_add(struct patch_stage *stage, const struct patch_memory_change *change,
                    struct base_error *error);
/* Nothing can be added from now on. All changes are in the file, or, when that is -1, in the buffer. */
int patch_stage_seal(struct patch_stage *stage, struct base_error *error);
void patch_stage_free(struct patch_stage *stage);

/* The helper's: a list that was handed over. */
struct patch_staged {
    struct patch_memory_change *changes; /* its own: sorting them changes no file */
    size_t count;
    bool mapped; /* else malloc'ed */
};

/* Maps the first `count` changes of a sealed file; BASE_EUSAGE: it is none, or too short. The descriptor
 * stays the caller's. */
int patch_staged_map(struct patch_staged *staged, int file, size_t count, struct base_error *error);
void patch_staged_free(struct patch_staged *staged);

#endif
