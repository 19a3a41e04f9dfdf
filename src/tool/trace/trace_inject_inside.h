/* trace_inject_inside.h - what trace_inject.c has for trace_inject_share.c. Context: helper. */
#ifndef TRACE_INJECT_INSIDE_H
#define TRACE_INJECT_INSIDE_H

#include <stdint.h>

#include "trace_inject.h"

/* trace_inject_call, where a failure of the call itself is an error: BASE_OK and *answer >= 0, or what went
 * wrong. */
int trace_inject_require(struct trace_inject *inject, const char *name, long number,
                         const uint64_t arguments[6], int64_t *answer, struct base_error *error);

struct trace_inject_mapping {
    uint64_t address, size, offset; /* offset: in the file */
    int protection;
    int file; /* a descriptor of the target; -1: private memory */
    int how;  /* MAP_FIXED or MAP_FIXED_NOREPLACE; of a file with MAP_PRIVATE, unless it is shared */
};

int trace_inject_map_file(struct trace_inject *inject, const struct trace_inject_mapping *mapping,
                          struct base_error *error);

#endif
