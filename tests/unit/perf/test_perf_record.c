/* Records byte by byte, as the kernel lays them out (linux/perf_event.h), and what must be refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "perf_record.h"

struct writer {
    uint64_t words[256];
    size_t bytes;
};

static void put_u64(struct writer *writer, uint64_t value)
{
    memcpy((uint8_t *)writer->words + writer->bytes, &value, sizeof value);
    writer->bytes += sizeof value;
}

static void put_u32(struct writer *writer, uint32_t low, uint32_t high)
{
    put_u64(writer, (uint64_t)high << 32 | low);
}

static struct writer begin(uint32_t type, uint16_t misc)
{
    struct writer writer = {.bytes = sizeof(struct perf_event_header)};
    struct perf_event_header *header = (void *)writer.words;
    header->type = type;
    header->misc = misc;
    return writer;
}

static const struct perf_event_header *finish(struct writer *writer)
{
    struct perf_event_header *header = (void *)writer->words;
    header->size = (uint16_t)writer->bytes;
    return header;
}

static void put_sample_id(struct writer *writer, uint64_t time)
{
    put_u32(writer, 11, 12); /* pid, tid */
    put_u64(writer, time);
    put_u32(writer, 3, 0); /* cpu */
    put_u64(writer, 99);   /* identifier */
}

static const uint64_t FULL =
    PERF_SAMPLE_FIELDS | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;

static struct writer full_sample(uint64_t abi, uint64_t stack_asked, uint64_t stack_got)
{
    struct writer writer = begin(PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL);
    put_u64(&writer, 77);        /* identifier */
    put_u64(&writer, 0x401000);  /* ip */
    put_u32(&writer, 100, 101);  /* pid, tid */
    put_u64(&writer, 123456789); /* time */
    put_u32(&writer, 5, 0);      /* cpu */
    put_u64(&writer, 2);         /* chain */
    put_u64(&writer, (uint64_t)PERF_CONTEXT_KERNEL);
    put_u64(&writer, 0xffffffff81000000u);
    put_u64(&writer, abi);
    for (uint64_t i = 0; abi && i < 3; i++)
        put_u64(&writer, 0x1000 + i);
    put_u64(&writer, stack_asked);
    for (uint64_t i = 0; i < stack_asked; i += 8)
        put_u64(&writer, i);
    if (stack_asked)
        put_u64(&writer, stack_got);
    return writer;
}

static void sample_is_read_field_by_field(void **state)
{
    (void)state;
    struct writer writer = full_sample(PERF_SAMPLE_REGS_ABI_64, 64, 40);
    struct perf_sample sample;
    assert_true(perf_record_sample(finish(&writer), FULL, 3, &sample));
    assert_int_equal(sample.id, 77);
    assert_int_equal(sample.ip, 0x401000);
    assert_int_equal(sample.pid, 100);
    assert_int_equal(sample.tid, 101);
    assert_int_equal(sample.time, 123456789);
    assert_int_equal(sample.cpu, 5);
    assert_true(sample.in_kernel);
    assert_int_equal(sample.chain_count, 2);
    assert_int_equal(sample.chain[1], 0xffffffff81000000u);
    assert_int_equal(sample.registers[2], 0x1002);
    assert_int_equal(sample.stack_asked, 64);
    assert_int_equal(sample.stack_size, 40);
    assert_int_equal(sample.stack[8], 8);
}

static void sample_without_registers(void **state)
{
    (void)state;
    struct perf_sample sample;
    struct writer kernel_thread = full_sample(PERF_SAMPLE_REGS_ABI_NONE, 0, 0);
    assert_true(perf_record_sample(finish(&kernel_thread), FULL, 3, &sample));
    assert_null(sample.registers);
    assert_null(sample.stack);
    struct writer compat = full_sample(PERF_SAMPLE_REGS_ABI_32, 16, 16);
    assert_true(perf_record_sample(finish(&compat), FULL, 3, &sample));
    assert_null(sample.registers); /* 32-bit registers are not unwound */
    assert_int_equal(sample.stack_size, 16);
}

