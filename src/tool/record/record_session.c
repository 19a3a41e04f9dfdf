/* One recording. The order of what a session does matters more than any part of it:
 *
 *   new     options are checked, perf_event is probed: what is not allowed is known before anything is
 *           touched
 *   start   the profile file is made and locked; events are opened, disabled; processes that run are read
 *           from /proc after their events were opened, so that no mapping falls between; a launched program
 *           is released last
 *   step    1. look at all rings  2. work on records up to a horizon that lies RECORD_HORIZON_NS back, so
 *           that every record before it has been published on every ring  3. now and then: enlarge the stack
 *           copy, write what changed
 *   finish  events stop, rings are drained without a horizon, functions are named, the file is closed */
#include "base_clock.h"
#include "record_inside.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "calls.h"
#include "perf_filter.h"
#include "perf_ring.h"
#include "perf_time.h"
#include "probe.h"
#include "proc_ended.h"
#include "remains_left.h"
#include "sample_stream.h"
#include "store.h"
#include "waits.h"
#include "wire_loss.h"

enum {
    /* a step of calls or the agent that takes longer has delayed threads that waited for it */
    HOLDS_NS = 2000000,
    BLIND_NS = 10000000, /* a step without poll */
    LATE_STEP_MS = 2,
    LATE_FOR_NS = 100000000,
    FULL_COPY_STEP_MS = 4,
    FULL_COPY_FOR_NS = 1000000000,
    ROUNDS_MAX = 16,                /* of work before the rest of a step has its turn */
    FLUSH_NS = 500000000,           /* SIGKILL loses at most this, the horizon and one step */
    CREATIONS_EARLY_NS = 300000000, /* programs make their threads at first: then one looks often */
    CREATIONS_EARLY_STEP_MS = 10,
    CREATIONS_STEP_MS = 50,
};

/* --- the engine: perf_event, or the agent's timers --- */

int record_session_new(const struct record_options *options, struct record_session **made,
                       struct base_error *error)
{
    struct record_session *session = calloc(1, sizeof *session);
    if (!session)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    session->options = *options;
    session->cgroup = -1;
    session->filter = (struct perf_filter){-1, -1, -1, -1};
    if (options->mode == RECORD_SYSTEM || options->mode == RECORD_CGROUP)
        session->sampled = RECORD_BY_CPU;
    else if (options->cpus) /* thread creation and mappings on other CPUs would not be seen */
        session->sampled = RECORD_BY_THREAD_FOR_GOOD;
    int result = record_setup(session, error);
    if (result < 0) {
        record_session_free(session);
        return result;
    }
    *made = session;
    return BASE_OK;
}

void record_session_free(struct record_session *session)
{
    if (!session)
        return;
    if (session->store)
        store_close(session->store, session->profile, true, NULL);
    for (size_t i = 0; i < session->target_count; i++)
        proc_ended_close(&session->targets[i]);
    free(session->targets);
    for (size_t i = 0; i < session->owned_count; i++)
        if (session->owned[i] >= 0)
            close(session->owned[i]);
    free(session->owned);
    waits_free(session->waits);
    calls_free(session->calls);
    probe_free(session->probe);
    perf_time_free(&session->time);
    perf_filter_close(&session->filter);
    perf_rings_free(&session->rings);
    sample_stream_free(&session->stream);
    base_map_free(&session->image_of_profile);
    free(session->polled);
    if (session->cgroup >= 0)
        close(session->cgroup);
    if (session->profile)
        profile_free(session->profile);
    free(session);
}

/* --- start --- */

static void look_for_left(struct record_session *session)
{
    struct remains_left none = {0};
    struct remains_left *agent = session->probe ? probe_left(session->probe) : &none;
    struct remains_left *calls = session->calls ? calls_left(session->calls) : &none;
    remains_left_retry(agent, calls);
    remains_left_describe(agent, session->profile, "agent_memory_left");
    remains_left_describe(calls, session->profile, "calls_memory_left");
    const struct remains_left_process *first = remains_left_first(agent);
    first = first ? first : remains_left_first(calls);
    session->status.stays = first ? first->pid : 0;
    session->status.stays_for_good = first && !first->retry;
}

/* The agent is removed first: while calls are counted, a thread that loads an object waits until its
 * unwinders are hooked, and agent return addresses may be on stacks until then. */
void record_session_leave(struct record_session *session)
{
    if (session->has_left)
        return;
    session->has_left = true;
    if (session->calls && session->probe)
        calls_register(session->calls,
                       &(struct calls_client){.real = record_original_return, .context = session->probe});
    if (session->calls && session->probe)
        calls_before_agent(session->calls);
    if (session->probe)
        probe_leave(session->probe, NULL);
    if (session->calls)
        calls_leave(session->calls, NULL);
    look_for_left(session);
}

/* --- now and then --- */

static int flush_profile(struct record_session *session, uint64_t now, struct base_error *error)
{
    profile_set_metaf(session->profile, "duration_ns", "%llu", (unsigned long long)(now - session->start_ns));
    profile_set_metaf(session->profile, "overhead_tool_cpu_ns", "%llu",
                      (unsigned long long)record_cpu_ns(RUSAGE_SELF));
    session->last_flush = now;
    if (session->calls)
        calls_publish(session->calls);
    if (session->probe)
        probe_publish(session->probe);
    return store_flush(session->store, session->profile, error);
}

