/* cfi_reader.h - a bounded cursor over bytes that may be anything (private to the module).
 *
 * A read past the end yields 0, moves to the end and sets `failed`; so a caller may read a whole record and
 * ask once. Little endian, as both machines are.
 * Context: tool. Source of the encodings: DWARF 5 section 7.6 (LEB128). */
#ifndef CFI_READER_H
#define CFI_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct cfi_reader {
    const uint8_t *at, *end;
    bool failed;
};

static inline size_t cfi_reader_left(const struct cfi_reader *reader)
{
    return (size_t)(reader->end - reader->at);
}

static inline void cfi_reader_fail(struct cfi_reader *reader)
{
    reader->at = reader->end;
    reader->failed = true;
}

static inline void cfi_reader_skip(struct cfi_reader *reader, uint64_t size)
{
    if (size > cfi_reader_left(reader))
        cfi_reader_fail(reader);
    else
        reader->at += size;
}

/* `size` of 1, 2, 4 or 8 bytes, without sign. */
static inline uint64_t cfi_reader_fixed(struct cfi_reader *reader, size_t size)
{
    uint64_t value = 0;
    if (size > cfi_reader_left(reader)) {
        cfi_reader_fail(reader);
        return 0;
    }
    memcpy(&value, reader->at, size);
    reader->at += size;
    return value;
}

static inline uint8_t cfi_reader_u8(struct cfi_reader *reader)
{
    if (reader->at == reader->end) {
        cfi_reader_fail(reader);
        return 0;
    }
    return *reader->at++;
}

static inline uint64_t cfi_reader_uleb(struct cfi_reader *reader)
{
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte;
    do {
        byte = cfi_reader_u8(reader);
        if (shift < 64)
            value |= (uint64_t)(byte & 127) << shift;
        shift += 7;
    } while (byte & 128);
    return value;
}

static inline int64_t cfi_reader_sleb(struct cfi_reader *reader)
{
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte;
    do {
        byte = cfi_reader_u8(reader);
        if (shift < 64)
            value |= (uint64_t)(byte & 127) << shift;
        shift += 7;
    } while (byte & 128);
    if (shift < 64 && (byte & 64))
        value |= UINT64_MAX << shift;
    return (int64_t)value;
}

/* The bytes up to `size` further on as a reader of their own, which this one skips. */
static inline struct cfi_reader cfi_reader_sub(struct cfi_reader *reader, uint64_t size)
{
    struct cfi_reader sub = {reader->at, reader->at, false};
    cfi_reader_skip(reader, size);
    if (reader->failed)
        sub = (struct cfi_reader){reader->end, reader->end, true};
    else
        sub.end = reader->at;
    return sub;
}

#endif
