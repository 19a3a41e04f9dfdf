/* perf_filter.h - events of whole CPUs that fire for some processes only.
 *
 * An inherited event begins its period anew in every new thread and process, so one that runs shorter than a
 * period is never sampled, and every other one loses half a period. An event bound to a CPU has one phase
 * for all that runs there; two small BPF programs make it fire for the processes in a table only, before
 * anything of another process is copied. One runs at each overflow and looks its process up; the other runs
 * at each fork and adds the child of a process in the table to it, so that children are sampled from their
 * first instruction.
 *
 * Needs CAP_BPF and CAP_PERFMON (or root), a kernel with BTF, and the first pid namespace (BPF counts pids
 * there). Context: tool. Source: bpf(2); kernel Documentation/bpf/prog_types.rst; linux/sched.h by BTF. */
#ifndef PERF_FILTER_H
#define PERF_FILTER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base_error.h"

struct perf_filter {
    int table;              /* BPF map: process -> 1 */
    int at_overflow;        /* program: is the current process in the table? */
    int at_fork, fork_link; /* program that adds children, and its hook; -1 without */
};

/* An empty table, with its programs; children are added if `follow`. On failure nothing is left open, and
 * the message says what is missing. */
int perf_filter_open(struct perf_filter *filter, bool follow, struct base_error *error);
void perf_filter_close(struct perf_filter *filter);

/* Adds or removes a process. False: the table is full. */
bool perf_filter_add(struct perf_filter *filter, pid_t pid);
void perf_filter_remove(struct perf_filter *filter, pid_t pid);

/* From now on this event fires for the table's processes only. */
int perf_filter_apply(const struct perf_filter *filter, int event, struct base_error *error);

#endif
