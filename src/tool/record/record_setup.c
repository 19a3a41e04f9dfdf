/* What a session is made of: what samples time and at what rate, and which collectors there are beside it. */
#include "base_clock.h"
#include "record_inside.h"

#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "calls.h"
#include "perf_rate.h"
#include "perf_time.h"
#include "probe.h"
#include "probe_timer.h"
#include "proc_namespace.h"
#include "sample_stream.h"
#include "waits.h"
#include "wire_loss.h"

enum {
    /* where allowed: a machine full of busy threads must not starve the thread that empties the rings */
    OWN_NICE = -20,
    COPY_FIRST = 16384,
};

uint64_t record_ns_of(const struct timeval *time)
{
    return (uint64_t)time->tv_sec * RECORD_SECOND + (uint64_t)time->tv_usec * 1000;
}

uint64_t record_cpu_ns(int who)
{
    struct rusage usage;
    getrusage(who, &usage);
    return record_ns_of(&usage.ru_utime) + record_ns_of(&usage.ru_stime);
}

static int choose_rate(struct record_session *session, struct base_error *error)
{
    if (session->options.no_time)
        return BASE_OK;
    double wanted = session->options.rate_hz;
    double allowed = (double)perf_event_setting("/proc/sys/kernel/perf_event_max_sample_rate", 100000);
    if (wanted > allowed)
        return base_fail(error, BASE_EUSAGE,
                         "-F %.0f is above what the kernel allows (%.0f); to allow it: sysctl "
                         "kernel.perf_event_max_sample_rate=%.0f",
                         wanted, allowed, wanted);
    uint64_t interrupt_ns;
    double rate = perf_rate_bearable(wanted, &interrupt_ns);
    session->status.rate_hz = rate;
    session->stream.sample_value = llround(1e9 / rate);
    if (rate >= wanted)
        return BASE_OK;
    profile_lose(session->profile, WIRE_LOSS_RATE_LOWERED, 1);
    snprintf(
        session->status.notice, sizeof session->status.notice,
        "each sample costs %.1f us here: rate lowered from %.0f to %.0f Hz, so that half of the CPU is left",
        (double)interrupt_ns / 1000, wanted, rate);
    profile_set_meta(session->profile, "rate_notice", session->status.notice);
    return BASE_OK;
}

static void describe_host(struct record_session *session)
{
    struct utsname host;
    struct profile *profile = session->profile;
    if (!uname(&host)) {
        profile_set_meta(profile, "hostname", host.nodename);
        profile_set_meta(profile, "kernel", host.release);
        profile_set_meta(profile, "machine", host.machine);
    }
    static const char *const modes[] = {"launch", "attach", "system", "cgroup"};
    profile_set_meta(profile, "mode", modes[session->options.mode]);
    profile_set_meta(profile, "command", session->options.command_line);
    profile_set_meta(profile, "tally_version", TALLY_VERSION);
    profile_set_metaf(profile, "start_time", "%lld", (long long)time(NULL));
    if (!session->options.no_time)
        profile_set_metaf(profile, "rate_hz", "%.6g", session->status.rate_hz);
    if (session->options.cpus)
        profile_set_meta(profile, "cpus", session->options.cpus);
}

/* What the events turned out to be, once they are open. */
void record_describe_events(struct record_session *session)
{
    char sampling[160];
    if (session->options.no_time)
        return;
    const struct perf_event_form *form = &session->time.form;
    perf_time_describe(&session->time, sampling, sizeof sampling);
    profile_set_meta(session->profile, "sampling", sampling);
    profile_set_metaf(session->profile, "engine", "perf_event cpu-clock, %s%s",
                      form->kernel_time ? "user and kernel time" : "user time only",
                      form->kernel_frames ? ", kernel frames" : "");
    profile_set_metaf(session->profile, "stack_copy_bytes", "%u", form->stack_copy);
    if (form->why_no_kernel_time[0])
        profile_set_meta(session->profile, "kernel_notice", form->why_no_kernel_time);
}

/* Can the agent do what was asked for? */
static bool may_time_by_agent(const struct record_options *options)
{
    return (options->mode == RECORD_LAUNCH || options->mode == RECORD_ATTACH) && !options->no_time &&
           !options->calls && !options->function_count && !options->fds && !options->kernel_frames &&
           !options->timeline_bytes && !options->cpus && options->stacks == PERF_STACKS_FULL;
}

