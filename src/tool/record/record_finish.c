/* The end of a session: events stop, rings are drained without a horizon, functions are named, what was
 * not seen is counted, and the file is closed. */
#include "base_clock.h"
#include "record_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "calls.h"
#include "perf_ring.h"
#include "perf_time.h"
#include "probe.h"
#include "proc_target.h"
#include "sample_resolve.h"
#include "store.h"
#include "waits.h"
#include "wire_loss.h"

/* Of the samples: what a separate debug file is opened for at the end of a recording. */
#define DEBUG_FILE_SHARE 0.2

enum {
    RESOLVE_LIMIT_NS = 2000000000,
    UNSEEN_PER_CENT = 3, /* of the target's CPU time, and so many samples' worth: more is no chance */
    UNSEEN_SAMPLES = 20,
};

static uint64_t user_ns(int who)
{
    struct rusage usage;
    getrusage(who, &usage);
    return record_ns_of(&usage.ru_utime);
}

static const struct sample_image *image_behind(const struct record_session *session, uint32_t profile_image)
{
    uint32_t index = base_map_find(&session->image_of_profile, profile_image);
    return index == BASE_MAP_NONE ? NULL : &session->stream.images.items[index];
}

static void index_images(struct record_session *session)
{
    for (size_t i = 0; i < session->stream.images.count; i++) {
        if (session->stream.images.items[i].profile_image)
            base_map_set(&session->image_of_profile, session->stream.images.items[i].profile_image,
                         (uint32_t)i);
    }
}

/* What the kernel's account of the target's CPU time has more than the samples stand for. Only where nothing
 * else can be the reason, and beyond what chance explains. */
static void count_short_lifetimes(struct record_session *session)
{
    const struct record_options *options = &session->options;
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    uint64_t target_ns =
        record_ns_of(&usage.ru_utime) + (session->time.form.kernel_time ? record_ns_of(&usage.ru_stime) : 0);
    uint64_t value = (uint64_t)session->stream.sample_value;
    uint64_t seen_ns = (session->stream.samples + session->stream.lost) * value;
    if (options->mode != RECORD_LAUNCH || options->no_time || !options->follow || options->cpus ||
        session->profile->losses[WIRE_LOSS_THROTTLED] ||
        seen_ns + target_ns * UNSEEN_PER_CENT / 100 + UNSEEN_SAMPLES * value >= target_ns)
        return;
    profile_lose(session->profile, WIRE_LOSS_SHORT_LIVED, (target_ns - seen_ns) / 1000000);
}

/* The same, where each sample has a length of its own. */
static void count_untimed(struct record_session *session)
{
    const struct probe_timed timed = probe_timed(session->probe);
    uint64_t waited_ns =
        session->options.user_only ? user_ns(RUSAGE_CHILDREN) : record_cpu_ns(RUSAGE_CHILDREN);
    bool whole = session->options.mode == RECORD_LAUNCH && session->options.follow;
    uint64_t target_ns = whole ? waited_ns : timed.spent_ns, seen_ns = timed.ns;
    uint64_t chance_ns = UNSEEN_SAMPLES * (uint64_t)session->stream.sample_value;
    session->stream.samples = timed.samples;
    if (seen_ns + target_ns * UNSEEN_PER_CENT / 100 + chance_ns < target_ns)
        profile_lose(session->profile, WIRE_LOSS_AGENT_UNTIMED, (target_ns - seen_ns) / 1000000);
}

/* By the kernel's account of what was waited for. What was not waited for, such as daemons, or children of
 * a shell that was interrupted, is not in it: then, and of what was not launched, it is what the samples
 * stand for. */
static uint64_t target_cpu_ns(const struct record_session *session)
{
    uint64_t value = (uint64_t)session->stream.sample_value, sampled_ns = session->stream.samples * value;
    uint64_t waited_ns = session->options.mode == RECORD_LAUNCH ? record_cpu_ns(RUSAGE_CHILDREN) : 0;
    if (session->timers.signal && !waited_ns)
        return probe_timed(session->probe).spent_ns;
    bool chance = sampled_ns < waited_ns + waited_ns / 4 + UNSEEN_SAMPLES * value;
    return waited_ns && chance ? waited_ns : sampled_ns;
}

