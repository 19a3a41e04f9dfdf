/* collect_reader.h - reads a record of perf front to back, never past its end.
 *
 * `left` turns negative at the first read past the end and stays so: numbers are 0 from there on, bytes NULL.
 * Context: tool. */
#ifndef COLLECT_READER_H
#define COLLECT_READER_H

#include <linux/perf_event.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "collect_record.h"

struct collect_reader {
    const uint8_t *at;
    int64_t left;
};

/* Of what is behind the header, less the `tail` bytes at the end. */
static inline struct collect_reader collect_reader_of(const struct perf_event_header *header, size_t tail)
{
    return (struct collect_reader){(const uint8_t *)(header + 1),
                                   (int64_t)header->size - (int64_t)sizeof *header - (int64_t)tail};
}

static inline const void *collect_reader_take(struct collect_reader *reader, uint64_t size)
{
    if (reader->left < 0 || size > (uint64_t)reader->left) {
        reader->left = -1;
        return NULL;
    }
    const void *bytes = reader->at;
    reader->at += size;
    reader->left -= (int64_t)size;
    return bytes;
}

static inline uint64_t collect_reader_u64(struct collect_reader *reader)
{
    uint64_t value = 0;
    const void *bytes = collect_reader_take(reader, sizeof value);
    if (bytes)
        memcpy(&value, bytes, sizeof value);
    return value;
}

static inline uint32_t collect_reader_u32(struct collect_reader *reader)
{
    uint32_t value = 0;
    const void *bytes = collect_reader_take(reader, sizeof value);
    if (bytes)
        memcpy(&value, bytes, sizeof value);
    return value;
}

/* A terminated string that fills the rest; NULL: there is none. */
static inline const char *collect_reader_text(struct collect_reader *reader)
{
    if (reader->left <= 0 || !memchr(reader->at, 0, (size_t)reader->left))
        return NULL;
    return (const char *)reader->at;
}

/* PERF_SAMPLE_STACK_USER: the copy, and how much of it is one. */
static inline void collect_reader_stack(struct collect_reader *reader, struct collect_sample *sample)
{
    sample->stack_asked = collect_reader_u64(reader);
    if (!sample->stack_asked)
        return;
    sample->stack = collect_reader_take(reader, sample->stack_asked);
    sample->stack_size = collect_reader_u64(reader);
    if (sample->stack_size > sample->stack_asked)
        reader->left = -1;
}

#endif
