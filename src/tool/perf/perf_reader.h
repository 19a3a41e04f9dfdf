/* perf_reader.h - reads a record of perf front to back, never past its end.
 *
 * `left` turns negative at the first read past the end and stays so: numbers are 0 from there on, bytes NULL.
 * Context: tool. */
#ifndef PERF_READER_H
#define PERF_READER_H

#include <linux/perf_event.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "perf_record.h"

struct perf_reader {
    const uint8_t *at;
    int64_t left;
};

/* Of what is behind the header, less the `tail` bytes at the end. */
static inline struct perf_reader perf_reader_of(const struct perf_event_header *header, size_t tail)
{
    return (struct perf_reader){(const uint8_t *)(header + 1),
                                (int64_t)header->size - (int64_t)sizeof *header - (int64_t)tail};
}

static inline const void *perf_reader_take(struct perf_reader *reader, uint64_t size)
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

static inline uint64_t perf_reader_u64(struct perf_reader *reader)
{
    uint64_t value = 0;
    const void *bytes = perf_reader_take(reader, sizeof value);
    if (bytes)
        memcpy(&value, bytes, sizeof value);
    return value;
}

static inline uint32_t perf_reader_u32(struct perf_reader *reader)
{
    uint32_t value = 0;
    const void *bytes = perf_reader_take(reader, sizeof value);
    if (bytes)
        memcpy(&value, bytes, sizeof value);
    return value;
}

/* A terminated string that fills the rest; NULL: there is none. */
static inline const char *perf_reader_text(struct perf_reader *reader)
{
    if (reader->left <= 0 || !memchr(reader->at, 0, (size_t)reader->left))
        return NULL;
    return (const char *)reader->at;
}

/* PERF_SAMPLE_STACK_USER: the copy, and how much of it is one. */
static inline void perf_reader_stack(struct perf_reader *reader, struct perf_sample *sample)
{
    sample->stack_asked = perf_reader_u64(reader);
    if (!sample->stack_asked)
        return;
    sample->stack = perf_reader_take(reader, sample->stack_asked);
    sample->stack_size = perf_reader_u64(reader);
    if (sample->stack_size > sample->stack_asked)
        reader->left = -1;
}

#endif
