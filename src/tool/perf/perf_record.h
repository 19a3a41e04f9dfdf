/* perf_record.h - what a perf record says.
 *
 * All events of a session share one set of sample fields, so that every record can be read without asking
 * which event it is from. Lengths come from the kernel but are checked all the same (replayed files use this
 * too). Context: tool. Source: perf_event_open(2); linux/perf_event.h. */
#ifndef PERF_RECORD_H
#define PERF_RECORD_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fields of every sample; REGS_USER, STACK_USER and CALLCHAIN come in addition, as the session wants. */
#define PERF_SAMPLE_FIELDS                                                                                   \
    (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU)

struct perf_sample {
    uint64_t id, ip, time;
    uint32_t pid, tid, cpu;
    bool in_kernel;        /* the instruction interrupted was the kernel's */
    const uint64_t *chain; /* with CALLCHAIN: kernel addresses and context markers */
    size_t chain_count;
    const uint64_t *user_chain; /* replayed: what the kernel found by frame pointers, innermost first */
    size_t user_count;
    const uint64_t *registers; /* NULL: none (kernel thread, 32-bit code) */
    uint64_t unknown;          /* bits of those that are not known, by their DWARF numbers */
    const uint8_t *stack;
    uint64_t stack_size;  /* bytes really copied */
    uint64_t stack_asked; /* bytes the copy could hold */
};

/* False when the record is not as long as it says. */
bool perf_record_sample(const struct perf_event_header *header, uint64_t fields, unsigned register_count,
                        struct perf_sample *sample);

struct perf_mmap {
    uint32_t pid, tid;
    uint64_t start, length, offset;
    uint32_t major, minor;
    uint64_t inode;
    const uint8_t *build_id; /* NULL, or build_id_size bytes; then major, minor and inode are unknown */
    uint8_t build_id_size;
    uint32_t protection;
    const char *path; /* terminated */
};
bool perf_record_mmap(const struct perf_event_header *header, struct perf_mmap *mapping);

struct perf_comm {
    uint32_t pid, tid;
    bool exec;
    const char *name;
};
bool perf_record_comm(const struct perf_event_header *header, struct perf_comm *comm);

struct perf_task { /* PERF_RECORD_FORK and PERF_RECORD_EXIT */
    uint32_t pid, parent_pid, tid, parent_tid;
    uint64_t time;
};
bool perf_record_task(const struct perf_event_header *header, struct perf_task *task);

/* PERF_RECORD_LOST and PERF_RECORD_LOST_SAMPLES: how many. */
uint64_t perf_record_lost(const struct perf_event_header *header);

/* Where in a record its time stamp is, bytes from its start. */
size_t perf_record_time_offset(const struct perf_event_header *header);

#endif
