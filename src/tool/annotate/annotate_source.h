/* annotate_source.h - lines of source files, from where they lie now.
 * Context: tool. */
#ifndef ANNOTATE_SOURCE_H
#define ANNOTATE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_text.h"

struct annotate_source_file;

struct annotate_source {
    const char *const *maps; /* "FROM=TO", borrowed; the first that fits counts */
    size_t map_count;
    struct annotate_source_file *files;
    size_t count, capacity;
    bool failed; /* memory ran out: some lines may be missing */
};

/* The text of a line, without its end; NULL: there is none. Not terminated: *length bytes. Valid until
 * annotate_source_free. */
const char *annotate_source_line(struct annotate_source *source, const char *path, uint32_t line,
                                 size_t *length);

/* Where the file was looked for, after the maps. NULL when memory ran out. */
const char *annotate_source_path(struct annotate_source *source, const char *path);
/* Why it has no lines: an errno; 0 when it has. */
int annotate_source_error(struct annotate_source *source, const char *path);
uint32_t annotate_source_count(struct annotate_source *source, const char *path); /* lines */
/* Last changed, in seconds since 1970; 0 when it is not there. */
int64_t annotate_source_changed(struct annotate_source *source, const char *path);

void annotate_source_free(struct annotate_source *source);

#endif
