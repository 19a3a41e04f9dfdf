/* All system calls below are made in the target's name. Before anything is changed, all those that the agent
 * will make are tried, with arguments that change nothing: a filter that forbids one is known then
 * (trace_seccomp.h judges them before they are made). */
#include "probe_timer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base_array.h"
#include "base_clock.h"
#include "base_map.h"
#include "proc_status.h"
#include "proc_target.h"

enum {
    TICKS_LEAST = 2, /* the mean interval */
    LINUX_MAJOR = 5, /* from here on timers' signals are made on the way to user mode */
    LINUX_MINOR = 11,
    NOBODY = 0x7fffffff, /* a timer that is none */
    PER_THREAD = 4,      /* in a clock's number */
    SET_SIZE = 8,
    FLAGS_SIGINFO = 4,
    FLAGS_RESTORER = 0x04000000,
    FLAGS_ONSTACK = 0x08000000,
    FLAGS_RESTART = 0x10000000,
};

/* --- the plan --- */

static bool is_new_enough(void)
{
    struct utsname host;
    int major = 0, minor = 0;
    if (uname(&host) || sscanf(host.release, "%d.%d", &major, &minor) != 2)
        return false;
    return major > LINUX_MAJOR || (major == LINUX_MAJOR && minor >= LINUX_MINOR);
}

int probe_timer_plan(bool user, double *rate_hz, struct shared_timers *timing, struct base_error *error)
{
    struct timespec tick = {.tv_nsec = 10000000};
    if (!is_new_enough())
        return base_fail(
            error, BASE_EUNSUPPORTED,
            "samples by the agent's timers need Linux %d.%d: before, they would interrupt system "
            "calls",
            LINUX_MAJOR, LINUX_MINOR);
    clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
    double step = (double)tick.tv_nsec, mean = 1e9 / *rate_hz;
    mean = mean < TICKS_LEAST * step ? TICKS_LEAST * step : mean;
    /* From half of the mean to one and a half of it; half a tick passes on average until the kernel looks. */
    *timing = (struct shared_timers){.least_ns = (uint64_t)((mean - step) / 2),
                                     .spread_ns = (uint64_t)mean,
                                     .mean_ns = (uint64_t)mean,
                                     .tick_ns = (uint64_t)step,
                                     .signal = SIGURG,
                                     .other = SIGWINCH,
                                     .clock = user ? WIRE_AGENT_CLOCK_USER : WIRE_AGENT_CLOCK_CPU};
    *rate_hz = 1e9 / mean;
    return BASE_OK;
}

/* A process's clock has the number of its process, complemented (include/linux/posix-timers.h). */
static uint64_t clock_of(pid_t id, uint32_t clock, bool thread)
{
    return (uint32_t)(~(uint32_t)id << 3 | (thread ? PER_THREAD : 0u) | clock);
}

uint64_t probe_timer_clock(pid_t pid, uint32_t clock)
{
    return base_clock_of((clockid_t)clock_of(pid, clock, false));
}

/* --- the threads that there are --- */

struct thread {
    uint32_t tid; /* as its own namespace has it */
    bool blocked;
    uint32_t place; /* in the table of timers */
};

struct beginning {
    const struct probe_timer_place *place;
    struct loader_agent *agent;
    struct wire_agent_timer *timers; /* in our mapping */
    uint64_t timers_at, control_at;  /* in the target's */
    struct thread *threads;
    size_t count, capacity;
    struct helper_trace_call *calls;
    size_t call_count;
    uint32_t own_pid, signal;
    bool taken; /* the signal is handled, or ignored */
    bool moves; /* there were timers, with the first signal */
    struct base_error *error;
};

static uint64_t bit_of(const struct beginning *beginning)
{
    return UINT64_C(1) << (beginning->signal - 1);
}

