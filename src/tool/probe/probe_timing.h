/* probe_timing.h - functions that are timed in a target (agent_call_function.c): which were found, what
 * their clock's ticks are, and the real return addresses behind those that were replaced.
 *
 * May functions be timed in a process at all? Whatever unwinds there must be hooked: else they are counted
 * only, and it is said. The table of return addresses is the target's to write: a false entry makes a frame
 * of a sample wrong. Context: tool, one thread. */
#ifndef PROBE_TIMING_H
#define PROBE_TIMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"
#include "loader.h"
#include "shared_file.h"

/* Of both clocks at one moment. */
struct probe_timing_moment {
    uint64_t ticks, ns;
};

struct probe_timing {
    struct probe_timing_moment start;
    struct probe_timing_table *tables;
    size_t count, capacity;
};

/* BASE_EUNSUPPORTED: the processor's clock cannot be used, if `clock` is wanted. */
int probe_timing_begin(struct probe_timing *timing, bool clock, struct base_error *error);
void probe_timing_end(struct probe_timing *timing);

/* Nanoseconds of a tick, from all the time that has passed. */
double probe_timing_ns(const struct probe_timing *timing);

/* The same as ns of 2^32 ticks, for the agent, which puts times into buckets: waits until some ms have passed
 * since the beginning. */
uint64_t probe_timing_fixed(const struct probe_timing *timing);

/* May a process's functions be timed, as far as the process is concerned? BASE_EUNSUPPORTED: shadow
 * stacks. */
int probe_timing_allows(pid_t pid, struct base_error *error);

/* Region `region` of the file is process `pid`'s from now on. BASE_ENOMEM. */
int probe_timing_add(struct probe_timing *timing, pid_t pid, const struct shared_file *file, uint32_t region,
                     struct base_error *error);
/* The file goes: what samples may still ask for is kept. */
void probe_timing_keep(struct probe_timing *timing, const struct shared_file *file);

/* What `pc` stands for in process `pid`, or `pc`. */
uint64_t probe_timing_real(const struct probe_timing *timing, pid_t pid, uint64_t pc);

#endif
