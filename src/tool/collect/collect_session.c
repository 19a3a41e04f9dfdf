/* One recording. The order of a session's life matters more than any of its steps:
 *
 *   new     options are checked, perf_event is probed: what is not allowed is known before anything is
 *           touched
 *   start   the profile file is made and locked; events are opened, disabled; processes that run are read
 *           from /proc after their events were opened, so that no mapping falls between; a launched program
 *           is let go last
 *   step    1. look at all rings  2. work on records up to a horizon that lies HORIZON_NS back, so that every
 *           record before it has been published on every ring  3. now and then: enlarge the stack copy, write
 *           what changed
 *   finish  events stop, rings are drained without a horizon, functions are named, the file is closed */
#include "collect_session.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base_array.h"
#include "collect_agent.h"
#include "collect_agent_timer.h"
#include "collect_calls.h"
#include "collect_cgroup.h"
#include "collect_ended.h"
#include "collect_filter.h"
#include "collect_launch.h"
#include "collect_left.h"
#include "collect_namespace.h"
#include "collect_owner.h"
#include "collect_rate.h"
#include "collect_remains.h"
#include "collect_resolve.h"
#include "collect_ring.h"
#include "collect_stream.h"
#include "collect_time.h"
#include "collect_waits.h"
#include "patch_target.h"
#include "profile_store.h"
#include "wire_loss.h"

#define SECOND 1000000000u
#define DEBUG_FILE_SHARE                                                                                     \
    0.2 /* of the samples: what a separate debug file is opened for at the end of a recording */

enum {
    HORIZON_NS = 5000000,      /* no interrupt takes longer from its time stamp to its record */
    HORIZON_FULL_NS = 1000000, /* nor often longer than this: good enough when a ring runs full */
    OWN_NICE = -20, /* where allowed: a machine full of busy threads must not starve who empties the rings */
    HOLDS_NS = 2000000,  /* a step of calls or the agent that takes longer has held who waited for it */
    BLIND_NS = 10000000, /* a step without poll */
    LATE_STEP_MS = 2,
    LATE_FOR_NS = 100000000,
    FULL_COPY_STEP_MS = 4,
    FULL_COPY_FOR_NS = 1000000000,
    ROUNDS_MAX = 16,      /* of work before the rest of a step has its turn */
    FLUSH_NS = 500000000, /* SIGKILL loses at most this, the horizon and one step */
    RESOLVE_LIMIT_NS = 2000000000,
    REDRAW_FROM_NS = 10000000, /* see collect_time.h */
    REDRAW_SPREAD_NS = 20000000,
    COPY_FIRST = 16384,
    SHORT_PER_THOUSAND = 2, /* short copies of a process in a second that call for larger ones */
    BIRTHS_MANY = 8,        /* threads and processes born in a second that call for events of whole CPUs */
    BIRTHS_EARLY_NS = 300000000, /* programs make their threads at first: then one looks often */
    BIRTHS_EARLY_STEP_MS = 10,
    BIRTHS_STEP_MS = 50,
    UNSEEN_PER_CENT = 3, /* of the target's CPU time, and so many samples' worth: more is no chance */
    UNSEEN_SAMPLES = 20,
    ENTER_ROUNDS = 100, /* of looking for processes that were born meanwhile */
    /* in `polled` */
    POLL_WAKE = 0,
    POLL_CALLS = 1, /* two; -1 each when calls are not counted */
    POLL_AGENT = 3, /* likewise */
    POLL_PROCESSES = 5,
};

struct collect_session {
    struct collect_options options;
    struct collect_status status;
    struct profile *profile;
    struct profile_store *store;
    struct collect_stream stream;
    struct collect_rings rings;
    struct collect_time time;
    struct collect_calls *calls;        /* NULL: they are not counted */
    struct collect_agent *agent;        /* NULL: nothing is counted inside */
    struct collect_waits *waits;        /* NULL: time on CPUs is all there is */
    struct collect_agent_timers timers; /* signal 0: the agent samples no time */
    bool perf_refused;                  /* that is why */
    bool calls_noticed, agent_noticed;  /* their notices were passed on */
    bool has_left;
    struct base_map image_of_profile; /* profile image -> index in images */
    struct pollfd *polled;            /* the caller's wake_fd, the calls', pidfds, then the rings' events */
    size_t polled_count, polled_capacity, first_ring_poll, rings_polled;
    struct collect_ended *targets; /* as many as there are polled before first_ring_poll, in that order */
    size_t target_count, target_capacity, living_targets;
    int *owned; /* locks, of processes that are changed (collect_owner.h) */
    size_t owned_count, owned_capacity;
    uint64_t start_ns, last_flush, last_second;
    uint64_t late_reads;              /* counted when the last step began */
    uint64_t late_until;              /* till when steps are short */
    uint64_t full_copies, full_until; /* likewise, of stacks as large as their copy */
    uint64_t redraw_at;               /* when the periods are drawn anew; 0: done */
    uint64_t last_births;             /* counted when the current second began */
    struct collect_filter filter;
    enum { BY_THREAD, BY_CPU, BY_THREAD_FOR_GOOD } sampled;
    int cgroup;
    int nice; /* Tally's own, as it was */
};

static uint64_t ns_of(const struct timeval *time)
{
    return (uint64_t)time->tv_sec * SECOND + (uint64_t)time->tv_usec * 1000;
}

static uint64_t cpu_ns(int who)
{
    struct rusage usage;
    getrusage(who, &usage);
    return ns_of(&usage.ru_utime) + ns_of(&usage.ru_stime);
}