/* False: out of memory. One that has ended is left out. */
static bool add_thread(struct beginning *beginning, pid_t tid)
{
    struct proc_status status;
    long inside, own_pid;
    proc_status_read(beginning->place->pid, tid, &status);
    const char *text = status.text;
    proc_status_numbers(text, "NSpid", &inside);
    if (proc_status_numbers(text, "NStgid", &own_pid))
        beginning->own_pid = (uint32_t)own_pid;
    uint64_t taken = proc_status_set(text, "SigIgn") | proc_status_set(text, "SigCgt");
    beginning->taken |= (taken & bit_of(beginning)) != 0;
    const struct thread thread = {
        .tid = (uint32_t)inside,
        .blocked = (proc_status_set(text, "SigBlk") & bit_of(beginning)) != 0,
    };
    if (!thread.tid)
        return true;
    if (!base_array_room(beginning->threads, beginning->count, beginning->capacity))
        return false;
    beginning->threads[beginning->count++] = thread;
    return true;
}

/* These do in the middle of a call what else is done behind it, and would be interrupted (agent_timer.c). */
static bool is_interruptible(const char *name)
{
    return !strcmp(name, "anon_inode:[io_uring]") || !strncmp(name, "anon_inode:kvm-vcpu", 19);
}

static int refuse_interruptible(const struct beginning *beginning)
{
    char path[64], text[64];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)beginning->place->pid);
    DIR *all = opendir(path);
    const struct dirent *entry;
    while (all && !found && (entry = readdir(all))) {
        ssize_t size = readlinkat(dirfd(all), entry->d_name, text, sizeof text - 1);
        text[size > 0 ? size : 0] = '\0';
        found = is_interruptible(text);
    }
    if (all)
        closedir(all);
    return found ? base_fail(beginning->error, BASE_EUSAGE,
                             "process %d waits by %s, which the agent's timers would interrupt",
                             (int)beginning->place->pid, text)
                 : BASE_OK;
}

static int list_threads(struct beginning *beginning)
{
    char path[64];
    bool room = true;
    snprintf(path, sizeof path, "/proc/%d/task", (int)beginning->place->pid);
    DIR *all = opendir(path);
    const struct dirent *entry;
    while (all && room && (entry = readdir(all)))
        room = entry->d_name[0] == '.' || add_thread(beginning, (pid_t)strtol(entry->d_name, NULL, 10));
    if (all)
        closedir(all);
    if (!room)
        return base_fail(beginning->error, BASE_ENOMEM, "out of memory");
    if (beginning->taken)
        return base_fail(beginning->error, BASE_EUSAGE,
                         "process %d uses " PROBE_TIMER_SIGNAL_NAME
                         " itself, the signal of the agent's timers",
                         (int)beginning->place->pid);
    return BASE_OK;
}

/* --- calls --- */

static void add_call(struct beginning *beginning, const struct helper_trace_call *call)
{
    beginning->calls[beginning->call_count++] = *call;
}

static int make_calls(struct beginning *beginning)
{
    return loader_call(beginning->agent, beginning->calls, beginning->call_count, beginning->error);
}

static uint64_t control_address(const struct beginning *beginning, size_t offset)
{
    return beginning->control_at + offset;
}

static int check_refused(const struct beginning *beginning)
{
    for (size_t i = 0; i < beginning->call_count; i++) {
        const struct helper_trace_call *call = &beginning->calls[i];
        if (helper_trace_is_refused(call))
            return base_fail_errno(beginning->error, (int)-call->answer, "%s in process %d", call->name,
                                   (int)beginning->place->pid);
    }
    return BASE_OK;
}