static int time_by_agent(struct record_session *session, const char *reason, struct base_error *error)
{
    double rate = session->options.rate_hz;
    char *notice = session->status.notice;
    size_t size = sizeof session->status.notice;
    int result = probe_timer_plan(session->options.user_only, &rate, &session->timers, error);
    if (result < 0)
        return result;
    session->options.no_time = true; /* as far as perf_event is concerned */
    session->status.rate_hz = rate;
    session->stream.sample_value = llround(1e9 / rate);
    profile_set_metaf(session->profile, "rate_hz", "%.6g", rate);
    profile_set_metaf(session->profile, "engine", "agent timers (" PROBE_TIMER_SIGNAL_NAME "), %s",
                      session->options.user_only ? "user time only" : "user and kernel time");
    profile_set_metaf(session->profile, "sampling",
                      "a timer on the CPU clock of each thread, intervals drawn anew after each sample, in "
                      "ticks of %.0f ms",
                      (double)session->timers.tick_ns / 1e6);
    if (reason[0])
        snprintf(notice, size, "time is sampled from inside the program, by timers (--engine=agent): %s",
                 reason);
    else if (rate < session->options.rate_hz)
        snprintf(notice, size,
                 "the kernel looks at timers every %.0f ms only: rate lowered from %.0f to %.0f Hz",
                 (double)session->timers.tick_ns / 1e6, session->options.rate_hz, rate);
    if (rate < session->options.rate_hz)
        profile_lose(session->profile, WIRE_LOSS_RATE_LOWERED, 1);
    if (notice[0])
        profile_set_meta(session->profile, "engine_notice", notice);
    return BASE_OK;
}

static int choose_engine(struct record_session *session, struct base_error *error)
{
    const struct record_options *options = &session->options;
    struct base_error refusal = {0}, old = {0};
    struct perf_event_form form = {.want_kernel_time = !options->user_only,
                                   .inherit = true,
                                   .stacks = options->stacks,
                                   .stack_copy = COPY_FIRST};
    if (options->engine == RECORD_ENGINE_AGENT)
        return time_by_agent(session, "", error);
    if (options->engine == RECORD_ENGINE_PERF || !may_time_by_agent(options) ||
        perf_event_probe(&form, &refusal) == BASE_OK)
        return BASE_OK;
    /* Where that does not do either, perf_event's refusal is what is said. */
    session->perf_refused = time_by_agent(session, "perf_event is refused here", &old) == BASE_OK;
    return BASE_OK;
}

static void choose_form(struct record_session *session)
{
    const struct record_options *options = &session->options;
    session->time.form = (struct perf_event_form){
        .want_kernel_time = !options->user_only,
        .want_kernel_frames = options->kernel_frames,
        .inherit = true,
        .inherit_threads_only = !options->follow,
        .stacks = options->stacks,
        .stack_copy = COPY_FIRST,
    };
    session->time.rate_hz = session->status.rate_hz;
}

static bool leave_stub(void *calls, pid_t pid, uint64_t *pc, uint64_t *sp, sample_word *word, void *context)
{
    return calls_frame(calls, pid, pc, sp, word, context);
}

static void thread_created(void *waits, pid_t tid, uint64_t time_ns)
{
    waits_created(waits, tid, time_ns);
}

static void thread_ended(void *waits, pid_t tid, uint64_t time_ns)
{
    waits_ended(waits, tid, time_ns);
}

static int set_up_calls(struct record_session *session, struct base_error *error)
{
    const struct record_options *options = &session->options;
    struct calls_options request = {
        .request = options->request, .follow = options->follow, .unpublished = options->no_time};
    if (!options->calls)
        return BASE_OK;
    int result = calls_new(&request, &session->stream.processes, &session->calls, error);
    if (session->calls) {
        session->stream.sampler.changed.calls = session->calls;
        session->stream.sampler.changed.leave_stub = leave_stub;
    }
    return result;
}

static void on_exec(void *agent, pid_t pid)
{
    probe_exec(agent, pid);
}

static void on_objects(void *agent, pid_t pid)
{
    probe_objects(agent, pid);
}

static void on_left(void *agent, pid_t pid)
{
    probe_left_by_owner(agent, pid);
}

