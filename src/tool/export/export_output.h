/* export_output.h - bytes on their way out: collected to pieces, numbers and names in the forms that formats
 * want. After a failure everything is discarded; writers look once, at their end. Context: tool; private to
 * this module. */
#ifndef EXPORT_OUTPUT_H
#define EXPORT_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_text.h"
#include "export.h"

enum { EXPORT_OUTPUT_BYTES = 65536 };

struct export_output {
    export_sink *sink;
    void *context;
    bool failed;    /* the sink refused */
    bool no_memory; /* a name was not written */
    size_t used;
    char bytes[EXPORT_OUTPUT_BYTES];
};

void export_output_bytes(struct export_output *output, const void *bytes, size_t length);
void export_output_text(struct export_output *output, const char *text);
void export_output_unsigned(struct export_output *output, uint64_t value);
void export_output_integer(struct export_output *output, int64_t value);
void export_output_flush(struct export_output *output);

/* How names are written. Bytes that are no UTF-8 become U+FFFD everywhere. */
enum export_escape {
    EXPORT_ESCAPE_LINE,   /* control characters as \xNN: a name stays on its line */
    EXPORT_ESCAPE_FOLDED, /* the same, and ':' for the ';' between frames */
    EXPORT_ESCAPE_CSV,    /* quoted where it must be; all else stays */
    EXPORT_ESCAPE_JSON,   /* with its quotes */
};
void export_output_escape(struct base_text *out, const char *name, enum export_escape escape);

/* The same straight to the output. */
void export_output_name(struct export_output *output, const char *name, enum export_escape escape);

#endif