static uint64_t user_ns(int who)
{
    struct rusage usage;
    getrusage(who, &usage);
    return ns_of(&usage.ru_utime);
}

/* --- new --- */

static int choose_rate(struct collect_session *session, struct base_error *error)
{
    if (session->options.no_time)
        return BASE_OK;
    double wanted = session->options.rate_hz;
    double allowed = (double)collect_event_setting("/proc/sys/kernel/perf_event_max_sample_rate", 100000);
    if (wanted > allowed)
        return base_fail(error, BASE_EUSAGE,
                         "-F %.0f is above what the kernel allows (%.0f); to allow it: sysctl "
                         "kernel.perf_event_max_sample_rate=%.0f",
                         wanted, allowed, wanted);
    uint64_t interrupt_ns;
    double rate = collect_rate_bearable(wanted, &interrupt_ns);
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

static void describe_host(struct collect_session *session)
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
static void describe_events(struct collect_session *session)
{
    char sampling[160];
    if (session->options.no_time)
        return;
    const struct collect_event_form *form = &session->time.form;
    collect_time_describe(&session->time, sampling, sizeof sampling);
    profile_set_meta(session->profile, "sampling", sampling);
    profile_set_metaf(session->profile, "engine", "perf_event cpu-clock, %s%s",
                      form->kernel_time ? "user and kernel time" : "user time only",
                      form->kernel_frames ? ", kernel frames" : "");
    profile_set_metaf(session->profile, "stack_copy_bytes", "%u", form->stack_copy);
    if (form->why_no_kernel_time[0])
        profile_set_meta(session->profile, "kernel_notice", form->why_no_kernel_time);
}

/* --- the engine: perf_event, or the agent's timers --- */

/* Can the agent do what was asked for? */
static bool may_time_by_agent(const struct collect_options *options)
{
    return (options->mode == COLLECT_LAUNCH || options->mode == COLLECT_ATTACH) && !options->no_time &&
           !options->calls && !options->function_count && !options->fds && !options->kernel_frames &&
           !options->timeline_bytes && !options->cpus && options->stacks == COLLECT_STACKS_FULL;
}

static int time_by_agent(struct collect_session *session, const char *reason, struct base_error *error)
{
    double rate = session->options.rate_hz;
    char *notice = session->status.notice;
    size_t size = sizeof session->status.notice;
    int result = collect_agent_timer_plan(session->options.user_only, &rate, &session->timers, error);
    if (result < 0)
        return result;
    session->options.no_time = true; /* as far as perf_event is concerned */
    session->status.rate_hz = rate;
    session->stream.sample_value = llround(1e9 / rate);
    profile_set_metaf(session->profile, "rate_hz", "%.6g", rate);
    profile_set_metaf(session->profile, "engine", "agent timers (" COLLECT_AGENT_TIMER_SIGNAL_NAME "), %s",
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

static int choose_engine(struct collect_session *session, struct base_error *error)
{
    const struct collect_options *options = &session->options;
    struct base_error refusal = {0}, old = {0};
    struct collect_event_form form = {.want_kernel_time = !options->user_only,
                                      .inherit = true,
                                      .stacks = options->stacks,
                                      .stack_copy = COPY_FIRST};
    if (options->engine == COLLECT_ENGINE_AGENT)
        return time_by_agent(session, "", error);
    if (options->engine == COLLECT_ENGINE_PERF || !may_time_by_agent(options) ||
        collect_event_probe(&form, &refusal) == BASE_OK)
        return BASE_OK;
    /* Where that does not do either, perf_event's refusal is what is said. */
    session->perf_refused = time_by_agent(session, "perf_event is refused here", &old) == BASE_OK;
    return BASE_OK;
}

static void choose_form(struct collect_session *session)
{
    const struct collect_options *options = &session->options;
    session->time.form = (struct collect_event_form){
        .want_kernel_time = !options->user_only,
        .want_kernel_frames = options->kernel_frames,
        .inherit = true,
        .inherit_threads_only = !options->follow,
        .stacks = options->stacks,
        .stack_copy = COPY_FIRST,
    };
    session->time.rate_hz = session->status.rate_hz;
}

static int set_up_calls(struct collect_session *session, struct base_error *error)
{
    const struct collect_options *options = &session->options;
    struct collect_calls_options wish = {
        .wish = options->wish, .follow = options->follow, .untold = options->no_time};
    if (!options->calls)
        return BASE_OK;
    int result = collect_calls_new(&wish, &session->stream.processes, &session->calls, error);
    session->stream.sampler.calls = session->calls;
    return result;
}

static void on_exec(void *agent, pid_t pid)
{
    collect_agent_exec(agent, pid);
}

static void on_objects(void *agent, pid_t pid)
{
    collect_agent_objects(agent, pid);
}

static void on_left(void *agent, pid_t pid)
{
    collect_agent_unhosted(agent, pid);
}

static uint64_t real_return(void *agent, pid_t pid, uint64_t address)
{
    return collect_agent_real(agent, pid, address);
}

static int set_up_agent(struct collect_session *session, struct base_error *error)
{
    const struct collect_options *options = &session->options;
    struct collect_agent_options wish = {
        .collectors = (options->heap ? 1u << WIRE_AGENT_HEAP | 1u << WIRE_AGENT_MAP : 0) |
                      (options->throws ? 1u << WIRE_AGENT_THROWS : 0) |
                      (options->fds ? 1u << WIRE_AGENT_FDS : 0) |
                      (options->instrumented ? 1u << WIRE_AGENT_INSTRUMENTED : 0) |
                      (options->function_count ? 1u << WIRE_AGENT_FUNCTION : 0) |
                      (session->timers.signal ? 1u << WIRE_AGENT_TIME : 0),
        .functions = options->functions,
        .function_count = options->function_count,
        .images = options->wish.images,
        .image_count = options->wish.image_count,
        .time = options->waits       ? COLLECT_AGENT_REAL_TIME
                : options->user_only ? COLLECT_AGENT_USER_TIME
                                     : COLLECT_AGENT_TIME,
        .timers = session->timers,
        .memory = options->agent_memory,
        .sample_bytes = options->heap_sample_bytes,
        .overhead = options->heap_overhead,
        .empty = options->empty,
        .named = options->named,
        .follow = options->follow,
        .untold = options->no_time};
    if (session->calls) {
        wish.host = collect_calls_share(session->calls);
        wish.untold = false; /* they tell */
    }
    int result = wish.collectors
                     ? collect_agent_new(&wish, &session->stream.processes, &session->agent, error)
                     : BASE_OK;
    session->stream.sampler.agent = session->agent;
    const struct collect_calls_guest guest = {on_exec, on_objects, on_left, real_return, session->agent};
    if (session->calls && session->agent)
        collect_calls_invite(session->calls, &guest);
    return result;
}

static const char *time_counter(const struct collect_session *session)
{
    return session->options.waits ? "time.real" : session->time.form.kernel_time ? "time.cpu" : "time.user";
}

static int set_up_waits(struct collect_session *session, struct base_error *error)
{
    struct collect_waits_options wish = {.sampler = &session->stream.sampler,
                                         .stacks = session->options.stacks};
    if (!session->options.waits)
        return BASE_OK;
    wish.counter =
        (uint16_t)profile_counter(session->profile, time_counter(session), "ns", false, PROFILE_SUM);
    int result = collect_waits_new(&wish, &session->waits, error);
    session->stream.waits = session->waits;
    return result;
}

static int set_up(struct collect_session *session, struct base_error *error)
{
    int result = collect_namespace_check(error);
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
        result = collect_time_init(&session->time, &session->rings, session->options.cpus, error);
    if (result < 0)
        return result;
    session->nice = getpriority(PRIO_PROCESS, 0);
    setpriority(PRIO_PROCESS, 0, OWN_NICE);
    session->start_ns = session->last_flush = session->last_second = patch_target_now();
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
    result = collect_stream_init(&session->stream, error);
    if (result >= 0)
        result = set_up_waits(session, error);
    if (result >= 0)
        result = set_up_calls(session, error);
    return result < 0 ? result : set_up_agent(session, error);
}

int collect_session_new(const struct collect_options *options, struct collect_session **made,
                        struct base_error *error)
{
    struct collect_session *session = calloc(1, sizeof *session);
    if (!session)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    session->options = *options;
    session->cgroup = -1;
    session->filter = (struct collect_filter){-1, -1, -1, -1};
    if (options->mode == COLLECT_SYSTEM || options->mode == COLLECT_CGROUP)
        session->sampled = BY_CPU;
    else if (options->cpus) /* births and mappings on other CPUs would not be heard of */
        session->sampled = BY_THREAD_FOR_GOOD;
    int result = set_up(session, error);
    if (result < 0) {
        collect_session_free(session);
        return result;
    }
    *made = session;
    return BASE_OK;
}

void collect_session_free(struct collect_session *session)
{
    if (!session)
        return;
    if (session->store)
        profile_store_close(session->store, session->profile, true, NULL);
    for (size_t i = 0; i < session->target_count; i++)
        collect_ended_close(&session->targets[i]);
    free(session->targets);
    for (size_t i = 0; i < session->owned_count; i++)
        if (session->owned[i] >= 0)
            close(session->owned[i]);
    free(session->owned);
    collect_waits_free(session->waits);
    collect_calls_free(session->calls);
    collect_agent_free(session->agent);
    collect_time_free(&session->time);
    collect_filter_close(&session->filter);
    collect_rings_free(&session->rings);
    collect_stream_free(&session->stream);
    base_map_free(&session->image_of_profile);
    free(session->polled);
    if (session->cgroup >= 0)
        close(session->cgroup);
    if (session->profile)
        profile_free(session->profile);
    free(session);
}

/* --- start --- */

static bool add_poll(struct collect_session *session, int fd)
{
    if (!base_array_room(session->polled, session->polled_count, session->polled_capacity))
        return false;
    session->polled[session->polled_count++] = (struct pollfd){.fd = fd, .events = POLLIN};
    return true;
}

/* One descriptor a ring is enough: the kernel wakes all that share it. Rings may come while recording. */
static void poll_rings(struct collect_session *session)
{
    const struct collect_time *time = &session->time;
    if (session->rings_polled == session->rings.count)
        return;
    session->rings_polled = session->rings.count;
    session->polled_count = session->first_ring_poll;
    for (size_t i = 0; i < time->event_count; i++) {
        const struct collect_time_event *event = &time->events[i];
        bool owner = event->cpu < 0 || base_map_find(&time->ring_of_cpu, (uint64_t)event->cpu) == i;
        if (owner && event->fd >= 0)
            add_poll(session, event->fd);
    }
}

static void poll_process(struct collect_session *session, pid_t pid)
{
    struct collect_ended target;
    if (!base_array_room(session->targets, session->target_count, session->target_capacity) ||
        !collect_ended_begin(&target, pid))
        return;
    if (!add_poll(session, target.file)) {
        collect_ended_close(&target);
        return;
    }
    session->targets[session->target_count++] = target;
    session->first_ring_poll = session->polled_count;
    session->living_targets++;
}

/* Where something is put into the process. */
static int own(struct collect_session *session, pid_t pid, struct base_error *error)
{
    if (!session->calls && !session->agent)
        return BASE_OK;
    if (!base_array_room(session->owned, session->owned_count, session->owned_capacity))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    int result = collect_owner_take(pid, &session->owned[session->owned_count], error);
    session->owned_count += result == BASE_OK;
    return result;
}

static size_t list_wanted(void *context, pid_t **pids)
{
    const struct collect_options *options = &((struct collect_session *)context)->options;
    *pids = malloc(options->pid_count * sizeof **pids);
    if (!*pids)
        return 0;
    memcpy(*pids, options->pids, options->pid_count * sizeof **pids);
    return options->pid_count;
}

static void look_for_left(struct collect_session *session)
{
    struct collect_left none = {0};
    struct collect_left *agent = session->agent ? collect_agent_left(session->agent) : &none;
    struct collect_left *calls = session->calls ? collect_calls_left(session->calls) : &none;
    collect_left_retry(agent, calls);
    collect_left_describe(agent, session->profile, "agent_memory_left");
    collect_left_describe(calls, session->profile, "calls_memory_left");
    const struct collect_left_process *first = collect_left_first(agent);
    first = first ? first : collect_left_first(calls);
    session->status.stays = first ? first->pid : 0;
    session->status.stays_for_good = first && !first->retry;
}

/* The agent first: as long as calls are counted, who loads an object waits until it is hooked. The words of
 * the agent's own on stacks must not meet one that unwinds, and is not, and they stand there until the agent
 * has left. */
void collect_session_leave(struct collect_session *session)
{
    if (session->has_left)
        return;
    session->has_left = true;
    if (session->calls && session->agent)
        collect_calls_invite(session->calls,
                             &(struct collect_calls_guest){.real = real_return, .context = session->agent});
    if (session->calls && session->agent)
        collect_calls_before_agent(session->calls);
    if (session->agent)
        collect_agent_leave(session->agent, NULL);
    if (session->calls)
        collect_calls_leave(session->calls, NULL);
    look_for_left(session);
}

/* Later they may go; a number that is nobody's from the start is a mistake. */
static int check_pids(const struct collect_options *options, struct base_error *error)
{
    for (size_t i = 0; i < options->pid_count; i++)
        if (kill(options->pids[i], 0) && errno == ESRCH)
            return base_fail(error, BASE_ENOTFOUND, "no process %d", (int)options->pids[i]);
    return BASE_OK;
}

/* Is the number still that of the process that was meant when the recording began? */
static bool is_meant(const struct collect_session *session, pid_t pid)
{
    for (size_t i = 0; i < session->target_count; i++)
        if (session->targets[i].pid == pid)
            return !collect_ended_is(&session->targets[i]);
    return false;
}

/* Where nothing is written into the process nothing of it matters. What cannot go now is tried again at the end. */
static int remove_remains(const struct collect_session *session, pid_t pid, struct base_error *error)
{
    struct collect_calls_cleaned cleaned = {0};
    if (!session->agent && !session->calls)
        return BASE_OK;
    int result = collect_remains_remove(pid, &cleaned, error);
    if (cleaned.bytes_left > cleaned.bytes_kept) /* what stays for good its own tally has told */
        collect_left_add(session->agent ? collect_agent_left(session->agent)
                                        : collect_calls_left(session->calls),
                         pid, cleaned.bytes_left - cleaned.bytes_kept, true);
    return result;
}

/* What seizes a process goes by its number: whether that was still the one who was meant is looked at
 * afterwards, too. */
static int attach(struct collect_session *session, pid_t pid, struct base_error *error)
{
    int result = own(session, pid, error);
    if (result >= 0)
        result = remove_remains(session, pid, error);
    if (session->agent && result >= 0) /* first: its hooks are to be there when calls are planned */
        result = collect_agent_attach(session->agent, pid, error);
    if (session->calls && result >= 0)
        result = collect_calls_attach(session->calls, pid, error);
    if (result >= 0 && (session->agent || session->calls) && !is_meant(session, pid))
        result = base_fail(error, BASE_ENOTFOUND, "process %d has ended", (int)pid);
    return result;
}

static int open_running(struct collect_session *session, struct base_error *error)
{
    const struct collect_options *options = &session->options;
    if (options->mode == COLLECT_CGROUP) {
        int result = collect_cgroup_open(options->cgroup, &session->cgroup, error);
        return result < 0 ? result : collect_time_open_cpus(&session->time, session->cgroup, error);
    }
    if (options->mode == COLLECT_SYSTEM)
        return collect_time_open_cpus(&session->time, -1, error);
    int result = check_pids(options, error);
    for (size_t i = 0; i < options->pid_count && result >= 0; i++)
        poll_process(session, options->pids[i]);
    if (result >= 0 && !options->no_time)
        result = collect_time_open_processes(&session->time, list_wanted, session, error);
    if (result < 0)
        return result;
    uint64_t now = patch_target_now();
    for (size_t i = 0; i < options->pid_count; i++) {
        bool writes = session->agent || session->calls;
        collect_processes_get(&session->stream.processes, options->pids[i], now);
        result = writes && !is_meant(session, options->pids[i])
                     ? base_fail(error, BASE_ENOTFOUND, "process %d has ended", (int)options->pids[i])
                     : attach(session, options->pids[i], error);
        if (result < 0) { /* the others are as they were before, too */
            collect_session_leave(session);
            return result;
        }
    }
    return BASE_OK;
}

static int start_running(struct collect_session *session, struct base_error *error)
{
    int result = open_running(session, error);
    if (result < 0)
        return result;
    describe_events(session);
    collect_time_enable(&session->time);
    /* What was mapped before events told of it: the agent, stubs, and what the program itself did
     * meanwhile. */
    collect_processes_reread(&session->stream.processes);
    return BASE_OK;
}

static int start_child(struct collect_session *session, bool *command_failed, struct base_error *error)
{
    struct collect_launch_legacy legacy = {session->time.descriptors, session->options.target_signals,
                                           session->nice,
                                           session->calls   ? collect_calls_helper(session->calls)
                                           : session->agent ? collect_agent_helper(session->agent)
                                                            : 0};
    struct collect_launch launch;
    int result = collect_launch_prepare(&launch, session->options.command, &legacy, error);
    if (result < 0)
        return result;
    result = own(session, launch.pid, error);
    if (result >= 0 && !session->options.no_time)
        result = collect_time_open_child(&session->time, launch.pid, error);
    if (result >= 0 && session->calls)
        result = collect_calls_launch(session->calls, launch.pid, error);
    else if (result >= 0 && session->agent)
        result = collect_agent_launch(session->agent, launch.pid, error);
    if (result >= 0 && !collect_processes_expect(&session->stream.processes, launch.pid, patch_target_now()))
        result = base_fail(error, BASE_ENOMEM, "out of memory");
    if (result < 0) {
        collect_launch_abandon(&launch);
        return result;
    }
    describe_events(session);
    poll_process(session, launch.pid);
    if (session->waits)
        collect_waits_begin(session->waits, patch_target_now());
    result = collect_launch_go(&launch, session->options.command[0], error);
    *command_failed = result < 0;
    session->status.child = result < 0 ? 0 : launch.pid;
    return result;
}

/* Getting to processes that run takes a while: what is recorded begins when all is set. */
static void restart(struct collect_session *session, uint64_t now)
{
    session->start_ns = session->stream.start_ns = session->stream.processes.start_ns = now;
    if (session->agent)
        collect_agent_restart(session->agent);
}

int collect_session_start(struct collect_session *session, bool *command_failed, struct base_error *error)
{
    *command_failed = false;
    int result = profile_store_create(session->options.output, &session->store, error);
    if (result < 0)
        return result;
    int files[4] = {-1, -1, -1, -1};
    if (session->calls)
        collect_calls_files(session->calls, files);
    if (session->agent)
        collect_agent_files(session->agent, files + POLL_AGENT - POLL_CALLS);
    if (!add_poll(session, session->options.wake_fd) || !add_poll(session, files[0]) ||
        !add_poll(session, files[1]) || !add_poll(session, files[2]) || !add_poll(session, files[3]))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    session->first_ring_poll = POLL_PROCESSES;
    result = session->options.mode == COLLECT_LAUNCH ? start_child(session, command_failed, error)
                                                     : start_running(session, error);
    if (result == BASE_EPERMISSION && session->perf_refused)
        return base_fail_context(error, result,
                                 "perf_event is refused here (see 'tally doctor'), and timers inside the "
                                 "program are not possible either");
    if (result < 0)
        return result;
    profile_lose(session->profile, WIRE_LOSS_THREAD_UNSEEN, session->time.unseen);
    uint64_t now = patch_target_now();
    if (session->waits)
        collect_waits_look(session->waits);
    if (session->options.mode != COLLECT_LAUNCH)
        restart(session, now);
    else if (!session->options.no_time) /* what runs already is at a random phase */
        session->redraw_at = now + REDRAW_FROM_NS + session->time.random % REDRAW_SPREAD_NS;
    return BASE_OK;
}

/* --- records --- */

static void work_until(struct collect_session *session, uint64_t horizon)
{
    const struct perf_event_header *header;
    uint64_t time;
    while ((header = collect_rings_next(&session->rings, horizon, &time))) {
        collect_stream_record(&session->stream, header, time);
        collect_rings_pop(&session->rings);
    }
}

/* --- now and then --- */

/* Whose copies were short before says nothing of larger ones. */
static void forget_short_copies(struct collect_session *session, uint32_t bytes)
{
    for (size_t i = 0; i < session->stream.processes.count; i++)
        session->stream.processes.items[i].short_copies = 0;
    profile_set_metaf(session->profile, "stack_copy_bytes", "%u", bytes);
}

/* All that lived at the time of the call: births until then are in the rings, or will be within the horizon.
 * A process that is missed here would go on without events. */
static size_t list_living(void *context, pid_t **pids)
{
    struct collect_session *session = context;
    const struct timespec horizon = {.tv_nsec = HORIZON_FULL_NS};
    uint64_t called = patch_target_now();
    nanosleep(&horizon, NULL);
    collect_rings_refresh(&session->rings);
    work_until(session, called);
    return collect_processes_living(&session->stream.processes, pids);
}

static void grow_copy(struct collect_session *session)
{
    struct collect_time *time = &session->time;
    uint32_t bytes =
        time->form.stack_copy * 2 < COLLECT_COPY_LARGEST ? time->form.stack_copy * 2 : COLLECT_COPY_LARGEST;
    struct base_error reason = {0};
    collect_time_list *list = session->sampled == BY_CPU ? NULL : list_living;
    if (collect_time_grow_copy(time, bytes, list, session, &reason) == BASE_OK)
        forget_short_copies(session, bytes);
    else if (reason.text[0])
        profile_set_meta(session->profile, "stack_copy_notice", reason.text);
}

/* All processes that live go into the filter's table. Whoever is born of one that is in it is entered by the
 * kernel; whoever was born before that is on the next list. */
static bool enter_living(void *context)
{
    struct collect_session *session = context;
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
            room =
                collect_filter_add(&session->filter, pids[i]) && base_map_set(&entered, (uint64_t)pids[i], 1);
            fresh++;
        }
        free(pids);
    }
    base_map_free(&entered);
    return room && !fresh;
}

static int sample_by_cpu(struct collect_session *session, struct base_error *error)
{
    int result = collect_filter_open(&session->filter, session->options.follow, error);
    if (result < 0)
        return result;
    session->stream.strangers = true;
    result = collect_time_switch_to_cpus(&session->time, &session->filter, enter_living, session, error);
    if (result < 0) {
        session->stream.strangers = false;
        collect_filter_close(&session->filter);
    }
    return result;
}

/* Many births: an inherited event sees little of short lives (collect_time.h). */
static void look_at_births(struct collect_session *session)
{
    struct base_error reason = {0};
    if (session->sampled != BY_THREAD || session->stream.births - session->last_births <= BIRTHS_MANY)
        return;
    session->sampled = sample_by_cpu(session, &reason) == BASE_OK ? BY_CPU : BY_THREAD_FOR_GOOD;
    describe_events(session);
    if (session->sampled != BY_CPU)
        profile_set_metaf(
            session->profile, "births_notice",
            "many threads or processes were born; those shorter-lived than %.1f ms are hardly sampled, since "
            "CPUs cannot be sampled instead: %s",
            (double)session->time.set_size * (double)session->stream.sample_value / 1e6, reason.text);
}

/* A leader that has exited may have left threads; when the process is gone, its mappings are of no use any
 * more, and its number may become a stranger's. */
static void forget_the_dead(struct collect_session *session)
{
    struct collect_processes *processes = &session->stream.processes;
    for (size_t i = 0; i < processes->count; i++) {
        const struct collect_process *process = &processes->items[i];
        if (!process->alive || !session->profile->processes[process->profile_process].end_ns ||
            !kill(process->pid, 0) || errno != ESRCH)
            continue;
        if (session->stream.strangers)
            collect_filter_remove(&session->filter, process->pid);
        collect_processes_forget(processes, process->pid);
    }
}

/* Does any process have too many stacks in this second that are larger than their copies? */
static void look_at_copies(struct collect_session *session, uint64_t now)
{
    bool deep = false, over = now - session->last_second >= SECOND;
    for (size_t i = 0; i < session->stream.processes.count; i++) {
        struct collect_process *process = &session->stream.processes.items[i];
        deep |=
            process->short_copies > 1 && process->short_copies * 1000 > process->samples * SHORT_PER_THOUSAND;
        if (over)
            process->samples = process->short_copies = 0;
    }
    if (over) {
        session->last_second = now;
        session->last_births = session->stream.births;
        forget_the_dead(session);
    }
    if (deep && session->time.form.stack_copy < COLLECT_COPY_LARGEST)
        grow_copy(session);
}

static int flush(struct collect_session *session, uint64_t now, struct base_error *error)
{
    profile_set_metaf(session->profile, "duration_ns", "%llu", (unsigned long long)(now - session->start_ns));
    profile_set_metaf(session->profile, "overhead_tool_cpu_ns", "%llu",
                      (unsigned long long)cpu_ns(RUSAGE_SELF));
    session->last_flush = now;
    if (session->calls)
        collect_calls_tell(session->calls);
    if (session->agent)
        collect_agent_tell(session->agent);
    return profile_store_flush(session->store, session->profile, error);
}

static void look_at_polls(struct collect_session *session)
{
    for (size_t i = 0; i < session->target_count; i++) {
        struct collect_ended *target = &session->targets[i];
        struct pollfd *polled = &session->polled[POLL_PROCESSES + i];
        if (!target->pid || (polled->fd >= 0 ? !(polled->revents & POLLIN) : !collect_ended_is(target)))
            continue;
        collect_ended_close(target);
        target->pid = 0;
        polled->fd = -1;
        if (--session->living_targets == 0)
            session->status.target_gone = true;
    }
    for (size_t i = session->first_ring_poll; i < session->polled_count; i++) {
        if (session->polled[i].revents & (POLLHUP | POLLERR))
            session->polled[i].fd = -1; /* its thread is gone: it would wake us for ever */
    }
}

static int shorter(int timeout_ms, uint64_t from, uint64_t until)
{
    int left_ms = until > from ? (int)((until - from) / 1000000) + 1 : 0;
    return left_ms < timeout_ms ? left_ms : timeout_ms;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Births are watched for; and stacks that fill their copies will soon be larger: what is read late should be
 * read soon, since the sooner it is, the surer it still is what it was. */
static int longest_step(struct collect_session *session, uint64_t now)
{
    uint64_t late = session->profile->losses[WIRE_LOSS_READ_LATE], full = session->stream.full_copies;
    if (late != session->late_reads)
        session->late_until = now + LATE_FOR_NS;
    if (full != session->full_copies)
        session->full_until = now + FULL_COPY_FOR_NS;
    session->late_reads = late;
    session->full_copies = full;
    int longest = session->sampled != BY_THREAD               ? INT_MAX
                  : now - session->start_ns < BIRTHS_EARLY_NS ? BIRTHS_EARLY_STEP_MS
                                                              : BIRTHS_STEP_MS;
    if (now < session->full_until)
        longest = least(longest, FULL_COPY_STEP_MS);
    return now < session->late_until ? LATE_STEP_MS : longest;
}

static int step_timeout(struct collect_session *session, int timeout_ms)
{
    uint64_t now = patch_target_now();
    timeout_ms = least(timeout_ms, longest_step(session, now));
    if (session->redraw_at && now >= session->redraw_at) {
        collect_time_redraw(&session->time);
        session->redraw_at = 0;
    }
    if (session->waits)
        timeout_ms = shorter(timeout_ms, now, collect_waits_due(session->waits));
    return session->redraw_at ? shorter(timeout_ms, now, session->redraw_at) : timeout_ms;
}

/* Once each. */
static void pass_notice(struct collect_session *session, const char *notice, bool *passed)
{
    if (!notice[0] || *passed)
        return;
    *passed = true;
    snprintf(session->status.notice, sizeof session->status.notice, "%s", notice);
}

static int step_agent(struct collect_session *session, struct base_error *error)
{
    int result = collect_agent_step(session->agent, error);
    pass_notice(session, collect_agent_notice(session->agent), &session->agent_noticed);
    return result;
}

static int step_calls(struct collect_session *session, struct base_error *error)
{
    int result = collect_calls_step(session->calls, error);
    pass_notice(session, collect_calls_notice(session->calls), &session->calls_noticed);
    return result;
}

void collect_session_suspend(struct collect_session *session)
{
    if (session->calls)
        collect_calls_suspend(session->calls);
    if (session->agent)
        collect_agent_suspend(session->agent);
}

void collect_session_resume(struct collect_session *session)
{
    if (session->agent) /* first: its hooks are to be there when calls are planned */
        collect_agent_resume(session->agent);
    if (session->calls)
        collect_calls_resume(session->calls);
}

int collect_session_step(struct collect_session *session, int timeout_ms, struct base_error *error)
{
    poll_rings(session);
    if (poll(session->polled, session->polled_count, step_timeout(session, timeout_ms)) < 0 && errno != EINTR)
        nanosleep(&(struct timespec){.tv_nsec = BLIND_NS}, NULL); /* a filter refuses it */
    look_at_polls(session);                                       /* also of what cannot be polled */
    uint64_t stepped = patch_target_now();
    int result = session->calls ? step_calls(session, error) : BASE_OK;
    if (session->agent && result >= 0)
        result = step_agent(session, error);
    if (result < 0)
        return result;
    if (session->waits && patch_target_now() - stepped > HOLDS_NS)
        collect_waits_busy(session->waits);
    bool late = patch_target_now() < session->late_until;
    bool full = collect_rings_refresh(&session->rings);
    for (int rounds = 0; rounds == 0 || (full && rounds < ROUNDS_MAX); rounds++) {
        work_until(session, patch_target_now() - (full || late ? HORIZON_FULL_NS : HORIZON_NS));
        full = collect_rings_refresh(&session->rings);
    }
    uint64_t now = patch_target_now();
    if (session->waits && now >= collect_waits_due(session->waits))
        collect_waits_look(session->waits);
    look_at_births(session);
    look_at_copies(session, now);
    return now - session->last_flush >= FLUSH_NS ? flush(session, now, error) : BASE_OK;
}

const struct collect_status *collect_session_status(struct collect_session *session)
{
    session->status.elapsed_ns = patch_target_now() - session->start_ns;
    session->status.tool_cpu_ns = cpu_ns(RUSAGE_SELF);
    if (session->timers.signal)
        session->stream.samples = collect_agent_timed(session->agent).samples;
    session->status.samples =
        session->stream.samples + (session->waits ? collect_waits_samples(session->waits) : 0);
    session->status.lost = session->stream.lost;
    if (session->status.recorded_ns)
        session->status.naming_ns = session->status.elapsed_ns - session->status.recorded_ns;
    session->status.file_bytes =
        session->store ? profile_store_size(session->store) : session->status.file_bytes;
    return &session->status;
}

void collect_session_clear_notice(struct collect_session *session)
{
    session->status.notice[0] = '\0';
}

const struct profile *collect_session_profile(const struct collect_session *session)
{
    return session->profile;
}

/* --- finish --- */

static const struct collect_image *image_behind(const struct collect_session *session, uint32_t profile_image)
{
    uint32_t index = base_map_find(&session->image_of_profile, profile_image);
    return index == BASE_MAP_NONE ? NULL : &session->stream.images.items[index];
}

static void index_images(struct collect_session *session)
{
    for (size_t i = 0; i < session->stream.images.count; i++) {
        if (session->stream.images.items[i].profile_image)
            base_map_set(&session->image_of_profile, session->stream.images.items[i].profile_image,
                         (uint32_t)i);
    }
}

/* What the kernel's account of the target's CPU time has more than the samples stand for. Only where nothing
 * else can be the reason, and beyond what chance explains. */
static void count_short_lives(struct collect_session *session)
{
    const struct collect_options *options = &session->options;
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    uint64_t target_ns =
        ns_of(&usage.ru_utime) + (session->time.form.kernel_time ? ns_of(&usage.ru_stime) : 0);
    uint64_t value = (uint64_t)session->stream.sample_value;
    uint64_t seen_ns = (session->stream.samples + session->stream.lost) * value;
    if (options->mode != COLLECT_LAUNCH || options->no_time || !options->follow || options->cpus ||
        session->profile->losses[WIRE_LOSS_THROTTLED] ||
        seen_ns + target_ns * UNSEEN_PER_CENT / 100 + UNSEEN_SAMPLES * value >= target_ns)
        return;
    profile_lose(session->profile, WIRE_LOSS_SHORT_LIVED, (target_ns - seen_ns) / 1000000);
}

/* The same, where each sample has a length of its own. */
static void count_untimed(struct collect_session *session)
{
    const struct collect_agent_timed timed = collect_agent_timed(session->agent);
    uint64_t waited_ns = session->options.user_only ? user_ns(RUSAGE_CHILDREN) : cpu_ns(RUSAGE_CHILDREN);
    bool whole = session->options.mode == COLLECT_LAUNCH && session->options.follow;
    uint64_t target_ns = whole ? waited_ns : timed.spent_ns, seen_ns = timed.ns;
    uint64_t chance_ns = UNSEEN_SAMPLES * (uint64_t)session->stream.sample_value;
    session->stream.samples = timed.samples;
    if (seen_ns + target_ns * UNSEEN_PER_CENT / 100 + chance_ns < target_ns)
        profile_lose(session->profile, WIRE_LOSS_AGENT_UNTIMED, (target_ns - seen_ns) / 1000000);
}

/* By the kernel's account of what was waited for. What nobody has waited for, such as daemons, or children of
 * a shell that was interrupted, is not in it: then, and of what was not launched, it is what the samples
 * stand for. */
static uint64_t target_cpu_ns(const struct collect_session *session)
{
    uint64_t value = (uint64_t)session->stream.sample_value, sampled_ns = session->stream.samples * value;
    uint64_t waited_ns = session->options.mode == COLLECT_LAUNCH ? cpu_ns(RUSAGE_CHILDREN) : 0;
    if (session->timers.signal && !waited_ns)
        return collect_agent_timed(session->agent).spent_ns;
    bool chance = sampled_ns < waited_ns + waited_ns / 4 + UNSEEN_SAMPLES * value;
    return waited_ns && chance ? waited_ns : sampled_ns;
}

static void describe_end(struct collect_session *session, const char *exit_status)
{
    struct profile *profile = session->profile;
    if (session->timers.signal)
        count_untimed(session);
    uint64_t target_ns = target_cpu_ns(session);
    profile_set_metaf(profile, "target_cpu_ns", "%llu", (unsigned long long)target_ns);
    count_short_lives(session);
    if (exit_status)
        profile_set_meta(profile, "exit_status", exit_status);
    bool waited = session->waits && collect_waits_samples(session->waits);
    if (!session->stream.samples && !waited && (!session->options.no_time || session->timers.signal))
        profile_set_metaf(
            profile, "no_samples_reason",
            "the target used %.1f ms of CPU time in %.2f s; %.1f ms lie between two samples of a thread",
            (double)target_ns / 1e6, (double)(session->last_flush - session->start_ns) / 1e9,
            (session->timers.signal ? 1.0 : (double)session->time.set_size) *
                (double)session->stream.sample_value / 1e6);
}

/* Those that the session knew and that live still. */
static size_t count_left(const struct collect_session *session)
{
    pid_t *pids = NULL;
    size_t left = 0;
    size_t count = session->options.mode == COLLECT_LAUNCH
                       ? collect_processes_living(&session->stream.processes, &pids)
                       : 0;
    for (size_t i = 0; i < count; i++)
        left += patch_target_lives(pids[i]);
    free(pids);
    return left;
}

struct named_progress {
    struct collect_session *session;
    void (*progress)(void *context, size_t done, size_t total);
    void *context;
};

static const struct elf_image *image_for(void *context, uint32_t profile_image)
{
    const struct named_progress *named = context;
    const struct collect_image *image = image_behind(named->session, profile_image);
    return image ? image->elf : NULL;
}

static void root_for(void *context, uint32_t profile_image, char *path, size_t size)
{
    const struct named_progress *named = context;
    const struct collect_image *image = image_behind(named->session, profile_image);
    if (image && image->root >= 0)
        snprintf(path, size, "/proc/self/fd/%d", image->root);
}

static void pass_progress(void *context, size_t done, size_t total)
{
    const struct named_progress *named = context;
    if (named->progress)
        named->progress(named->context, done, total);
}

int collect_session_finish(struct collect_session *session, const char *exit_status,
                           void (*progress)(void *context, size_t done, size_t total), void *context,
                           struct base_error *error)
{
    collect_time_disable(&session->time);
    if (session->waits) {
        collect_waits_look(session->waits);
        collect_waits_finish(session->waits);
    }
    collect_session_leave(session);
    if (session->agent)
        pass_notice(session, collect_agent_notice(session->agent), &session->agent_noticed);
    collect_rings_refresh(&session->rings);
    work_until(session, UINT64_MAX - 1);
    if (session->calls) {
        collect_calls_finish(session->calls);
        pass_notice(session, collect_calls_notice(session->calls), &session->calls_noticed);
    }
    session->last_flush = patch_target_now();
    session->status.recorded_ns = session->last_flush - session->start_ns;
    profile_set_metaf(session->profile, "duration_ns", "%llu",
                      (unsigned long long)session->status.recorded_ns);
    describe_end(session, exit_status);
    collect_processes_name_generated(&session->stream.processes);
    index_images(session);
    struct named_progress named = {session, progress, context};
    struct collect_resolve_options resolve = {.debuginfod = session->options.debuginfod,
                                              .lines = true,
                                              .debug_file_share = DEBUG_FILE_SHARE,
                                              .limit_ns = RESOLVE_LIMIT_NS,
                                              .image = image_for,
                                              .root = root_for,
                                              .progress = pass_progress,
                                              .context = &named};
    collect_resolve(session->profile, &resolve, NULL);
    session->status.left = count_left(session); /* late: what was about to end has had the time */
    profile_set_metaf(session->profile, "overhead_tool_cpu_ns", "%llu",
                      (unsigned long long)cpu_ns(RUSAGE_SELF));
    profile_set_meta(session->profile, "complete", "1");
    session->status.file_bytes = profile_store_size(session->store);
    struct profile_store *store = session->store;
    session->store = NULL;
    return profile_store_close(store, session->profile, false, error);
}
