#include "collect_record.h"

#include <string.h>

/* sample_id, at the end of every record that is no sample: pid+tid, time, cpu+reserved, identifier. */
enum { SAMPLE_ID_SIZE = 32, SAMPLE_ID_TIME = 24 };
/* In a sample: header, identifier, ip, pid+tid, then the time. */
enum { SAMPLE_TIME_OFFSET = 32 };

size_t collect_record_time_offset(const struct perf_event_header *header)
{
    if (header->type == PERF_RECORD_SAMPLE)
        return SAMPLE_TIME_OFFSET;
    return header->size >= sizeof *header + SAMPLE_ID_SIZE ? (size_t)header->size - SAMPLE_ID_TIME
                                                           : sizeof *header;
}

/* Reads a record front to back; `left` turns negative at the first read past the end and stays so. */
struct reader {
    const uint8_t *at;
    int64_t left;
};

static struct reader reader_of(const struct perf_event_header *header, size_t tail)
{
    return (struct reader){(const uint8_t *)(header + 1),
                           (int64_t)header->size - (int64_t)sizeof *header - (int64_t)tail};
}

static const void *take(struct reader *reader, uint64_t size)
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

static uint64_t take_u64(struct reader *reader)
{
    uint64_t value = 0;
    const void *bytes = take(reader, sizeof value);
    if (bytes)
        memcpy(&value, bytes, sizeof value);
    return value;
}

static uint32_t take_u32(struct reader *reader)
{
    uint32_t value = 0;
    const void *bytes = take(reader, sizeof value);
    if (bytes)
        memcpy(&value, bytes, sizeof value);
    return value;
}

/* A terminated string that fills the rest of the record. */
static const char *take_text(struct reader *reader)
{
    if (reader->left <= 0 || !memchr(reader->at, 0, (size_t)reader->left))
        return NULL;
    return (const char *)reader->at;
}

static void take_registers(struct reader *reader, unsigned count, struct collect_sample *sample)
{
    uint64_t abi = take_u64(reader);
    if (abi == PERF_SAMPLE_REGS_ABI_NONE)
        return;
    const uint64_t *registers = take(reader, (uint64_t)count * 8);
    if (abi == PERF_SAMPLE_REGS_ABI_64)
        sample->registers = registers;
}

static void take_stack(struct reader *reader, struct collect_sample *sample)
{
    sample->stack_asked = take_u64(reader);
    if (!sample->stack_asked)
        return;
    sample->stack = take(reader, sample->stack_asked);
    sample->stack_size = take_u64(reader);
    if (sample->stack_size > sample->stack_asked)
        reader->left = -1;
}

bool collect_record_sample(const struct perf_event_header *header, uint64_t fields, unsigned register_count,
                           struct collect_sample *sample)
{
    struct reader reader = reader_of(header, 0);
    *sample = (struct collect_sample){0};
    sample->id = take_u64(&reader);
    sample->ip = take_u64(&reader);
    sample->pid = take_u32(&reader);
    sample->tid = take_u32(&reader);
    sample->time = take_u64(&reader);
    sample->cpu = take_u32(&reader);
    take_u32(&reader);
    sample->in_kernel = (header->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
    if (fields & PERF_SAMPLE_CALLCHAIN) {
        sample->chain_count = take_u64(&reader);
        if (sample->chain_count > UINT16_MAX / 8)
            return false;
        sample->chain = take(&reader, sample->chain_count * 8);
    }
    if (fields & PERF_SAMPLE_REGS_USER)
        take_registers(&reader, register_count, sample);
    if (fields & PERF_SAMPLE_STACK_USER)
        take_stack(&reader, sample);
    return reader.left >= 0;
}

bool collect_record_mmap(const struct perf_event_header *header, struct collect_mmap *mapping)
{
    struct reader reader = reader_of(header, SAMPLE_ID_SIZE);
    *mapping = (struct collect_mmap){0};
    mapping->pid = take_u32(&reader);
    mapping->tid = take_u32(&reader);
    mapping->start = take_u64(&reader);
    mapping->length = take_u64(&reader);
    mapping->offset = take_u64(&reader);
    const uint8_t *identity = take(&reader, 24);
    mapping->protection = take_u32(&reader);
    take_u32(&reader);
    mapping->path = take_text(&reader);
    if (!identity || !mapping->path)
        return false;
    if (header->misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
        mapping->build_id_size = identity[0] <= 20 ? identity[0] : 20;
        mapping->build_id = identity + 4;
        return true;
    }
    memcpy(&mapping->major, identity, 4);
    memcpy(&mapping->minor, identity + 4, 4);
    memcpy(&mapping->inode, identity + 8, 8);
    return true;
}

bool collect_record_comm(const struct perf_event_header *header, struct collect_comm *comm)
{
    struct reader reader = reader_of(header, SAMPLE_ID_SIZE);
    comm->pid = take_u32(&reader);
    comm->tid = take_u32(&reader);
    comm->exec = header->misc & PERF_RECORD_MISC_COMM_EXEC;
    comm->name = take_text(&reader);
    return comm->name;
}

bool collect_record_task(const struct perf_event_header *header, struct collect_task *task)
{
    struct reader reader = reader_of(header, SAMPLE_ID_SIZE);
    task->pid = take_u32(&reader);
    task->parent_pid = take_u32(&reader);
    task->tid = take_u32(&reader);
    task->parent_tid = take_u32(&reader);
    task->time = take_u64(&reader);
    return reader.left >= 0;
}

uint64_t collect_record_lost(const struct perf_event_header *header)
{
    struct reader reader = reader_of(header, SAMPLE_ID_SIZE);
    if (header->type == PERF_RECORD_LOST)
        take_u64(&reader); /* the event's id */
    return take_u64(&reader);
}
