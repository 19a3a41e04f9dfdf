/* The start of a session. Processes that run are read from /proc after their events were opened, so that
 * no mapping falls between; a launched program is let run last. */
#include "base_clock.h"
#include "record_inside.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "calls.h"
#include "perf_time.h"
#include "probe.h"
#include "proc_cgroup.h"
#include "proc_ended.h"
#include "proc_owner.h"
#include "proc_target.h"
#include "record_launch.h"
#include "remains.h"
#include "remains_left.h"
#include "store.h"
#include "waits.h"
#include "wire_loss.h"

enum {
    REDRAW_FROM_NS = 10000000, /* see perf_time.h */
    REDRAW_SPREAD_NS = 20000000,
};

/* Where something is put into the process. */
static int own_process(struct record_session *session, pid_t pid, struct base_error *error)
{
    if (!session->calls && !session->probe)
        return BASE_OK;
    if (!base_array_room(session->owned, session->owned_count, session->owned_capacity))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    int result = proc_owner_take(pid, &session->owned[session->owned_count], error);
    session->owned_count += result == BASE_OK;
    return result;
}

static size_t list_wanted(void *context, pid_t **pids)
{
    const struct record_options *options = &((struct record_session *)context)->options;
    *pids = malloc(options->pid_count * sizeof **pids);
    if (!*pids)
        return 0;
    memcpy(*pids, options->pids, options->pid_count * sizeof **pids);
    return options->pid_count;
}

/* Later they may go; a number that no process has from the start is a mistake. */
static int check_pids(const struct record_options *options, struct base_error *error)
{
    for (size_t i = 0; i < options->pid_count; i++)
        if (kill(options->pids[i], 0) && errno == ESRCH)
            return base_fail(error, BASE_ENOTFOUND, "no process %d", (int)options->pids[i]);
    return BASE_OK;
}

/* Is the number still that of the process that was meant when the recording began? */
static bool is_meant(const struct record_session *session, pid_t pid)
{
    for (size_t i = 0; i < session->target_count; i++)
        if (session->targets[i].pid == pid)
            return !proc_ended_is(&session->targets[i]);
    return false;
}

/* Where nothing is written into the process nothing of it matters. What cannot go now is tried again at
 * the end. */
static int remove_remains(const struct record_session *session, pid_t pid, struct base_error *error)
{
    struct remains_cleaned cleaned = {0};
    if (!session->probe && !session->calls)
        return BASE_OK;
    int result = remains_remove(pid, &cleaned, error);
    if (cleaned.bytes_left > cleaned.bytes_kept) /* what stays for good was reported by its own tally */
        remains_left_add(session->probe ? probe_left(session->probe) : calls_left(session->calls), pid,
                         cleaned.bytes_left - cleaned.bytes_kept, true);
    return result;
}

static bool is_traced(pid_t pid)
{
    struct proc_target_facts facts;
    return proc_target_facts(pid, pid, &facts) == BASE_OK && facts.tracer != 0;
}

/* A collector that fails leaves the process as it was. It may be busy for a moment only: in vfork no thread
 * of it can make a call for tally, and a tally without a processor loses what it holds. What somebody else
 * traces stays so. */
static int attach_collectors(struct record_session *session, pid_t pid, struct base_error *error)
{
    struct base_error why;
    bool probed = !session->probe; /* first: its hooks are to be there when calls are planned */
    uint64_t began = 0;
    int result;
    do {
        base_error_clear(&why);
        result = probed ? BASE_OK : probe_attach(session->probe, pid, &why);
        probed = result >= 0;
        if (session->calls && result >= 0)
            result = calls_attach(session->calls, pid, &why);
    } while (result < 0 && !is_traced(pid) && remains_again(result, &began));
    return result < 0 ? base_fail(error, result, "%s", why.text) : result;
}

/* What seizes a process goes by its number: whether that was still the process meant is looked at
 * afterwards, too. */
static int attach_process(struct record_session *session, pid_t pid, struct base_error *error)
{
    int result = own_process(session, pid, error);
    if (result >= 0)
        result = remove_remains(session, pid, error);
    if (result >= 0)
        result = attach_collectors(session, pid, error);
    if (result >= 0 && (session->probe || session->calls) && !is_meant(session, pid))
        result = base_fail(error, BASE_ENOTFOUND, "process %d has ended", (int)pid);
    return result;
}

