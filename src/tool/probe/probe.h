/* probe.h - the collector that works inside the target: the agent is put in, kept informed, read, and taken
 * out.
 *
 *   probe_new       before the session holds anything (a helper process is forked)
 *   probe_launch    a child that waits before its exec: its program has the agent from the first instruction
 *   probe_attach    a process that runs
 *   probe_step      answers requests: objects that were loaded, execs, forks. Never waits for the target
 *   probe_publish   running totals into the profile
 *   probe_leave     running processes are left as they were found, and everything is published
 *
 * Processes are traced only while something is put into them: at an exec, that a hook of the agent's has
 * announced, and when hooks are set where code may run. A *group* is a program with the children that were
 * forked from it: they share one file of tables (wire_agent_layout.h), in which each has a region. An exec
 * begins a new group.
 *
 * A process into which the agent cannot be put goes on uncounted: a counted loss, and a notice that says
 * why. Context: tool, one thread. */
#ifndef PROBE_H
#define PROBE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"
#include "helper.h"
#include "plan_function.h"
#include "probe_named.h"
#include "profile_heap.h"
#include "sample_process.h"
#include "shared_counts.h"
#include "shared_file.h"

struct probe;

struct probe_options {
    uint32_t collectors;   /* bits of 1 << enum wire_agent_collector */
    uint64_t memory;       /* of a process, bytes; 0: the default */
    uint64_t sample_bytes; /* 0: every block */
    enum profile_heap_overhead overhead;
    /* more functions that allocate or release; outlives the collector. NULL: none */
    const struct probe_named *named;
    const struct plan_function_request *functions; /* to be timed; they outlive the collector */
    size_t function_count;
    const char *const *images; /* globs: what those after '!' match is left as it is (plan_select.h) */
    size_t image_count;
    /* pages of blocks that are counted too; with WIRE_AGENT_HEAP, every block, as requested */
    enum profile_heap_empty empty;
    bool follow;                 /* children by fork */
    enum shared_count time;      /* of samples: which counter */
    struct shared_timers timers; /* of WIRE_AGENT_TIME (probe_timer.h); not with an owner */
    /* NULL, or the helper of the owner, which follows the processes and reports execs and loaded objects */
    struct helper *owner;
    /* nothing else reports forks, execs and ends to the processes' table: they are reported from here */
    bool unpublished;
};
#define PROBE_MEMORY (UINT64_C(256) << 20)

int probe_new(const struct probe_options *options, struct sample_processes *processes, struct probe **made,
              struct base_error *error);
/* For prctl(PR_SET_PTRACER). Without an owner, as launch is. */
pid_t probe_helper(const struct probe *probe);
int probe_launch(struct probe *probe, pid_t pid, struct base_error *error);
int probe_attach(struct probe *probe, pid_t pid, struct base_error *error);

/* For the owner: `pid` is held in a new image, in which nothing else was changed yet; `pid` has mapped
 * objects, and the thread that did so waits. */
void probe_exec(struct probe *probe, pid_t pid);
void probe_objects(struct probe *probe, pid_t pid);
/* For the owner: it no longer reports what `pid` maps. */
void probe_left_by_owner(struct probe *probe, pid_t pid);

/* Readable when there is something to do; two of them, -1: none. */
void probe_files(const struct probe *probe, int files[2]);

/* The recording begins now: processes->start_ns is another one. */
void probe_restart(struct probe *probe);
int probe_step(struct probe *probe, struct base_error *error);
/* Around a stop of tally: no process waits for it. A process that asked meanwhile never asks again. */
void probe_suspend(struct probe *probe);
void probe_resume(struct probe *probe);
void probe_publish(struct probe *probe);
int probe_leave(struct probe *probe, struct base_error *error);
void probe_free(struct probe *probe);

/* The return address that `pc`, a word on a stack of process `pid` or where a thread stands, stands for; or
 * `pc`. */
uint64_t probe_real(const struct probe *probe, pid_t pid, uint64_t pc);
/* Samples of time, so far. */
struct probe_timed {
    uint64_t samples, ns;
    /* CPU time of the processes since they had timers; of those that ended as far as it was seen */
    uint64_t spent_ns;
};
struct probe_timed probe_timed(const struct probe *probe);

/* One line to show, or "". */
const char *probe_notice(const struct probe *probe);

/* After probe_leave: where something stayed; the collector's. */
struct remains_left *probe_left(struct probe *probe);

#endif
