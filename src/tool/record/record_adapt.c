/* How a session samples, changed while it runs: larger copies of stacks where they are deep, events of
 * whole CPUs where threads and processes are too short-lived for inherited ones. */
#include "base_clock.h"
#include "record_inside.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "perf_filter.h"
#include "perf_ring.h"
#include "perf_time.h"
#include "sample_stream.h"

enum {
    SHORT_PER_THOUSAND = 2, /* short copies of a process in a second that call for larger ones */
    CREATIONS_MANY = 8,     /* threads and processes created in a second that call for events of whole CPUs */
    ENTER_ROUNDS = 100,     /* of looking for processes that were created meanwhile */
};

void record_work_until(struct record_session *session, uint64_t horizon)
{
    const struct perf_event_header *header;
    uint64_t time;
    while ((header = perf_rings_next(&session->rings, horizon, &time))) {
        sample_stream_record(&session->stream, header, time);
        perf_rings_pop(&session->rings);
    }
}

/* How many copies were too short before says nothing of larger ones. */
static void forget_short_copies(struct record_session *session, uint32_t bytes)
{
    for (size_t i = 0; i < session->stream.processes.count; i++)
        session->stream.processes.items[i].short_copies = 0;
    profile_set_metaf(session->profile, "stack_copy_bytes", "%u", bytes);
}

/* All that ran at the time of the call: processes created until then are in the rings, or will be within
 * the horizon. A process that is missed here would go on without events. */
static size_t list_living(void *context, pid_t **pids)
{
    struct record_session *session = context;
    uint64_t called = base_clock_now();
    base_clock_sleep(RECORD_HORIZON_FULL_NS);
    perf_rings_refresh(&session->rings);
    record_work_until(session, called);
    return sample_processes_living(&session->stream.processes, pids);
}

static void grow_copy(struct record_session *session)
{
    struct perf_time *time = &session->time;
    uint32_t bytes =
        time->form.stack_copy * 2 < SAMPLE_COPY_LARGEST ? time->form.stack_copy * 2 : SAMPLE_COPY_LARGEST;
    struct base_error reason = {0};
    perf_time_list *list = session->sampled == RECORD_BY_CPU ? NULL : list_living;
    if (perf_time_grow_copy(time, bytes, list, session, &reason) == BASE_OK)
        forget_short_copies(session, bytes);
    else if (reason.text[0])
        profile_set_meta(session->profile, "stack_copy_notice", reason.text);
}

/* All running processes go into the filter's table. The kernel enters a child of one that is in it; a
 * child created before that is on the next list. */
static bool add_living(void *context)
{
    struct record_session *session = context;
    struct base_map entered = {0};
    bool room = true;
    size_t fresh = 1;
    for (int round = 0; room && fresh && round < ENTER_ROUNDS; round++) {
        pid_t *pids = NULL;
        size_t count = list_living(session, &pids);
        fresh = 0;
        for (size_t i = 0; room && i < count; i++) {
            if (base_map_find(&entered, (uint64_t)pids[i]) != BASE_MAP_NONE)
                continue;
            room = perf_filter_add(&session->filter, pids[i]) && base_map_set(&entered, (uint64_t)pids[i], 1);
            fresh++;
        }
        free(pids);
    }
    base_map_free(&entered);
    return room && !fresh;
}

static int sample_by_cpu(struct record_session *session, struct base_error *error)
{
    int result = perf_filter_open(&session->filter, session->options.follow, error);
    if (result < 0)
        return result;
    session->stream.others = true;
    result = perf_time_switch_to_cpus(&session->time, &session->filter, add_living, session, error);
    if (result < 0) {
        session->stream.others = false;
        perf_filter_close(&session->filter);
    }
    return result;
}

/* Many threads or processes are created: an inherited event sees little of short lifetimes (perf_time.h). */
void record_adapt_to_creation(struct record_session *session)
{
    struct base_error reason = {0};
    if (session->sampled != RECORD_BY_THREAD ||
        session->stream.creations - session->last_creations <= CREATIONS_MANY)
        return;
    session->sampled = sample_by_cpu(session, &reason) == BASE_OK ? RECORD_BY_CPU : RECORD_BY_THREAD_FOR_GOOD;
    record_describe_events(session);
    if (session->sampled != RECORD_BY_CPU)
        profile_set_metaf(session->profile, "births_notice",
                          "many threads or processes were created; those shorter-lived than %.1f ms are "
                          "hardly sampled, since "
                          "CPUs cannot be sampled instead: %s",
                          (double)session->time.set_size * (double)session->stream.sample_value / 1e6,
                          reason.text);
}

/* A leader that has exited may have left threads; when the process is gone, its mappings are of no use any
 * more, and its number may become another process's. */
static void forget_ended_processes(struct record_session *session)
{
    struct sample_processes *processes = &session->stream.processes;
    for (size_t i = 0; i < processes->count; i++) {
        const struct sample_process *process = &processes->items[i];
        if (!process->alive || !session->profile->processes[process->profile_process].end_ns ||
            !kill(process->pid, 0) || errno != ESRCH)
            continue;
        if (session->stream.others)
            perf_filter_remove(&session->filter, process->pid);
        sample_processes_forget(processes, process->pid);
    }
}

/* Does any process have too many stacks in this second that are larger than their copies? */
void record_adapt_copies(struct record_session *session, uint64_t now)
{
    bool deep = false, over = now - session->last_second >= RECORD_SECOND;
    for (size_t i = 0; i < session->stream.processes.count; i++) {
        struct sample_process *process = &session->stream.processes.items[i];
        deep |=
            process->short_copies > 1 && process->short_copies * 1000 > process->samples * SHORT_PER_THOUSAND;
        if (over)
            process->samples = process->short_copies = 0;
    }
    if (over) {
        session->last_second = now;
        session->last_creations = session->stream.creations;
        forget_ended_processes(session);
    }
    if (deep && session->time.form.stack_copy < SAMPLE_COPY_LARGEST)
        grow_copy(session);
}
