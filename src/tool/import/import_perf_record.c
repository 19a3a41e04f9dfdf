#include <string.h>
#include <sys/mman.h>

#include "arch.h"
#include "import_perf.h"
#include "perf_reader.h"

const struct perf_event_header *import_perf_record(struct import_perf *perf,
                                                   const struct import_perf_place *place)
{
    const uint8_t *from =
        (place->unpacked ? (const uint8_t *)perf->unpacked.data : perf->bytes) + place->offset;
    memcpy(&perf->record.header, from, sizeof perf->record.header);
    memcpy(perf->record.bytes, from, perf->record.header.size);
    return &perf->record.header;
}

/* --- what stands behind every record that is no sample --- */

static const struct perf_event_attr *first_attr(const struct import_perf *perf)
{
    return &perf->events[0].attr;
}

static unsigned tail_fields(uint64_t fields)
{
    return (unsigned)__builtin_popcountll(fields &
                                          (PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID |
                                           PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER));
}

static size_t tail_size(const struct import_perf *perf)
{
    const struct perf_event_attr *attr = first_attr(perf);
    return attr->sample_id_all ? 8 * tail_fields(attr->sample_type) : 0;
}

/* Identifier, CPU, stream and event stand behind the time. */
static uint64_t tail_time(const struct import_perf *perf, const struct perf_event_header *header,
                          uint64_t otherwise)
{
    const struct perf_event_attr *attr = first_attr(perf);
    size_t behind = 8 * tail_fields(attr->sample_type & ~(uint64_t)(PERF_SAMPLE_TID | PERF_SAMPLE_TIME));
    uint64_t time;
    if (!attr->sample_id_all || !(attr->sample_type & PERF_SAMPLE_TIME) ||
        header->size < sizeof *header + tail_size(perf))
        return otherwise;
    memcpy(&time, (const uint8_t *)header + header->size - behind - sizeof time, sizeof time);
    return time;
}

/* --- samples --- */

/* In front of the time: identifier, address, thread. */
static uint64_t sample_time(const struct import_perf *perf, const struct perf_event_header *header,
                            uint64_t otherwise)
{
    uint64_t fields = first_attr(perf)->sample_type, time;
    size_t before = 8 * (size_t)__builtin_popcountll(
                            fields & (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID));
    if (!(fields & PERF_SAMPLE_TIME) || header->size < sizeof *header + before + sizeof time)
        return otherwise;
    memcpy(&time, (const uint8_t *)(header + 1) + before, sizeof time);
    return time;
}

uint64_t import_perf_time(const struct import_perf *perf, const struct perf_event_header *header,
                          uint64_t otherwise)
{
    return header->type == PERF_RECORD_SAMPLE ? sample_time(perf, header, otherwise)
                                              : tail_time(perf, header, otherwise);
}

/* The event's identifier is at a place that all events of a file share. */
static struct import_perf_event *event_of(struct import_perf *perf, const struct perf_event_header *header)
{
    uint64_t fields = first_attr(perf)->sample_type, id;
    uint64_t before = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR;
    size_t at = fields & PERF_SAMPLE_IDENTIFIER ? 0 : 8 * (size_t)__builtin_popcountll(fields & before);
    if (perf->event_count == 1 || !(fields & (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_ID)))
        return &perf->events[0];
    if (header->size < sizeof *header + at + sizeof id)
        return NULL;
    memcpy(&id, (const uint8_t *)(header + 1) + at, sizeof id);
    uint32_t index = base_map_find(&perf->event_of, id);
    return index == BASE_MAP_NONE ? NULL : &perf->events[index];
}

/* Values that a sample carries of its event's group: passed over. */
static void skip_read(struct perf_reader *reader, uint64_t format)
{
    unsigned times = (unsigned)__builtin_popcountll(
        format & (PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING));
    unsigned each = 1 + (unsigned)__builtin_popcountll(format & (PERF_FORMAT_ID | (1u << 4))); /* LOST */
    uint64_t count = format & PERF_FORMAT_GROUP ? perf_reader_u64(reader) : 1;
    perf_reader_take(reader, 8 * times);
    perf_reader_take(reader, count < UINT16_MAX ? count * each * 8 : UINT64_MAX);
}

enum { BRANCH_ENTRY = 24, BRANCH_HARDWARE_INDEX = 1 << 17, BRANCH_COUNTERS = 1 << 19 };

static void skip_branches(struct perf_reader *reader, uint64_t type)
{
    uint64_t count = perf_reader_u64(reader);
    if (type & BRANCH_HARDWARE_INDEX)
        perf_reader_u64(reader);
    perf_reader_take(reader, count < UINT16_MAX ? count * (BRANCH_ENTRY + (type & BRANCH_COUNTERS ? 8 : 0))
                                                : UINT64_MAX);
}

/* Kernel addresses with their marker in front, as our own records have them; the user's without. */
static void split_chain(struct perf_sample *sample, const uint64_t *chain, size_t count)
{
    bool kernel = true;
    size_t from = 0;
    for (size_t i = 0; i <= count; i++) {
        if (i < count && chain[i] < (uint64_t)PERF_CONTEXT_MAX)
            continue;
        if (i > from && kernel && chain[from] == (uint64_t)PERF_CONTEXT_KERNEL) {
            sample->chain = chain + from;
            sample->chain_count = i - from;
        } else if (i > from + 1 && chain[from] == (uint64_t)PERF_CONTEXT_USER) {
            sample->user_chain = chain + from + 1;
            sample->user_count = i - from - 1;
            kernel = false;
        }
        from = i;
    }
}