static int shorten_timeout(int timeout_ms, uint64_t from, uint64_t until)
{
    int left_ms = until > from ? (int)((until - from) / 1000000) + 1 : 0;
    return left_ms < timeout_ms ? left_ms : timeout_ms;
}

static int smaller_timeout(int a, int b)
{
    return a < b ? a : b;
}

/* Thread and process creation is watched for; and stacks that fill their copies will soon be larger: what
 * is read late should be read soon, since the sooner it is, the surer it still is what it was. */
static int longest_step(struct record_session *session, uint64_t now)
{
    uint64_t late = session->profile->losses[WIRE_LOSS_READ_LATE], full = session->stream.full_copies;
    if (late != session->late_reads)
        session->late_until = now + LATE_FOR_NS;
    if (full != session->full_copies)
        session->full_until = now + FULL_COPY_FOR_NS;
    session->late_reads = late;
    session->full_copies = full;
    int longest = session->sampled != RECORD_BY_THREAD           ? INT_MAX
                  : now - session->start_ns < CREATIONS_EARLY_NS ? CREATIONS_EARLY_STEP_MS
                                                                 : CREATIONS_STEP_MS;
    if (now < session->full_until)
        longest = smaller_timeout(longest, FULL_COPY_STEP_MS);
    return now < session->late_until ? LATE_STEP_MS : longest;
}

/* The periods of sampling: all once, soon after the start, and those of a set when it took enough samples. */
static void redraw_periods(struct record_session *session)
{
    uint64_t now = base_clock_now();
    if (session->redraw_at && now >= session->redraw_at) {
        perf_time_redraw(&session->time, now);
        session->redraw_at = 0;
    }
    perf_time_redraw_due(&session->time, now);
}

static int step_timeout(struct record_session *session, int timeout_ms)
{
    uint64_t now = base_clock_now();
    timeout_ms = smaller_timeout(timeout_ms, longest_step(session, now));
    if (session->waits)
        timeout_ms = shorten_timeout(timeout_ms, now, waits_due(session->waits));
    return session->redraw_at ? shorten_timeout(timeout_ms, now, session->redraw_at) : timeout_ms;
}

/* Once each. */
void record_pass_notice(struct record_session *session, const char *notice, bool *passed)
{
    if (!notice[0] || *passed)
        return;
    *passed = true;
    snprintf(session->status.notice, sizeof session->status.notice, "%s", notice);
}

static int step_agent(struct record_session *session, struct base_error *error)
{
    int result = probe_step(session->probe, error);
    record_pass_notice(session, probe_notice(session->probe), &session->agent_noticed);
    return result;
}

static int step_calls(struct record_session *session, struct base_error *error)
{
    int result = calls_step(session->calls, error);
    record_pass_notice(session, calls_notice(session->calls), &session->calls_noticed);
    return result;
}

void record_session_suspend(struct record_session *session)
{
    if (session->calls)
        calls_suspend(session->calls);
    if (session->probe)
        probe_suspend(session->probe);
}

void record_session_resume(struct record_session *session)
{
    if (session->probe) /* first: its hooks are to be there when calls are planned */
        probe_resume(session->probe);
    if (session->calls)
        calls_resume(session->calls);
}

int record_session_step(struct record_session *session, int timeout_ms, struct base_error *error)
{
    redraw_periods(session);
    record_poll_rings(session);
    if (poll(session->polled, session->polled_count, step_timeout(session, timeout_ms)) < 0 && errno != EINTR)
        base_clock_sleep(BLIND_NS); /* a filter refuses it */
    record_look_at_polls(session);  /* also of what cannot be polled */
    uint64_t stepped = base_clock_now();
    int result = session->calls ? step_calls(session, error) : BASE_OK;
    if (session->probe && result >= 0)
        result = step_agent(session, error);
    if (result < 0)
        return result;
    if (session->waits && base_clock_now() - stepped > HOLDS_NS)
        waits_busy(session->waits);
    bool late = base_clock_now() < session->late_until;
    bool full = perf_rings_refresh(&session->rings);
    for (int rounds = 0; rounds == 0 || (full && rounds < ROUNDS_MAX); rounds++) {
        record_work_until(session,
                          base_clock_now() - (full || late ? RECORD_HORIZON_FULL_NS : RECORD_HORIZON_NS));
        full = perf_rings_refresh(&session->rings);
    }
    uint64_t now = base_clock_now();
    if (session->waits && now >= waits_due(session->waits))
        waits_look(session->waits);
    record_adapt_to_creation(session);
    record_adapt_copies(session, now);
    return now - session->last_flush >= FLUSH_NS ? flush_profile(session, now, error) : BASE_OK;
}

const struct record_status *record_session_status(struct record_session *session)
{
    session->status.elapsed_ns = base_clock_now() - session->start_ns;
    session->status.tool_cpu_ns = record_cpu_ns(RUSAGE_SELF);
    if (session->timers.signal)
        session->stream.samples = probe_timed(session->probe).samples;
    session->status.samples = session->stream.samples + (session->waits ? waits_samples(session->waits) : 0);
    session->status.lost = session->stream.lost;
    if (session->status.recorded_ns)
        session->status.naming_ns = session->status.elapsed_ns - session->status.recorded_ns;
    session->status.file_bytes = session->store ? store_size(session->store) : session->status.file_bytes;
    return &session->status;
}

void record_session_clear_notice(struct record_session *session)
{
    session->status.notice[0] = '\0';
}

const struct profile *record_session_profile(const struct record_session *session)
{
    return session->profile;
}
