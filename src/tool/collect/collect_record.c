#include "collect_record.h"

#include <string.h>

#include "collect_reader.h"

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

static void take_registers(struct collect_reader *reader, unsigned count, struct collect_sample *sample)
{
    uint64_t abi = collect_reader_u64(reader);
    if (abi == PERF_SAMPLE_REGS_ABI_NONE)
        return;
    const uint64_t *registers = collect_reader_take(reader, (uint64_t)count * 8);
    if (abi == PERF_SAMPLE_REGS_ABI_64)
        sample->registers = registers;
}

bool collect_record_sample(const struct perf_event_header *header, uint64_t fields, unsigned register_count,
                           struct collect_sample *sample)
{
    struct collect_reader reader = collect_reader_of(header, 0);
    *sample = (struct collect_sample){0};
    sample->id = collect_reader_u64(&reader);
    sample->ip = collect_reader_u64(&reader);
    sample->pid = collect_reader_u32(&reader);
    sample->tid = collect_reader_u32(&reader);
    sample->time = collect_reader_u64(&reader);
    sample->cpu = collect_reader_u32(&reader);
    collect_reader_u32(&reader);
    sample->in_kernel = (header->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
    if (fields & PERF_SAMPLE_CALLCHAIN) {
        sample->chain_count = collect_reader_u64(&reader);
        if (sample->chain_count > UINT16_MAX / 8)
            return false;
        sample->chain = collect_reader_take(&reader, sample->chain_count * 8);
    }
    if (fields & PERF_SAMPLE_REGS_USER)
        take_registers(&reader, register_count, sample);
    if (fields & PERF_SAMPLE_STACK_USER)
        collect_reader_stack(&reader, sample);
    return reader.left >= 0;
}

bool collect_record_mmap(const struct perf_event_header *header, struct collect_mmap *mapping)
{
    struct collect_reader reader = collect_reader_of(header, SAMPLE_ID_SIZE);
    *mapping = (struct collect_mmap){0};
    mapping->pid = collect_reader_u32(&reader);
    mapping->tid = collect_reader_u32(&reader);
    mapping->start = collect_reader_u64(&reader);
    mapping->length = collect_reader_u64(&reader);
    mapping->offset = collect_reader_u64(&reader);
    const uint8_t *identity = collect_reader_take(&reader, 24);
    mapping->protection = collect_reader_u32(&reader);
    collect_reader_u32(&reader);
    mapping->path = collect_reader_text(&reader);
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
    struct collect_reader reader = collect_reader_of(header, SAMPLE_ID_SIZE);
    comm->pid = collect_reader_u32(&reader);
    comm->tid = collect_reader_u32(&reader);
    comm->exec = header->misc & PERF_RECORD_MISC_COMM_EXEC;
    comm->name = collect_reader_text(&reader);
    return comm->name;
}

bool collect_record_task(const struct perf_event_header *header, struct collect_task *task)
{
    struct collect_reader reader = collect_reader_of(header, SAMPLE_ID_SIZE);
    task->pid = collect_reader_u32(&reader);
    task->parent_pid = collect_reader_u32(&reader);
    task->tid = collect_reader_u32(&reader);
    task->parent_tid = collect_reader_u32(&reader);
    task->time = collect_reader_u64(&reader);
    return reader.left >= 0;
}

uint64_t collect_record_lost(const struct perf_event_header *header)
{
    struct collect_reader reader = collect_reader_of(header, SAMPLE_ID_SIZE);
    if (header->type == PERF_RECORD_LOST)
        collect_reader_u64(&reader); /* the event's id */
    return collect_reader_u64(&reader);
}
