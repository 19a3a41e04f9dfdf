#include "perf_record.h"

#include <string.h>

#include "perf_reader.h"

/* sample_id, at the end of every record that is no sample: pid+tid, time, cpu+reserved, identifier. */
enum { SAMPLE_ID_SIZE = 32, SAMPLE_ID_TIME = 24 };
/* In a sample: header, identifier, ip, pid+tid, then the time. */
enum { SAMPLE_TIME_OFFSET = 32 };

size_t perf_record_time_offset(const struct perf_event_header *header)
{
    if (header->type == PERF_RECORD_SAMPLE)
        return SAMPLE_TIME_OFFSET;
    return header->size >= sizeof *header + SAMPLE_ID_SIZE ? (size_t)header->size - SAMPLE_ID_TIME
                                                           : sizeof *header;
}

static void take_registers(struct perf_reader *reader, unsigned count, struct perf_sample *sample)
{
    uint64_t abi = perf_reader_u64(reader);
    if (abi == PERF_SAMPLE_REGS_ABI_NONE)
        return;
    const uint64_t *registers = perf_reader_take(reader, (uint64_t)count * 8);
    if (abi == PERF_SAMPLE_REGS_ABI_64)
        sample->registers = registers;
}

bool perf_record_sample(const struct perf_event_header *header, uint64_t fields, unsigned register_count,
                        struct perf_sample *sample)
{
    struct perf_reader reader = perf_reader_of(header, 0);
    *sample = (struct perf_sample){0};
    sample->id = perf_reader_u64(&reader);
    sample->ip = perf_reader_u64(&reader);
    sample->pid = perf_reader_u32(&reader);
    sample->tid = perf_reader_u32(&reader);
    sample->time = perf_reader_u64(&reader);
    sample->cpu = perf_reader_u32(&reader);
    perf_reader_u32(&reader);
    sample->in_kernel = (header->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
    if (fields & PERF_SAMPLE_CALLCHAIN) {
        sample->chain_count = perf_reader_u64(&reader);
        if (sample->chain_count > UINT16_MAX / 8)
            return false;
        sample->chain = perf_reader_take(&reader, sample->chain_count * 8);
    }
    if (fields & PERF_SAMPLE_REGS_USER)
        take_registers(&reader, register_count, sample);
    if (fields & PERF_SAMPLE_STACK_USER)
        perf_reader_stack(&reader, sample);
    return reader.left >= 0;
}

bool perf_record_mmap(const struct perf_event_header *header, struct perf_mmap *mapping)
{
    struct perf_reader reader = perf_reader_of(header, SAMPLE_ID_SIZE);
    *mapping = (struct perf_mmap){0};
    mapping->pid = perf_reader_u32(&reader);
    mapping->tid = perf_reader_u32(&reader);
    mapping->start = perf_reader_u64(&reader);
    mapping->length = perf_reader_u64(&reader);
    mapping->offset = perf_reader_u64(&reader);
    const uint8_t *identity = perf_reader_take(&reader, 24);
    mapping->protection = perf_reader_u32(&reader);
    perf_reader_u32(&reader);
    mapping->path = perf_reader_text(&reader);
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

bool perf_record_comm(const struct perf_event_header *header, struct perf_comm *comm)
{
    struct perf_reader reader = perf_reader_of(header, SAMPLE_ID_SIZE);
    comm->pid = perf_reader_u32(&reader);
    comm->tid = perf_reader_u32(&reader);
    comm->exec = header->misc & PERF_RECORD_MISC_COMM_EXEC;
    comm->name = perf_reader_text(&reader);
    return comm->name;
}

bool perf_record_task(const struct perf_event_header *header, struct perf_task *task)
{
    struct perf_reader reader = perf_reader_of(header, SAMPLE_ID_SIZE);
    task->pid = perf_reader_u32(&reader);
    task->parent_pid = perf_reader_u32(&reader);
    task->tid = perf_reader_u32(&reader);
    task->parent_tid = perf_reader_u32(&reader);
    task->time = perf_reader_u64(&reader);
    return reader.left >= 0;
}

uint64_t perf_record_lost(const struct perf_event_header *header)
{
    struct perf_reader reader = perf_reader_of(header, SAMPLE_ID_SIZE);
    if (header->type == PERF_RECORD_LOST)
        perf_reader_u64(&reader); /* the event's id */
    return perf_reader_u64(&reader);
}