uint64_t record_original_return(void *agent, pid_t pid, uint64_t address)
{
    return probe_real(agent, pid, address);
}

static int set_up_agent(struct record_session *session, struct base_error *error)
{
    const struct record_options *options = &session->options;
    struct probe_options request = {.collectors =
                                        (options->heap ? 1u << WIRE_AGENT_HEAP | 1u << WIRE_AGENT_MAP : 0) |
                                        (options->throws ? 1u << WIRE_AGENT_THROWS : 0) |
                                        (options->fds ? 1u << WIRE_AGENT_FDS : 0) |
                                        (options->instrumented ? 1u << WIRE_AGENT_INSTRUMENTED : 0) |
                                        (options->function_count ? 1u << WIRE_AGENT_FUNCTION : 0) |
                                        (session->timers.signal ? 1u << WIRE_AGENT_TIME : 0),
                                    .functions = options->functions,
                                    .function_count = options->function_count,
                                    .images = options->request.images,
                                    .image_count = options->request.image_count,
                                    .time = options->waits       ? SHARED_REAL_TIME
                                            : options->user_only ? SHARED_USER_TIME
                                                                 : SHARED_TIME,
                                    .timers = session->timers,
                                    .memory = options->agent_memory,
                                    .sample_bytes = options->heap_sample_bytes,
                                    .overhead = options->heap_overhead,
                                    .empty = options->empty,
                                    .named = options->named,
                                    .follow = options->follow,
                                    .unpublished = options->no_time};
    if (session->calls) {
        request.owner = calls_share(session->calls);
        request.unpublished = false; /* the collector of calls reports them */
    }
    int result = request.collectors ? probe_new(&request, &session->stream.processes, &session->probe, error)
                                    : BASE_OK;
    if (session->probe) {
        session->stream.sampler.changed.probe = session->probe;
        session->stream.sampler.changed.original = record_original_return;
    }
    const struct calls_client client = {on_exec, on_objects, on_left, record_original_return, session->probe};
    if (session->calls && session->probe)
        calls_register(session->calls, &client);
    return result;
}

static const char *time_counter(const struct record_session *session)
{
    return session->options.waits ? "time.real" : session->time.form.kernel_time ? "time.cpu" : "time.user";
}

static int set_up_waits(struct record_session *session, struct base_error *error)
{
    struct waits_options request = {.sampler = &session->stream.sampler, .stacks = session->options.stacks};
    if (!session->options.waits)
        return BASE_OK;
    request.counter =
        (uint16_t)profile_counter(session->profile, time_counter(session), "ns", false, PROFILE_SUM);
    int result = waits_new(&request, &session->waits, error);
    if (session->waits)
        session->stream.watcher = (struct sample_watcher){thread_created, thread_ended, session->waits};
    return result;
}

int record_setup(struct record_session *session, struct base_error *error)
{
    int result = proc_namespace_check(error);
    if (result < 0)
        return result;
    session->profile = profile_new();
    if (!session->profile)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    if (session->options.max_nodes)
        session->profile->max_nodes = session->options.max_nodes;
    result = choose_engine(session, error);
    if (result == BASE_OK)
        result = choose_rate(session, error);
    if (result < 0)
        return result;
    choose_form(session);
    if (!session->options.no_time)
        result = perf_time_init(&session->time, &session->rings, session->options.cpus, error);
    if (result < 0)
        return result;
    session->nice = getpriority(PRIO_PROCESS, 0);
    setpriority(PRIO_PROCESS, 0, OWN_NICE);
    session->start_ns = session->last_flush = session->last_second = base_clock_now();
    describe_host(session);
    session->stream.profile = session->profile;
    session->stream.form = &session->time.form;
    session->stream.time = &session->time;
    session->stream.follow = session->options.follow;
    session->stream.timeline = session->options.timeline_bytes != 0;
    profile_timeline_limit(session->profile, session->options.timeline_bytes);
    if (!session->options.no_time)
        session->stream.counter =
            (uint16_t)profile_counter(session->profile, time_counter(session), "ns", false, PROFILE_SUM);
    session->stream.start_ns = session->start_ns;
    result = sample_stream_init(&session->stream, error);
    if (result >= 0)
        result = set_up_waits(session, error);
    if (result >= 0)
        result = set_up_calls(session, error);
    return result < 0 ? result : set_up_agent(session, error);
}
