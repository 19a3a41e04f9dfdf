/* trace_stage.h - a list of changes on its way to the helper: tally writes it once, and the helper maps it.
 *
 * A large program has a million changes, 64 bytes each; every copy of them on the way costs more than making
 * them. A list of more than a few pages is written to a memory file that is sent with the request: by write,
 * since that takes fresh pages without a fault for each and without clearing them first. It is sealed, so
 * that nothing that tally does afterwards, its end included, can change or shorten it while the helper reads
 * it. Context: struct trace_stage tool, struct trace_staged helper. */
#ifndef TRACE_STAGE_H
#define TRACE_STAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base_error.h"
#include "trace_memory.h"

/* Tally's list while it is made. {.file = -1} is an empty one. */
struct trace_stage {
    struct trace_memory_change *buffer; /* the last ones */
    size_t buffered, count;             /* count: of all */
    int file;                           /* with those that the buffer had no room for; -1: it had for all */
};

#define TRACE_STAGE_EMPTY                                                                                    \
    (struct trace_stage)                                                                                     \
    {                                                                                                        \
        .file = -1                                                                                           \
    }

/* BASE_ENOMEM: the list is unchanged. */
int trace_stage_add(struct trace_stage *stage, const struct trace_memory_change *change,
                    struct base_error *error);
/* Nothing can be added from now on. All changes are in the file, or, when that is -1, in the buffer. */
int trace_stage_seal(struct trace_stage *stage, struct base_error *error);
void trace_stage_free(struct trace_stage *stage);

/* The helper's: a list that was received. */
struct trace_staged {
    struct trace_memory_change *changes; /* its own: sorting them changes no file */
    size_t count;
    bool mapped; /* else malloc'ed */
};

/* Maps the first `count` changes of a sealed file; BASE_EUSAGE: it is not sealed, or too short. The
 * descriptor stays the caller's. */
int trace_staged_map(struct trace_staged *staged, int file, size_t count, struct base_error *error);
void trace_staged_free(struct trace_staged *staged);

#endif