/* What the agent calls, and what the signal's action is. */
static int try_agent_calls(struct beginning *beginning)
{
    struct wire_agent_control *control = shared_file_control(beginning->place->file);
    const struct shared_timers *timing = &beginning->place->timers;
    const struct helper_trace_call calls[] = {
        {.name = "clock_gettime",
         .number = SYS_clock_gettime,
         .arguments = {clock_of(0, timing->clock, true)}},
        {.name = "timer_settime", .number = SYS_timer_settime, .arguments = {NOBODY}},
        {.name = "timer_delete", .number = SYS_timer_delete, .arguments = {NOBODY}},
        {.name = "timer_create", .number = SYS_timer_create, .arguments = {NOBODY}},
        {.name = "rt_sigprocmask", .number = SYS_rt_sigprocmask, .arguments = {0, 0, 0, SET_SIZE}},
        {.name = "rt_sigpending", .number = SYS_rt_sigpending, .arguments = {0, SET_SIZE}},
        {.name = "poll", .number = SYS_poll, .arguments = {0}},
        {.name = "fcntl", .number = SYS_fcntl, .arguments = {NOBODY, F_GETFL}},
        {.name = "sigaltstack", .number = SYS_sigaltstack, .arguments = {0}},
        {.name = "gettid", .number = SYS_gettid, .arguments = {0}},
        {.name = "getpid", .number = SYS_getpid, .arguments = {0}},
        {.name = "tgkill", .number = SYS_tgkill, .arguments = {beginning->own_pid, beginning->own_pid}},
        {.name = "rt_sigaction",
         .number = SYS_rt_sigaction,
         .arguments = {beginning->signal, 0,
                       control_address(beginning, offsetof(struct wire_agent_control, found)), SET_SIZE}},
    };
    memcpy(beginning->calls, calls, sizeof calls);
    beginning->call_count = sizeof calls / sizeof *calls;
    int result = make_calls(beginning);
    if (result == BASE_OK)
        result = check_refused(beginning);
    if (result < 0)
        return result;
    if (beginning->calls[beginning->call_count - 1].answer || control->found.handler)
        return base_fail(beginning->error, BASE_EUSAGE,
                         "process %d has " PROBE_TIMER_SIGNAL_NAME " for something else",
                         (int)beginning->place->pid);
    return BASE_OK;
}

/* --- the handler and the timers --- */

static int fill_action(struct beginning *beginning)
{
    struct wire_agent_control *control = shared_file_control(beginning->place->file);
    uint64_t base = loader_base(beginning->agent), handler, restorer;
    if (!loader_image_symbol(beginning->place->image, "agent_timer_handler", &handler) ||
        !loader_image_symbol(beginning->place->image, "agent_entry_restorer", &restorer))
        return base_fail(beginning->error, BASE_EUNSUPPORTED, "this build's agent has no timers");
    control->action = (struct wire_agent_action){
        base + handler, FLAGS_SIGINFO | FLAGS_RESTORER | FLAGS_ONSTACK | FLAGS_RESTART, base + restorer,
        UINT64_MAX}; /* all signals wait */
    struct wire_agent_process *process = shared_file_process(beginning->place->file, 0);
    process->before = control->found;
    process->timer_signal = beginning->signal;
    return BASE_OK;
}

static uint32_t probed_slot(const struct thread *thread, uint32_t number)
{
    return (wire_agent_timer_home(thread->tid) + number) % WIRE_AGENT_TIMERS;
}

/* The one that it had: it may be about to look at that. */
static bool take_place(struct beginning *beginning, struct thread *thread)
{
    uint32_t own = 0, free = 0;
    while (own < WIRE_AGENT_TIMER_PROBES && beginning->timers[probed_slot(thread, own)].tid != thread->tid)
        own++;
    while (free < WIRE_AGENT_TIMER_PROBES && beginning->timers[probed_slot(thread, free)].tid)
        free++;
    uint32_t number = own < WIRE_AGENT_TIMER_PROBES ? own : free;
    if (number == WIRE_AGENT_TIMER_PROBES)
        return false;
    thread->place = probed_slot(thread, number);
    beginning->timers[thread->place] = (struct wire_agent_timer){.tid = thread->tid};
    return true;
}