static void describe_end(struct record_session *session, const char *exit_status)
{
    struct profile *profile = session->profile;
    if (session->timers.signal)
        count_untimed(session);
    uint64_t target_ns = target_cpu_ns(session);
    profile_set_metaf(profile, "target_cpu_ns", "%llu", (unsigned long long)target_ns);
    count_short_lifetimes(session);
    if (exit_status)
        profile_set_meta(profile, "exit_status", exit_status);
    bool waited = session->waits && waits_samples(session->waits);
    if (!session->stream.samples && !waited && (!session->options.no_time || session->timers.signal))
        profile_set_metaf(
            profile, "no_samples_reason",
            "the target used %.1f ms of CPU time in %.2f s; %.1f ms lie between two samples of a thread",
            (double)target_ns / 1e6, (double)(session->last_flush - session->start_ns) / 1e9,
            (session->timers.signal ? 1.0 : (double)session->time.set_size) *
                (double)session->stream.sample_value / 1e6);
}

/* Those that the session knew and that still run. */
static size_t count_left(const struct record_session *session)
{
    pid_t *pids = NULL;
    size_t left = 0;
    size_t count = session->options.mode == RECORD_LAUNCH
                       ? sample_processes_living(&session->stream.processes, &pids)
                       : 0;
    for (size_t i = 0; i < count; i++)
        left += proc_target_is_alive(pids[i]);
    free(pids);
    return left;
}

struct named_progress {
    struct record_session *session;
    void (*progress)(void *context, size_t done, size_t total);
    void *context;
};

static const struct elf_image *image_for(void *context, uint32_t profile_image)
{
    const struct named_progress *named = context;
    const struct sample_image *image = image_behind(named->session, profile_image);
    return image ? image->elf : NULL;
}

static void root_for(void *context, uint32_t profile_image, char *path, size_t size)
{
    const struct named_progress *named = context;
    const struct sample_image *image = image_behind(named->session, profile_image);
    if (image && image->root >= 0)
        snprintf(path, size, "/proc/self/fd/%d", image->root);
}

static void pass_progress(void *context, size_t done, size_t total)
{
    const struct named_progress *named = context;
    if (named->progress)
        named->progress(named->context, done, total);
}

int record_session_finish(struct record_session *session, const char *exit_status,
                          void (*progress)(void *context, size_t done, size_t total), void *context,
                          struct base_error *error)
{
    perf_time_disable(&session->time);
    if (session->waits) {
        waits_look(session->waits);
        waits_finish(session->waits);
    }
    record_session_leave(session);
    if (session->probe)
        record_pass_notice(session, probe_notice(session->probe), &session->agent_noticed);
    perf_rings_refresh(&session->rings);
    record_work_until(session, UINT64_MAX - 1);
    if (session->calls) {
        calls_finish(session->calls);
        record_pass_notice(session, calls_notice(session->calls), &session->calls_noticed);
    }
    session->last_flush = base_clock_now();
    session->status.recorded_ns = session->last_flush - session->start_ns;
    profile_set_metaf(session->profile, "duration_ns", "%llu",
                      (unsigned long long)session->status.recorded_ns);
    describe_end(session, exit_status);
    sample_processes_name_generated(&session->stream.processes);
    index_images(session);
    struct named_progress named = {session, progress, context};
    struct sample_resolve_options resolve = {.debuginfod = session->options.debuginfod,
                                             .lines = true,
                                             .debug_file_share = DEBUG_FILE_SHARE,
                                             .limit_ns = RESOLVE_LIMIT_NS,
                                             .image = image_for,
                                             .root = root_for,
                                             .progress = pass_progress,
                                             .context = &named};
    sample_resolve(session->profile, &resolve, NULL);
    session->status.left = count_left(session); /* late: what was about to end has had the time */
    profile_set_metaf(session->profile, "overhead_tool_cpu_ns", "%llu",
                      (unsigned long long)record_cpu_ns(RUSAGE_SELF));
    profile_set_meta(session->profile, "complete", "1");
    session->status.file_bytes = store_size(session->store);
    struct store *store = session->store;
    session->store = NULL;
    return store_close(store, session->profile, false, error);
}
