/* record_session.h - one recording, from its options to its profile file.
 *
 *     record_session_new -> _start -> _step ... -> _finish -> _free
 *
 * start opens everything (and releases a launched program); a step waits for events at most `timeout` and
 * works on them; finish stops the events, drains the rings, names the functions, and closes the file.
 * Nothing is printed: what is worth saying is in record_status and in the profile's meta. Context: tool, one
 * thread. */
#ifndef RECORD_SESSION_H
#define RECORD_SESSION_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"
#include "perf_event.h"
#include "profile.h"
#include "profile_heap.h"
#include "space_image.h"

enum record_mode { RECORD_LAUNCH, RECORD_ATTACH, RECORD_SYSTEM, RECORD_CGROUP };

enum record_engine {
    RECORD_ENGINE_AUTO, /* perf_event, or where it is refused the agent's timers if they do */
    RECORD_ENGINE_PERF,
    RECORD_ENGINE_AGENT /* of RECORD_LAUNCH and RECORD_ATTACH; no kernel frames, CPUs, timeline, or calls */
};

struct record_options {
    enum record_mode mode;
    enum record_engine engine; /* what samples time */
    char *const *command;      /* of RECORD_LAUNCH */
    const pid_t *pids;         /* of RECORD_ATTACH */
    size_t pid_count;
    const char *cgroup; /* a path, absolute or below the cgroup2 mount */
    const char *output;
    const char *command_line; /* as typed, for the header */
    double rate_hz;
    bool no_time;                 /* no samples: there are other collectors */
    bool calls;                   /* count calls; of RECORD_LAUNCH and RECORD_ATTACH */
    struct space_request request; /* which */
    bool heap;                    /* count memory; of the same two */
    bool throws;                  /* count exceptions; likewise */
    bool fds;                     /* count descriptors; likewise */
    bool instrumented;            /* count and time functions that report their own calls; likewise */
    uint64_t heap_sample_bytes;   /* 0: every block */
    enum profile_heap_overhead heap_overhead;
    const struct probe_named *named;               /* more functions that allocate; NULL: none */
    const struct plan_function_request *functions; /* to be counted and timed; of the same two */
    size_t function_count;
    enum profile_heap_empty empty;
    uint64_t agent_memory; /* of a process, bytes; 0: the default */
    bool user_only;        /* --time=user */
    /* --time=real: waiting threads are looked at, too; of RECORD_LAUNCH and RECORD_ATTACH */
    bool waits;
    bool kernel_frames;
    bool follow;             /* children by fork */
    uint64_t timeline_bytes; /* most that the timeline takes of the file; 0: no timeline */
    bool debuginfod;
    const char *cpus;   /* NULL: all */
    uint32_t max_nodes; /* 0: the default */
    enum perf_stacks stacks;
    sigset_t target_signals; /* the mask a launched program gets */
    int wake_fd;             /* readable when a step should return early (a signalfd); -1: none */
};

struct record_status {
    uint64_t samples, lost; /* lost: dropped by the kernel */
    uint64_t elapsed_ns, tool_cpu_ns;
    uint64_t recorded_ns; /* until the events were stopped; 0 while they run */
    uint64_t naming_ns;   /* how long names have been looked up */
    double rate_hz;       /* really used */
    uint64_t file_bytes;
    pid_t child;      /* 0: none, or it has ended */
    bool target_gone; /* launched or attached processes have all ended */
    /* after record_session_finish, of RECORD_LAUNCH: processes that it discovered, and that go on without
     * it */
    size_t left;
    pid_t stays; /* after record_session_leave: a process in which what was put into it stays; 0: none */
    bool stays_for_good; /* other code may lead there: not to be removed later either */
    char notice[256];    /* one line to show while it runs ("" none); cleared by the caller that shows it */
};

struct record_session;

int record_session_new(const struct record_options *options, struct record_session **session,
                       struct base_error *error);

/* BASE_ENOTFOUND / BASE_EPERMISSION with *command_failed set: the command could not be run (127 / 126), and
 * no profile is left. */
int record_session_start(struct record_session *session, bool *command_failed, struct base_error *error);

/* Waits up to `timeout_ms` and works on what has come. */
int record_session_step(struct record_session *session, int timeout_ms, struct base_error *error);

/* Before the caller stops itself (^Z), and when it goes on: meanwhile no process waits for it. */
void record_session_suspend(struct record_session *session);
void record_session_resume(struct record_session *session);

const struct record_status *record_session_status(struct record_session *session);
void record_session_clear_notice(struct record_session *session);

/* Takes out of all processes what was put into them; `stays` names what cannot be reached. For a caller
 * that gives up after an error: record_session_finish does it too, and a second time nothing is done. Can
 * take seconds. */
void record_session_leave(struct record_session *session);

/* progress(done, total): while names are looked up; may be NULL. `exit_status` is for the profile's header:
 * what became of the target, in words, or NULL. */
int record_session_finish(struct record_session *session, const char *exit_status,
                          void (*progress)(void *context, size_t done, size_t total), void *context,
                          struct base_error *error);

const struct profile *record_session_profile(const struct record_session *session);
void record_session_free(struct record_session *session);

#endif
