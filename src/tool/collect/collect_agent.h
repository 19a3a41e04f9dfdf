/* collect_agent.h - the collector that works inside the target: the agent is put in, kept informed, read, and
 * taken out.
 *
 *   collect_agent_new      before the session holds anything (a helper process is forked)
 *   collect_agent_launch   a child that waits before its exec: its program has the agent from the first
 *                          instruction
 *   collect_agent_attach   a process that runs
 *   collect_agent_step     answers requests: objects that were loaded, execs, forks. Never waits for the
 *                          target
 *   collect_agent_tell     running totals into the profile
 *   collect_agent_leave    living processes are left as they were found, and everything is told
 *
 * Processes are traced only while something is put into them: at an exec, that a hook of the agent's has
 * announced, and when hooks are set where code may run. A *family* is a program with the children that were
 * forked from it: they share one file of tables (wire_agent_control.h), in which each has a region. An exec begins a
 * new family.
 *
 * A process into which the agent cannot be put goes on uncounted: a counted loss, and a notice that says why.
 * Context: tool, one thread. */
#ifndef COLLECT_AGENT_H
#define COLLECT_AGENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"
#include "collect_agent_counts.h"
#include "collect_agent_file.h"
#include "collect_agent_named.h"
#include "collect_process.h"
#include "patch_function.h"
#include "patch_helper.h"
#include "profile_heap.h"

struct collect_agent;

struct collect_agent_options {
    uint32_t collectors;   /* bits of 1 << enum wire_agent_collector */
    uint64_t memory;       /* of a process, bytes; 0: the default */
    uint64_t sample_bytes; /* 0: every block */
    enum profile_heap_overhead overhead;
    const struct collect_agent_named
        *named; /* more functions that allocate or release; outlives the collector. NULL: none */
    const struct patch_function_wish *functions; /* to be timed; they outlive the collector */
    size_t function_count;
    const char *const *images; /* globs: what those after '!' match is left as it is (patch_select.h) */
    size_t image_count;
    enum profile_heap_empty
        empty;   /* pages of blocks that are counted too; with WIRE_AGENT_HEAP, every block, as requested */
    bool follow; /* children by fork */
    enum collect_agent_count time;      /* of samples: which counter */
    struct collect_agent_timers timers; /* of WIRE_AGENT_TIME (collect_agent_timer.h); not with a host */
    struct patch_helper
        *host; /* NULL, or the helper of who follows the processes and tells of execs and loaded objects */
    bool
        untold; /* nothing else tells the processes' table of forks, execs and ends: they are told from here */
};
#define COLLECT_AGENT_MEMORY (UINT64_C(256) << 20)

int collect_agent_new(const struct collect_agent_options *options, struct collect_processes *processes,
                      struct collect_agent **made, struct base_error *error);
/* For prctl(PR_SET_PTRACER). Without a host, as launch is. */
pid_t collect_agent_helper(const struct collect_agent *agent);
int collect_agent_launch(struct collect_agent *agent, pid_t pid, struct base_error *error);
int collect_agent_attach(struct collect_agent *agent, pid_t pid, struct base_error *error);

/* Of the host: `pid` is held in a new image, in which nothing else was changed yet; `pid` has mapped objects,
 * and who did waits. */
void collect_agent_exec(struct collect_agent *agent, pid_t pid);
void collect_agent_objects(struct collect_agent *agent, pid_t pid);
/* Of the host: what `pid` maps is not told (any more). */
void collect_agent_unhosted(struct collect_agent *agent, pid_t pid);

/* Readable when there is something to do; two of them, -1: none. */
void collect_agent_files(const struct collect_agent *agent, int files[2]);

/* The recording begins now: processes->start_ns is another one. */
void collect_agent_restart(struct collect_agent *agent);
int collect_agent_step(struct collect_agent *agent, struct base_error *error);
/* Around a stop of tally: nobody waits for it. A process that asked meanwhile never asks again. */
void collect_agent_suspend(struct collect_agent *agent);
void collect_agent_resume(struct collect_agent *agent);
void collect_agent_tell(struct collect_agent *agent);
int collect_agent_leave(struct collect_agent *agent, struct base_error *error);
void collect_agent_free(struct collect_agent *agent);

/* The return address that `pc`, a word on a stack of process `pid` or where a thread stands, stands for; or
 * `pc`. */
uint64_t collect_agent_real(const struct collect_agent *agent, pid_t pid, uint64_t pc);
/* Samples of time, so far. */
struct collect_agent_timed {
    uint64_t samples, ns;
    uint64_t
        spent_ns; /* CPU time of the processes since they had timers; of those that ended as far as it was seen */
};
struct collect_agent_timed collect_agent_timed(const struct collect_agent *agent);

/* One line worth telling, or "". */
const char *collect_agent_notice(const struct collect_agent *agent);

/* After collect_agent_leave: where something stayed; the collector's. */
struct collect_left *collect_agent_left(struct collect_agent *agent);

#endif