static int open_running(struct record_session *session, struct base_error *error)
{
    const struct record_options *options = &session->options;
    if (options->mode == RECORD_CGROUP) {
        int result = proc_cgroup_open(options->cgroup, &session->cgroup, error);
        return result < 0 ? result : perf_time_open_cpus(&session->time, session->cgroup, error);
    }
    if (options->mode == RECORD_SYSTEM)
        return perf_time_open_cpus(&session->time, -1, error);
    int result = check_pids(options, error);
    for (size_t i = 0; i < options->pid_count && result >= 0; i++)
        record_poll_process(session, options->pids[i]);
    if (result >= 0 && !options->no_time)
        result = perf_time_open_processes(&session->time, list_wanted, session, error);
    if (result < 0)
        return result;
    uint64_t now = base_clock_now();
    for (size_t i = 0; i < options->pid_count; i++) {
        bool writes = session->probe || session->calls;
        sample_processes_get(&session->stream.processes, options->pids[i], now);
        result = writes && !is_meant(session, options->pids[i])
                     ? base_fail(error, BASE_ENOTFOUND, "process %d has ended", (int)options->pids[i])
                     : attach_process(session, options->pids[i], error);
        if (result < 0) { /* the others are as they were before, too */
            record_session_leave(session);
            return result;
        }
    }
    return BASE_OK;
}

static int start_running(struct record_session *session, struct base_error *error)
{
    int result = open_running(session, error);
    if (result < 0)
        return result;
    record_describe_events(session);
    perf_time_enable(&session->time);
    /* What was mapped before events reported it: the agent, stubs, and what the program itself did
     * meanwhile. */
    sample_processes_reread(&session->stream.processes);
    return BASE_OK;
}

static int start_child(struct record_session *session, bool *command_failed, struct base_error *error)
{
    struct record_launch_inherited inherited = {session->time.descriptors, session->options.target_signals,
                                                session->nice,
                                                session->calls   ? calls_helper(session->calls)
                                                : session->probe ? probe_helper(session->probe)
                                                                 : 0};
    struct record_launch launch;
    int result = record_launch_prepare(&launch, session->options.command, &inherited, error);
    if (result < 0)
        return result;
    result = own_process(session, launch.pid, error);
    if (result >= 0 && !session->options.no_time)
        result = perf_time_open_child(&session->time, launch.pid, error);
    if (result >= 0 && session->calls)
        result = calls_launch(session->calls, launch.pid, error);
    else if (result >= 0 && session->probe)
        result = probe_launch(session->probe, launch.pid, error);
    if (result >= 0 && !sample_processes_expect(&session->stream.processes, launch.pid, base_clock_now()))
        result = base_fail(error, BASE_ENOMEM, "out of memory");
    if (result < 0) {
        record_launch_abandon(&launch);
        return result;
    }
    record_describe_events(session);
    record_poll_process(session, launch.pid);
    if (session->waits)
        waits_begin(session->waits, base_clock_now());
    result = record_launch_go(&launch, session->options.command[0], error);
    *command_failed = result < 0;
    session->status.child = result < 0 ? 0 : launch.pid;
    return result;
}

/* Getting to processes that run takes a while: what is recorded begins when all is set. */
static void restart_clocks(struct record_session *session, uint64_t now)
{
    session->start_ns = session->stream.start_ns = session->stream.processes.start_ns = now;
    if (session->probe)
        probe_restart(session->probe);
}

int record_session_start(struct record_session *session, bool *command_failed, struct base_error *error)
{
    *command_failed = false;
    int result = store_create(session->options.output, &session->store, error);
    if (result < 0)
        return result;
    int files[4] = {-1, -1, -1, -1};
    if (session->calls)
        calls_files(session->calls, files);
    if (session->probe)
        probe_files(session->probe, files + RECORD_POLL_AGENT - RECORD_POLL_CALLS);
    if (!record_add_poll(session, session->options.wake_fd) || !record_add_poll(session, files[0]) ||
        !record_add_poll(session, files[1]) || !record_add_poll(session, files[2]) ||
        !record_add_poll(session, files[3]))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    session->first_ring_poll = RECORD_POLL_PROCESSES;
    result = session->options.mode == RECORD_LAUNCH ? start_child(session, command_failed, error)
                                                    : start_running(session, error);
    if (result == BASE_EPERMISSION && session->perf_refused)
        return base_fail_context(error, result,
                                 "perf_event is refused here (see 'tally doctor'), and timers inside the "
                                 "program are not possible either");
    if (result < 0)
        return result;
    profile_lose(session->profile, WIRE_LOSS_THREAD_UNSEEN, session->time.unseen);
    uint64_t now = base_clock_now();
    if (session->waits)
        waits_look(session->waits);
    if (session->options.mode != RECORD_LAUNCH)
        restart_clocks(session, now);
    else if (!session->options.no_time) /* what runs already is at a random phase */
        session->redraw_at = now + REDRAW_FROM_NS + session->time.random % REDRAW_SPREAD_NS;
    return BASE_OK;
}