/* struct sigevent: value, signal, how, target thread. */
static void add_timer(struct beginning *beginning, struct thread *thread)
{
    const struct shared_timers *timing = &beginning->place->timers;
    struct wire_agent_timer *timer = &beginning->timers[thread->place];
    uint64_t there = beginning->timers_at + thread->place * sizeof *timer;
    const int32_t event[4] = {(int32_t)beginning->signal, SIGEV_THREAD_ID, (int32_t)thread->tid, 0};
    /* So that it is found when tally is killed before it is armed; a number that no thread has until then. */
    timer->id = NOBODY;
    timer->state = WIRE_AGENT_TIMER_ENDED;
    memset(timer->call, 0, sizeof timer->call);
    timer->call[0] = WIRE_AGENT_TIMER_VALUE(thread->place);
    memcpy(&timer->call[1], event, sizeof event);
    add_call(beginning,
             &(struct helper_trace_call){.name = "timer_create",
                                         .number = SYS_timer_create,
                                         .arguments = {clock_of((pid_t)thread->tid, timing->clock, true),
                                                       there + offsetof(struct wire_agent_timer, call),
                                                       there + offsetof(struct wire_agent_timer, id)}});
}

/* Threads without a place are left out, and counted. */
static int create_timers(struct beginning *beginning)
{
    struct wire_agent_process *process = shared_file_process(beginning->place->file, 0);
    size_t kept = 0;
    beginning->call_count = 0;
    add_call(beginning,
             &(struct helper_trace_call){
                 .name = "rt_sigaction",
                 .number = SYS_rt_sigaction,
                 .arguments = {beginning->signal,
                               control_address(beginning, offsetof(struct wire_agent_control, action)), 0,
                               SET_SIZE}});
    for (size_t i = 0; i < beginning->count; i++) {
        if (!take_place(beginning, &beginning->threads[i])) {
            process->untimed++;
            continue;
        }
        beginning->threads[kept] = beginning->threads[i];
        add_timer(beginning, &beginning->threads[kept++]);
    }
    beginning->count = kept;
    return make_calls(beginning);
}

/* struct itimerspec: every (never), first. */
static void arm_timer(struct beginning *beginning, const struct thread *thread)
{
    struct wire_agent_timer *timer = &beginning->timers[thread->place];
    const struct shared_timers *timing = &beginning->place->timers;
    uint64_t random = base_hash(shared_file_control(beginning->place->file)->sample_seed ^ thread->tid);
    uint64_t first = random % timing->mean_ns; /* as agent_timer.c draws it */
    first = first > timing->tick_ns ? first - timing->tick_ns : 1;
    memset(timer->call, 0, sizeof timer->call);
    timer->call[2] = first / 1000000000;
    timer->call[3] = first % 1000000000;
    timer->state = WIRE_AGENT_TIMER_ARMED;
    add_call(beginning,
             &(struct helper_trace_call){.name = "timer_settime",
                                         .number = SYS_timer_settime,
                                         .arguments = {timer->id, 0,
                                                       beginning->timers_at + thread->place * sizeof *timer +
                                                           offsetof(struct wire_agent_timer, call)}});
}

static int arm_timers(struct beginning *beginning)
{
    struct wire_agent_process *process = shared_file_process(beginning->place->file, 0);
    const struct helper_trace_call *created = beginning->calls + 1;
    for (size_t i = 0, calls = 0; i < beginning->count;
         i++) { /* calls are replaced behind those that are read */
        const struct thread *thread = &beginning->threads[i];
        struct wire_agent_timer *timer = &beginning->timers[thread->place];
        bool made = created[i].answer == 0;
        beginning->call_count = calls;
        if (!made) {
            timer->tid = 0;
            timer->state = WIRE_AGENT_TIMER_NONE;
            process->untimed++;
        } else if (thread->blocked) {
            timer->state = WIRE_AGENT_TIMER_IDLE;
            process->idle++;
        } else {
            arm_timer(beginning, thread);
        }
        calls = beginning->call_count;
    }
    process->own_pid = beginning->own_pid;
    __atomic_store_n(&process->timing, WIRE_AGENT_TIMED, __ATOMIC_RELEASE);
    return make_calls(beginning);
}

/* --- when the program takes the first signal --- */

/* Where it has none, no terminal sends the signal; but a process that left it may still be in the group
 * that it sends it to. Without a leader the session has none; a leader that is not seen, 0, is of another
 * namespace. */
static bool has_terminal(pid_t pid)
{
    struct proc_target_facts own, leader;
    if (proc_target_facts(pid, pid, &own) < 0 || own.terminal || !own.session)
        return true;
    return proc_target_facts(own.session, own.session, &leader) == BASE_OK && leader.terminal;
}

