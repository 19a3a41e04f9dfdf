/* perf_event.h - opening perf events: what to ask for, what to do without, and what to report to the user.
 *
 * One `struct perf_event_form` describes the events of a session; it is probed once, so that everything this
 * kernel or this user may not have is known (and said) before anything is opened on a target. Context: tool.
 * Source: perf_event_open(2); Documentation/admin-guide/perf-security.rst. */
#ifndef PERF_EVENT_H
#define PERF_EVENT_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"

enum perf_stacks { PERF_STACKS_FULL, PERF_STACKS_ADDRESS, PERF_STACKS_NONE };

struct perf_event_form {
    /* asked for */
    bool want_kernel_time;   /* --time=cpu: count time in the kernel as well */
    bool want_kernel_frames; /* --kernel */
    bool inherit;            /* children and threads */
    bool inherit_threads_only;
    enum perf_stacks stacks;
    uint32_t stack_copy; /* bytes, a multiple of 8 */
    /* found by perf_event_probe */
    bool kernel_time, kernel_frames;
    uint64_t fields; /* sample_type */
    unsigned register_count;
    char why_no_kernel_time[128];
};

/* Finds out what this kernel gives this user for this form. Fails when perf_event is refused altogether: the
 * message names the setting and the remedy. */
int perf_event_probe(struct perf_event_form *form, struct base_error *error);

struct perf_event_target {
    pid_t pid;       /* a thread; -1: everything on the CPU */
    int cpu;         /* -1: any (then without inheritance, and with a ring of its own) */
    int cgroup;      /* descriptor, or -1 */
    uint64_t period; /* ns between samples */
    bool side_band;  /* also mappings, names, creation and end of processes: one event of each set */
    bool at_exec;    /* starts by itself when the target calls exec; else it starts disabled */
};

/* Opens one event, disabled. Returns a descriptor or a negative code. */
int perf_event_start(const struct perf_event_form *form, const struct perf_event_target *target,
                     struct base_error *error);

/* Reads a number from a file under /proc or /sys; `otherwise` when that fails. */
int64_t perf_event_setting(const char *path, int64_t otherwise);

#endif
