#include "export_gzip.h"

#include <string.h>

enum {
    LEVEL = 3, /* half the time of the usual 6, for some per cent of size */
    WINDOW_GZIP = 15 + 16,
    MEMORY_LEVEL = 8,
    WIRE_VARINT = 0,
    WIRE_BYTES = 2,
};

bool export_gzip_begin(struct export_gzip *gzip, struct export_output *output)
{
    gzip->output = output;
    gzip->open =
        deflateInit2(&gzip->stream, LEVEL, Z_DEFLATED, WINDOW_GZIP, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) == Z_OK;
    gzip->failed = !gzip->open;
    return gzip->open;
}

static void deflate_pending(struct export_gzip *gzip, int flush)
{
    unsigned char packed[16384];
    if (!gzip->open)
        return;
    gzip->stream.next_in = gzip->bytes;
    gzip->stream.avail_in = (unsigned)gzip->used;
    do {
        gzip->stream.next_out = packed;
        gzip->stream.avail_out = sizeof packed;
        deflate(&gzip->stream, flush);
        export_output_bytes(gzip->output, packed, sizeof packed - gzip->stream.avail_out);
    } while (!gzip->stream.avail_out);
    gzip->used = 0;
}

void export_gzip_bytes(struct export_gzip *gzip, const void *bytes, size_t length)
{
    const unsigned char *next = bytes;
    while (length) {
        size_t part = EXPORT_GZIP_BYTES - gzip->used;
        part = part < length ? part : length;
        memcpy(gzip->bytes + gzip->used, next, part);
        gzip->used += part;
        next += part;
        length -= part;
        if (gzip->used == EXPORT_GZIP_BYTES)
            deflate_pending(gzip, Z_NO_FLUSH);
    }
}

void export_gzip_end(struct export_gzip *gzip)
{
    deflate_pending(gzip, Z_FINISH);
    if (gzip->open)
        deflateEnd(&gzip->stream);
    gzip->open = false;
}

void export_gzip_varint(struct base_text *message, uint64_t value)
{
    unsigned char bytes[10];
    size_t length = 0;
    do {
        bytes[length++] = (unsigned char)((value & 127) | (value > 127 ? 128 : 0));
        value >>= 7;
    } while (value);
    base_text_add_bytes(message, bytes, length);
}

void export_gzip_number(struct base_text *message, unsigned field, uint64_t value)
{
    if (!value)
        return;
    export_gzip_varint(message, field << 3 | WIRE_VARINT);
    export_gzip_varint(message, value);
}

void export_gzip_nested(struct base_text *message, unsigned field, const struct base_text *bytes)
{
    export_gzip_varint(message, field << 3 | WIRE_BYTES);
    export_gzip_varint(message, bytes->length);
    base_text_add_bytes(message, base_text_string(bytes), bytes->length);
    message->failed |= bytes->failed;
}