static bool blocks_somewhere(const struct beginning *beginning)
{
    bool blocked = false;
    for (size_t i = 0; i < beginning->count; i++)
        blocked |= beginning->threads[i].blocked;
    return blocked;
}

/* Places of threads that are no more are free again. False: a thread is making a timer. */
static bool clear_table(struct beginning *beginning)
{
    for (uint32_t i = 0; i < WIRE_AGENT_TIMERS; i++) {
        bool runs = false;
        if (beginning->timers[i].state != WIRE_AGENT_TIMER_NONE)
            return false;
        for (size_t j = 0; j < beginning->count && beginning->timers[i].tid; j++)
            runs |= beginning->threads[j].tid == beginning->timers[i].tid;
        if (!runs)
            beginning->timers[i].tid = 0;
    }
    return true;
}

/* Our memory, and not that of a program which was started, or of another process, meanwhile. */
static bool has_region(const struct beginning *beginning)
{
    const struct wire_agent_control *ours = shared_file_control(beginning->place->file);
    struct wire_agent_control theirs;
    return proc_target_read(beginning->place->pid, beginning->control_at, &theirs, sizeof theirs) ==
               sizeof theirs &&
           theirs.magic == ours->magic && theirs.tally_pid == ours->tally_pid &&
           theirs.sample_seed == ours->sample_seed;
}

/* While the process is held: what is noted now was noted before it was done (agent_timer.c, 6). */
static int may_move(struct beginning *beginning)
{
    if (!has_region(beginning))
        return base_fail(beginning->error, BASE_ENOTFOUND, "process %d runs another program",
                         (int)beginning->place->pid);
    const struct wire_agent_process *process = shared_file_process(beginning->place->file, 0);
    if (process->unmovable || has_terminal(beginning->place->pid))
        return base_fail(beginning->error, BASE_EUSAGE, "process %d may use the other signal, too",
                         (int)beginning->place->pid);
    if (process->timing != WIRE_AGENT_CLAIMED || process->unrecorded || process->request ||
        blocks_somewhere(beginning) || !clear_table(beginning))
        return base_fail(beginning->error, BASE_EBUSY, "process %d is about to make a thread or a program",
                         (int)beginning->place->pid);
    return BASE_OK;
}

static int begin_timers(struct beginning *beginning)
{
    const struct probe_timer_place *place = beginning->place;
    uint64_t region = shared_file_region(place->file, 0) + place->file->layout.timers;
    beginning->timers = (struct wire_agent_timer *)(void *)(place->file->bytes + region);
    beginning->control_at = loader_region(beginning->agent);
    beginning->timers_at = beginning->control_at + region;
    int result = list_threads(beginning);
    if (result == BASE_OK)
        result = refuse_interruptible(beginning);
    if (result == BASE_OK && beginning->moves)
        result = may_move(beginning);
    if (result < 0)
        return result;
    beginning->calls = calloc(beginning->count + 16, sizeof *beginning->calls);
    if (!beginning->calls)
        return base_fail(beginning->error, BASE_ENOMEM, "out of memory");
    result = try_agent_calls(beginning);
    if (result == BASE_OK)
        result = fill_action(beginning);
    if (result == BASE_OK)
        result = create_timers(beginning);
    return result == BASE_OK ? arm_timers(beginning) : result;
}

static int begin_and_free(struct beginning *beginning)
{
    int result = begin_timers(beginning);
    free(beginning->threads);
    free(beginning->calls);
    return result;
}

int probe_timer_begin(void *context, struct loader_agent *agent, struct base_error *error)
{
    const struct probe_timer_place *place = context;
    return begin_and_free(
        &(struct beginning){.place = place, .agent = agent, .signal = place->timers.signal, .error = error});
}

int probe_timer_move(void *context, struct loader_agent *agent, struct base_error *error)
{
    const struct probe_timer_place *place = context;
    return begin_and_free(&(struct beginning){
        .place = place, .agent = agent, .signal = place->timers.other, .moves = true, .error = error});
}
