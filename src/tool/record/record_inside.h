/* record_inside.h - a session, for the files of this module: record_setup.c makes one ready,
 * record_start.c starts it, record_session.c steps it, record_adapt.c changes how it samples meanwhile,
 * record_finish.c ends it. Context: tool, one thread. */
#ifndef RECORD_INSIDE_H
#define RECORD_INSIDE_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/time.h>
#include <sys/types.h>

#include "base_error.h"
#include "base_map.h"
#include "calls.h"
#include "perf_filter.h"
#include "perf_ring.h"
#include "perf_time.h"
#include "probe.h"
#include "probe_timer.h"
#include "proc_ended.h"
#include "record_session.h"
#include "sample_stream.h"
#include "store.h"
#include "waits.h"

#define RECORD_SECOND 1000000000u /* ns */

enum {
    RECORD_HORIZON_NS = 5000000,      /* no interrupt takes longer from its time stamp to its record */
    RECORD_HORIZON_FULL_NS = 1000000, /* nor often longer than this: good enough when a ring runs full */
};

/* Indices in `polled`. */
enum {
    RECORD_POLL_WAKE = 0,
    RECORD_POLL_CALLS = 1, /* two; -1 each when calls are not counted */
    RECORD_POLL_AGENT = 3, /* likewise */
    RECORD_POLL_PROCESSES = 5,
};

struct record_session {
    struct record_options options;
    struct record_status status;
    struct profile *profile;
    struct store *store;
    struct sample_stream stream;
    struct perf_rings rings;
    struct perf_time time;
    struct calls *calls;               /* NULL: they are not counted */
    struct probe *probe;               /* NULL: nothing is counted inside */
    struct waits *waits;               /* NULL: time on CPUs is all there is */
    struct shared_timers timers;       /* signal 0: the agent samples no time */
    bool perf_refused;                 /* that is why */
    bool calls_noticed, agent_noticed; /* their notices were passed on */
    bool has_left;
    struct base_map image_of_profile; /* profile image -> index in images */
    struct pollfd *polled;            /* the caller's wake_fd, the calls', pidfds, then the rings' events */
    size_t polled_count, polled_capacity, first_ring_poll, rings_polled;
    struct proc_ended *targets; /* as many as there are polled before first_ring_poll, in that order */
    size_t target_count, target_capacity, living_targets;
    int *owned; /* locks, of processes that are changed (proc_owner.h) */
    size_t owned_count, owned_capacity;
    uint64_t start_ns, last_flush, last_second;
    uint64_t late_reads;              /* counted when the last step began */
    uint64_t late_until;              /* till when steps are short */
    uint64_t full_copies, full_until; /* likewise, of stacks as large as their copy */
    uint64_t redraw_at;               /* when the periods are drawn anew; 0: done */
    uint64_t last_creations;          /* counted when the current second began */
    struct perf_filter filter;
    enum { RECORD_BY_THREAD, RECORD_BY_CPU, RECORD_BY_THREAD_FOR_GOOD } sampled;
    int cgroup;
    int nice; /* Tally's own, as it was */
};

/* --- record_setup.c --- */

/* Of a getrusage(). */
uint64_t record_ns_of(const struct timeval *time);
uint64_t record_cpu_ns(int who);
/* What the events turned out to be, once they are open. */
void record_describe_events(struct record_session *session);
/* Checks the options, and makes all collectors that they name; nothing is opened yet that a process would
 * notice. */
int record_setup(struct record_session *session, struct base_error *error);
/* What a return address that the agent has replaced was: `agent` is a struct probe. */
uint64_t record_original_return(void *agent, pid_t pid, uint64_t address);

/* --- record_adapt.c --- */

/* Works on all records up to the horizon, CLOCK_MONOTONIC ns. */
void record_work_until(struct record_session *session, uint64_t horizon);
/* Where many threads and processes are created: an inherited event sees little of short lifetimes
 * (perf_time.h). */
void record_adapt_to_creation(struct record_session *session);
/* Larger copies, where a process has too many stacks in this second that are larger than their copies. */
void record_adapt_copies(struct record_session *session, uint64_t now);

/* --- record_polls.c --- */

bool record_add_poll(struct record_session *session, int fd);
/* Notices when the process ends. */
void record_poll_process(struct record_session *session, pid_t pid);
/* One descriptor a ring is enough: the kernel wakes all that share it. Rings may come while recording. */
void record_poll_rings(struct record_session *session);
/* After a poll: processes that have ended, and events whose threads have. */
void record_look_at_polls(struct record_session *session);

/* --- record_session.c --- */

/* A collector's notice becomes the session's, once. */
void record_pass_notice(struct record_session *session, const char *notice, bool *passed);

#endif
