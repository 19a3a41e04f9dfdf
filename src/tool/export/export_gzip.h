/* export_gzip.h - a gzip stream (RFC 1952) into an output, and protocol-buffer messages into a text.
 *
 * Source of the encoding: "Encoding" of the protocol buffers documentation: a field is a varint of its number
 * and type, and a varint, or a length and bytes. Fields of one message may come in any order, repeated ones
 * in turns. Context: tool; private to this module. */
#ifndef EXPORT_GZIP_H
#define EXPORT_GZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#include "base_text.h"
#include "export_output.h"

enum { EXPORT_GZIP_BYTES = 65536 };

struct export_gzip {
    struct export_output *output;
    z_stream stream;
    bool open, failed; /* failed: memory ran out */
    size_t used;
    unsigned char bytes[EXPORT_GZIP_BYTES];
};

/* Zero it first. False when memory ran out. export_gzip_end writes the rest and frees, in any case. */
bool export_gzip_begin(struct export_gzip *gzip, struct export_output *output);
void export_gzip_bytes(struct export_gzip *gzip, const void *bytes, size_t length);
void export_gzip_end(struct export_gzip *gzip);

/* One field of a message; the value 0 is the default and needs none. Negative numbers are their 64 bits. */
void export_gzip_varint(struct base_text *message, uint64_t value);
void export_gzip_number(struct base_text *message, unsigned field, uint64_t value);
void export_gzip_nested(struct base_text *message, unsigned field, const struct base_text *bytes);

#endif