static void take_chain(struct perf_reader *reader, struct perf_sample *sample)
{
    uint64_t count = perf_reader_u64(reader);
    const uint64_t *chain = perf_reader_take(reader, count < UINT16_MAX ? count * 8 : UINT64_MAX);
    if (chain)
        split_chain(sample, chain, (size_t)count);
}

/* What was recorded of registers, in the order in which this machine's unwinder has them. */
static void take_registers(struct perf_reader *reader, uint64_t mask, struct import_perf_sample *sample)
{
    const struct arch *arch = arch_host();
    uint64_t abi = perf_reader_u64(reader);
    if (abi == PERF_SAMPLE_REGS_ABI_NONE)
        return;
    const uint8_t *values = perf_reader_take(reader, 8 * (uint64_t)__builtin_popcountll(mask));
    if (!values || abi != PERF_SAMPLE_REGS_ABI_64 || (arch->perf_mask & mask) != arch->perf_mask)
        return;
    size_t from = 0, to = 0;
    for (unsigned bit = 0; bit < 64; bit++) {
        if (arch->perf_mask >> bit & 1)
            memcpy(&sample->registers[to++], values + 8 * from, sizeof *sample->registers);
        from += mask >> bit & 1;
    }
    sample->sample.registers = sample->registers;
}

/* The fields in front of the chain. */
static void take_head(struct perf_reader *reader, const struct perf_event_attr *attr,
                      struct import_perf_sample *into)
{
    uint64_t fields = attr->sample_type;
    struct perf_sample *sample = &into->sample;
    if (fields & PERF_SAMPLE_IDENTIFIER)
        sample->id = perf_reader_u64(reader);
    if (fields & PERF_SAMPLE_IP)
        sample->ip = perf_reader_u64(reader);
    if (fields & PERF_SAMPLE_TID) {
        sample->pid = perf_reader_u32(reader);
        sample->tid = perf_reader_u32(reader);
    }
    if (fields & PERF_SAMPLE_TIME)
        sample->time = perf_reader_u64(reader);
    perf_reader_take(reader, 8 * (uint64_t)__builtin_popcountll(
                                     fields & (PERF_SAMPLE_ADDR | PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID)));
    if (fields & PERF_SAMPLE_CPU) {
        sample->cpu = perf_reader_u32(reader);
        perf_reader_u32(reader);
    }
    into->period = fields & PERF_SAMPLE_PERIOD ? perf_reader_u64(reader)
                   : attr->freq                ? 0
                                               : attr->sample_period;
    if (fields & PERF_SAMPLE_READ)
        skip_read(reader, attr->read_format);
}

static void take_stacks(struct perf_reader *reader, const struct perf_event_attr *attr,
                        struct import_perf_sample *into)
{
    uint64_t fields = attr->sample_type;
    if (fields & PERF_SAMPLE_CALLCHAIN)
        take_chain(reader, &into->sample);
    if (fields & PERF_SAMPLE_RAW)
        perf_reader_take(reader, perf_reader_u32(reader));
    if (fields & PERF_SAMPLE_BRANCH_STACK)
        skip_branches(reader, attr->branch_sample_type);
    if (fields & PERF_SAMPLE_REGS_USER)
        take_registers(reader, attr->sample_regs_user, into);
    if (fields & PERF_SAMPLE_STACK_USER)
        perf_reader_stack(reader, &into->sample);
}

bool import_perf_read_sample(struct import_perf *perf, const struct perf_event_header *header,
                             struct import_perf_sample *sample)
{
    struct perf_reader reader = perf_reader_of(header, 0);
    sample->sample = (struct perf_sample){.cpu = UINT32_MAX};
    sample->event = event_of(perf, header);
    if (!sample->event)
        return false;
    unsigned mode = header->misc & PERF_RECORD_MISC_CPUMODE_MASK;
    sample->sample.in_kernel = mode == PERF_RECORD_MISC_KERNEL;
    take_head(&reader, &sample->event->attr, sample);
    take_stacks(&reader, &sample->event->attr, sample);
    return reader.left >= 0;
}

/* --- what happens to processes --- */

enum { MISC_MMAP_DATA = 1 << 13, IDENTITY = 24 };

bool import_perf_read_mmap(const struct import_perf *perf, const struct perf_event_header *header,
                           struct perf_mmap *mapping)
{
    struct perf_reader reader = perf_reader_of(header, tail_size(perf));
    *mapping = (struct perf_mmap){0};
    mapping->pid = perf_reader_u32(&reader);
    mapping->tid = perf_reader_u32(&reader);
    mapping->start = perf_reader_u64(&reader);
    mapping->length = perf_reader_u64(&reader);
    mapping->offset = perf_reader_u64(&reader);
    mapping->protection = header->misc & MISC_MMAP_DATA ? PROT_READ : PROT_READ | PROT_EXEC;
    if (header->type == PERF_RECORD_MMAP) {
        mapping->path = perf_reader_text(&reader);
        return mapping->path;
    }
    const uint8_t *identity = perf_reader_take(&reader, IDENTITY);
    mapping->protection = perf_reader_u32(&reader);
    perf_reader_u32(&reader);
    mapping->path = perf_reader_text(&reader);
    if (!identity || !mapping->path)
        return false;
    if (header->misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
        mapping->build_id_size = identity[0] <= 20 ? identity[0] : 20;
        mapping->build_id = identity + 4;
    }
    return true;
}

bool import_perf_read_comm(const struct import_perf *perf, const struct perf_event_header *header,
                           struct perf_comm *comm)
{
    struct perf_reader reader = perf_reader_of(header, tail_size(perf));
    comm->pid = perf_reader_u32(&reader);
    comm->tid = perf_reader_u32(&reader);
    comm->exec = header->misc & PERF_RECORD_MISC_COMM_EXEC;
    comm->name = perf_reader_text(&reader);
    return comm->name;
}