static void short_samples_are_refused(void **state)
{
    (void)state;
    struct writer writer = full_sample(PERF_SAMPLE_REGS_ABI_64, 64, 40);
    struct perf_event_header *header = (void *)writer.words;
    struct perf_sample sample;
    for (uint16_t size = sizeof *header; size < writer.bytes; size = (uint16_t)(size + 8)) {
        header->size = size;
        assert_false(perf_record_sample(header, FULL, 3, &sample));
    }
    struct writer lying = full_sample(PERF_SAMPLE_REGS_ABI_64, 64, 72); /* more copied than asked for */
    assert_false(perf_record_sample(finish(&lying), FULL, 3, &sample));
}

static void mapping_with_inode_and_with_build_id(void **state)
{
    (void)state;
    struct perf_mmap mapping;
    struct writer writer = begin(PERF_RECORD_MMAP2, 0);
    put_u32(&writer, 1, 2);
    put_u64(&writer, 0x7f0000000000);
    put_u64(&writer, 0x3000);
    put_u64(&writer, 0x1000);
    put_u32(&writer, 8, 1); /* major, minor */
    put_u64(&writer, 4711);
    put_u64(&writer, 0);
    put_u32(&writer, 5, 2); /* prot, flags */
    memcpy((uint8_t *)writer.words + writer.bytes, "/bin/x\0", 8);
    writer.bytes += 8;
    put_sample_id(&writer, 55);
    const struct perf_event_header *header = finish(&writer);
    assert_true(perf_record_mmap(header, &mapping));
    assert_int_equal(mapping.start, 0x7f0000000000);
    assert_int_equal(mapping.length, 0x3000);
    assert_int_equal(mapping.offset, 0x1000);
    assert_int_equal(mapping.major, 8);
    assert_int_equal(mapping.inode, 4711);
    assert_int_equal(mapping.protection, 5);
    assert_string_equal(mapping.path, "/bin/x");
    assert_null(mapping.build_id);
    uint64_t time;
    memcpy(&time, (const uint8_t *)header + perf_record_time_offset(header), 8);
    assert_int_equal(time, 55);

    struct perf_event_header changed = *header;
    changed.misc = PERF_RECORD_MISC_MMAP_BUILD_ID;
    memcpy(writer.words, &changed, sizeof changed);
    uint8_t identity[24] = {20, 0, 0, 0, 0xab, 0xcd};
    memcpy((uint8_t *)writer.words + 8 + 32, identity, sizeof identity);
    assert_true(perf_record_mmap(header, &mapping));
    assert_int_equal(mapping.build_id_size, 20);
    assert_int_equal(mapping.build_id[1], 0xcd);
    assert_int_equal(mapping.inode, 0);
}

static void names_creation_and_losses(void **state)
{
    (void)state;
    struct writer writer = begin(PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC);
    put_u32(&writer, 9, 10);
    memcpy((uint8_t *)writer.words + writer.bytes, "cc1\0\0\0\0", 8);
    writer.bytes += 8;
    put_sample_id(&writer, 1);
    struct perf_comm comm;
    assert_true(perf_record_comm(finish(&writer), &comm));
    assert_int_equal(comm.tid, 10);
    assert_true(comm.exec);
    assert_string_equal(comm.name, "cc1");

    writer = begin(PERF_RECORD_FORK, 0);
    put_u32(&writer, 20, 9);
    put_u32(&writer, 21, 10);
    put_u64(&writer, 777);
    put_sample_id(&writer, 777);
    struct perf_task task;
    assert_true(perf_record_task(finish(&writer), &task));
    assert_int_equal(task.pid, 20);
    assert_int_equal(task.parent_pid, 9);
    assert_int_equal(task.tid, 21);
    assert_int_equal(task.parent_tid, 10);
    assert_int_equal(task.time, 777);

    writer = begin(PERF_RECORD_LOST, 0);
    put_u64(&writer, 99);
    put_u64(&writer, 12);
    put_sample_id(&writer, 1);
    assert_int_equal(perf_record_lost(finish(&writer)), 12);
    writer = begin(PERF_RECORD_LOST_SAMPLES, 0);
    put_u64(&writer, 13);
    put_sample_id(&writer, 1);
    assert_int_equal(perf_record_lost(finish(&writer)), 13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sample_is_read_field_by_field),
        cmocka_unit_test(sample_without_registers),
        cmocka_unit_test(short_samples_are_refused),
        cmocka_unit_test(mapping_with_inode_and_with_build_id),
        cmocka_unit_test(names_creation_and_losses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
