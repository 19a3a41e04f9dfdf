/* sample_process.h - the processes of a session as the event stream reports them: their threads, what they
 * have mapped.
 *
 * A process is known from a fork, an exec, or - when it ran before the session - from /proc at its first
 * event. Mappings are kept sorted and without overlap; a newer one cuts what it covers. The kernel does not
 * report munmap, so a mapping stays until another takes its place: a stale one can only matter for addresses
 * that nothing uses. Context: tool, one thread. */
#ifndef SAMPLE_PROCESS_H
#define SAMPLE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_map.h"
#include "perf_record.h"
#include "profile.h"
#include "sample_image.h"
#include "symbol.h"

#define SAMPLE_NO_IMAGE UINT32_MAX

struct sample_mapping {
    uint64_t start, end, offset;
    uint32_t image;                    /* index in sample_images; SAMPLE_NO_IMAGE: generated code */
    bool ready;                        /* bias is known and the image was opened */
    uint64_t bias;                     /* run-time address - image address */
    uint64_t origin_start, origin_end; /* as it was mapped, before others cut into it: /proc's name of it */
};

struct sample_process {
    pid_t pid;
    uint32_t profile_process;
    struct sample_mapping *mappings;
    size_t mapping_count, mapping_capacity;
    uint32_t generation;    /* of its mappings, unique in the session */
    struct symbol_jit *jit; /* NULL until generated code was seen */
    uint32_t jit_image;     /* profile image of its generated code; 0: none yet */
    uint32_t jit_images;    /* how many such images: a reused address with another function needs another */
    int jit_dump_fd;        /* -1: no jitdump file mapped */
    bool alive;
    uint64_t samples, short_copies; /* in the current second */
    uint64_t reread_ns;             /* when waits had its mappings read again */
    bool reread_in_vain;            /* a stack led to where nothing was mapped then, too */
};

struct sample_processes {
    struct sample_process *items;
    size_t count, capacity;
    struct base_map by_pid;    /* pid -> index of the living one */
    struct base_map thread_of; /* tid -> profile thread */
    struct sample_images *images;
    struct profile *profile;
    uint32_t generations;
    uint64_t start_ns; /* CLOCK_MONOTONIC at the start of the session */
    bool replayed;     /* they are of another time: /proc knows nothing of them */
};

void sample_processes_init(struct sample_processes *processes, struct sample_images *images,
                           uint64_t start_ns);
void sample_processes_free(struct sample_processes *processes);

/* The living process `pid`; read from /proc when it was not discovered yet. NULL: out of memory. */
struct sample_process *sample_processes_get(struct sample_processes *processes, pid_t pid, uint64_t time);

/* For what is reported after a process's end: the one that had the number `pid` last, forgotten or not;
 * else as sample_processes_get. */
struct sample_process *sample_processes_latest(struct sample_processes *processes, pid_t pid, uint64_t time);

/* A process about to run its first program: nothing is read from /proc. */
struct sample_process *sample_processes_expect(struct sample_processes *processes, pid_t pid, uint64_t time);

/* Whether `pid` is a process of the session that has not ended, as far as the events say. */
bool sample_processes_knows(const struct sample_processes *processes, pid_t pid);

/* The process is gone, or its number belongs to another process now: nothing more is read of it, and its
 * mappings are given up. */
void sample_processes_forget(struct sample_processes *processes, pid_t pid);

/* The profile's number of a thread. */
uint32_t sample_processes_thread(struct sample_processes *processes, struct sample_process *process,
                                 pid_t tid);

/* What the events say. */
void sample_processes_on_mmap(struct sample_processes *processes, const struct perf_mmap *event,
                              uint64_t time);
void sample_processes_on_comm(struct sample_processes *processes, const struct perf_comm *event,
                              uint64_t time);
void sample_processes_on_fork(struct sample_processes *processes, const struct perf_task *event);
void sample_processes_on_exit(struct sample_processes *processes, const struct perf_task *event);

/* Reads the mappings of all living processes again: events were lost. */
void sample_processes_reread(struct sample_processes *processes);
/* The same of one. */
void sample_processes_reread_one(struct sample_processes *processes, struct sample_process *process);

/* The mapping at an address; NULL: none. The image behind it is opened at the first call (`ready`). */
struct sample_mapping *sample_processes_mapping(struct sample_processes *processes,
                                                struct sample_process *process, uint64_t address);

/* Names the addresses of generated code that are still without a function, from perf maps and jitdump files.
 * At the end of a session; what has no name then is counted. */
void sample_processes_name_generated(struct sample_processes *processes);

/* Pids of the living processes, malloc'd. */
size_t sample_processes_living(const struct sample_processes *processes, pid_t **pids);

#endif
