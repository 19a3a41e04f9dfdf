#include "probe.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent_blob.h"
#include "base_array.h"
#include "base_clock.h"
#include "perf_record.h"
#include "probe_filter.h"
#include "probe_inside.h"
#include "probe_timer.h"
#include "probe_uprobe.h"
#include "proc_commit.h"
#include "proc_target.h"
#include "remains.h"
#include "sample_privileges.h"
#include "shared_proc.h"
#include "wire_loss.h"

enum {
    PATIENCE_MS =
        200, /* tally's clock is told every 10 ms; beside 16 runnable threads on two processors it was
                          late by 115 ms */
    PUBLISH_SHARE = 20,   /* telling may take one part in so many of the time */
    LOOK_NS = 1000000000, /* for who is left of a family */
};

void probe_note(struct probe *agent, const char *what, const struct base_error *why)
{
    if (!agent->notice[0])
        snprintf(agent->notice, sizeof agent->notice, "%.60s: %.190s", what, why->text);
    profile_set_meta(agent->profile, "agent_notice", agent->notice);
}

static void take_note(void *agent, const char *what, const struct base_error *why)
{
    probe_note(agent, what, why);
}

static uint64_t since_start(const struct probe *agent)
{
    uint64_t now = base_clock_now(), start = agent->processes->start_ns;
    return now > start ? now - start : 0;
}

/* --- making and freeing --- */

static int make_plans(struct probe *agent, struct base_error *error)
{
    const struct probe_functions_request request = {
        .heap = probe_does(agent, WIRE_AGENT_HEAP),
        .passes = agent->options.sample_bytes && !probe_asks_sizes(agent),
        .maps = probe_does(agent, WIRE_AGENT_MAP),
        .throws = probe_does(agent, WIRE_AGENT_THROWS),
        .named = agent->options.named,
        .descriptors = probe_does(agent, WIRE_AGENT_FDS),
        .instrumented = probe_does(agent, WIRE_AGENT_INSTRUMENTED),
        .timed = agent->options.functions,
        .timed_count = agent->options.function_count,
        .timers = probe_does(agent, WIRE_AGENT_TIME),
        .shared = agent->options.host != NULL,
        .ends = agent->empty.flags != 0 || probe_does(agent, WIRE_AGENT_FDS),
        .sizes = probe_asks_sizes(agent)};
    int result = loader_image_open(agent_blob, agent_blob_size, &agent->image, error);
    if (result == BASE_OK)
        result = probe_functions_make(&agent->functions, agent->image, &request, error);
    if (result < 0)
        return result;
    agent->plans = loader_plans_new(agent->functions.items, agent->functions.count);
    if (agent->plans)
        loader_plans_leave_out(agent->plans, agent->options.images, agent->options.image_count);
    agent->found = (struct probe_named_found){
        .named = agent->options.named ? agent->options.named->items : NULL,
        .named_count = agent->functions.named,
        .timed = agent->options.functions,
        .timed_count = agent->options.function_count,
        .images = agent->processes->images,
        .profile = agent->profile,
        .note = take_note,
        .context = agent,
    };
    return agent->plans ? probe_named_found_begin(&agent->found, error)
                        : base_fail(error, BASE_ENOMEM, "out of memory");
}

static int begin_timing(struct probe *agent, struct base_error *error)
{
    if (!probe_replaces(agent) && !probe_times(agent))
        return BASE_OK;
    int result = probe_timing_begin(&agent->timing, probe_times(agent), error);
    if (result == BASE_OK)
        agent->request.ns_of_ticks = probe_timing_fixed(&agent->timing);
    return result;
}

static int init_figures(struct probe *agent, struct base_error *error)
{
    int result = probe_does(agent, WIRE_AGENT_HEAP)
                     ? shared_heap_init(&agent->heap, agent->profile, agent->options.sample_bytes, error)
                     : shared_heap_init_idle(&agent->heap, agent->profile, error);
    agent->heap.samples_only = agent->options.collectors == 1u << WIRE_AGENT_TIME;
    if (result == BASE_OK)
        result = shared_counts_init(&agent->counts, agent->profile, agent->options.collectors,
                                    agent->options.time, error);
    if (result == BASE_OK && probe_does(agent, WIRE_AGENT_FDS))
        result = shared_descriptors_init(&agent->descriptors, agent->profile, error);
    return result == BASE_OK ? shared_empty_init(&agent->empty, agent->profile, agent->options.empty, error)
                             : result;
}

static uint32_t flags_of(const struct probe_options *options, const struct shared_empty *empty)
{
    return empty->flags | (options->follow ? WIRE_AGENT_FOLLOW : 0u) |
           (options->overhead == PROFILE_HEAP_INCLUDE ? WIRE_AGENT_INCLUDE : 0u) |
           (options->overhead == PROFILE_HEAP_DELTA ? WIRE_AGENT_DELTA : 0u) |
           (proc_commit_is_strict() ? WIRE_AGENT_COMMIT : 0u);
}

/* What is not used is not mapped. */
static uint32_t parts_of(const struct probe *agent)
{
    const uint32_t always = 1u << WIRE_AGENT_PART_CONTROL | 1u << WIRE_AGENT_PART_ROWS |
                            1u << WIRE_AGENT_PART_HEAD | 1u << WIRE_AGENT_PART_NODES |
                            1u << WIRE_AGENT_PART_INDEX | 1u << WIRE_AGENT_PART_CELLS |
                            1u << WIRE_AGENT_PART_THREADS;
    return always | (probe_does(agent, WIRE_AGENT_HEAP) ? 1u << WIRE_AGENT_PART_BLOCKS : 0) |
           (probe_does(agent, WIRE_AGENT_MAP) ? 1u << WIRE_AGENT_PART_RANGES : 0) |
           (probe_does(agent, WIRE_AGENT_FDS) ? 1u << WIRE_AGENT_PART_DESCRIPTORS : 0) |
           (probe_does(agent, WIRE_AGENT_TIME) ? 1u << WIRE_AGENT_PART_TIMERS : 0) |
           (agent->options.function_count ? 1u << WIRE_AGENT_PART_LATENCIES : 0) |
           (probe_replaces(agent) ? 1u << WIRE_AGENT_PART_OWN : 0);
}

int probe_new(const struct probe_options *options, struct sample_processes *processes, struct probe **made,
              struct base_error *error)
{
    struct probe *agent = calloc(1, sizeof *agent);
    if (!agent)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    agent->options = *options;
    agent->processes = processes;
    agent->profile = processes->profile;
    agent->own.socket = -1;
    agent->helper = options->host ? options->host : &agent->own;
    int result = init_figures(agent, error);
    agent->request = (struct shared_request){.memory = options->memory ? options->memory : PROBE_MEMORY,
                                             .flags = flags_of(options, &agent->empty),
                                             .sample_bytes = options->sample_bytes,
                                             .seed = base_clock_now(),
                                             .patience_ms = PATIENCE_MS,
                                             .parts = parts_of(agent),
                                             .timers = options->timers};
    if (result == BASE_OK && !options->host)
        result = helper_begin(&agent->own, error);
    if (result == BASE_OK)
        result = make_plans(agent, error);
    if (result == BASE_OK)
        result = loader_listen_new(processes->start_ns, &agent->listener, error);
    if (result == BASE_OK)
        result = begin_timing(agent, error);
    if (result == BASE_OK && probe_does(agent, WIRE_AGENT_HEAP))
        profile_set_meta(agent->profile, "heap_overhead", profile_heap_overhead_name(options->overhead));
    if (result < 0) {
        probe_free(agent);
        return result;
    }
    *made = agent;
    return BASE_OK;
}

void probe_free(struct probe *agent)
{
    if (!agent)
        return;
    helper_end(&agent->own);
    while (agent->member_count)
        probe_members_drop(agent, agent->member_count - 1);
    while (agent->family_count)
        probe_members_free_family(agent, agent->families[0]);
    probe_undiscovered_free(&agent->undiscovered);
    loader_listen_free(agent->listener);
    loader_plans_free(agent->plans);
    loader_image_close(agent->image);
    shared_cookies_free(&agent->cookies);
    remains_left_free(&agent->left);
    probe_timing_end(&agent->timing);
    probe_named_found_end(&agent->found);
    free(agent->functions.items);
    free(agent->families);
    free(agent->members);
    free(agent->watched);
    free(agent);
}

pid_t probe_helper(const struct probe *agent)
{
    return agent->helper->pid;
}

void probe_files(const struct probe *agent, int files[2])
{
    files[0] = agent->options.host ? -1 : agent->helper->socket;
    files[1] = loader_listen_file(agent->listener);
}

void probe_restart(struct probe *agent)
{
    loader_listen_restart(agent->listener, agent->processes->start_ns);
}

const char *probe_notice(const struct probe *agent)
{
    return agent->notice;
}

struct remains_left *probe_left(struct probe *agent)
{
    return &agent->left;
}

/* --- telling --- */

static struct shared_descriptors_place place_of(const struct probe_member *member)
{
    return (struct shared_descriptors_place){&member->family->file, member->region, member->pid};
}

static void look_at_descriptors(struct probe *agent, struct probe_member *member,
                                enum shared_descriptors_look which)
{
    const struct shared_descriptors_place place = place_of(member);
    shared_descriptors_look(&agent->descriptors, &place, &member->opened, which);
}

static int publish_counts(struct probe *agent, const struct shared_tree *tree, struct probe_member *member,
                          bool final, struct base_error *error)
{
    const struct shared_descriptors_place place = place_of(member);
    const struct shared_descriptors_whose whose = {member->process, member->thread, since_start(agent),
                                                   final};
    struct shared_nodes nodes = {.profile = agent->profile,
                                 .tree = tree,
                                 .cookies = agent->cookies.items,
                                 .cookie_count = agent->cookies.count,
                                 .special_unknown = agent->heap.special_unknown};
    int result = shared_counts_publish(&agent->counts, &nodes, &member->counted, member->thread, error);
    if (result == BASE_OK && agent->options.function_count)
        result = shared_latency_publish(&nodes, &member->latencies, member->process, agent->counts.ns_of_tick,
                                        error);
    if (result == BASE_OK)
        result =
            shared_descriptors_publish(&agent->descriptors, &place, &nodes, &member->opened, &whose, error);
    return result == BASE_OK
               ? shared_empty_publish(&agent->empty, &nodes, &member->empty, member->thread, final, error)
               : result;
}

/* `pid` 0: it has ended. */
static void look_at_blocks(const struct probe *agent, struct probe_member *member, pid_t pid)
{
    shared_empty_look(&agent->empty, &member->family->file, member->region, pid, &member->empty);
}

/* Of a process that has ended, unless it was looked at. An exec that failed is told without waiting: we may
 * not have heard of it. */
static void settle_last(const struct probe *agent, struct probe_member *member)
{
    const struct wire_agent_process *process = shared_file_process(&member->family->file, member->region);
    if (!member->empty.looked ||
        __atomic_load_n(&process->request, __ATOMIC_ACQUIRE) & WIRE_AGENT_EXEC_FAILED)
        look_at_blocks(agent, member, 0);
}

static void look_at_clock(const struct probe *agent, struct probe_member *member)
{
    bool timed = probe_does(agent, WIRE_AGENT_TIME) && (member->timed || member->region);
    uint64_t now = timed ? probe_timer_clock(member->pid, agent->options.timers.clock) : 0;
    member->clock_ns = now > member->clock_ns ? now : member->clock_ns;
}

/* It took for itself what timers cannot be beside (agent_watch.c), or forbade itself what the agent needs
 * (agent_filter.c). `final`: it does not run any more. */
static void look_at_claims(struct probe *agent, struct probe_member *member, bool final)
{
    struct base_error why = {0};
    const struct wire_agent_process *process = shared_file_process(&member->family->file, member->region);
    if (probe_filter_publish(process, member->pid, &why))
        probe_note(agent, "not all is seen", &why);
    uint32_t timing = __atomic_load_n(&process->timing, __ATOMIC_RELAXED);
    if (timing <= WIRE_AGENT_TIMED ||
        (!final && (timing == WIRE_AGENT_ENDING || probe_load_may_move(agent, member))))
        return;
    base_error_clear(&why);
    base_fail(&why, BASE_EUSAGE,
              "process %d uses " PROBE_TIMER_SIGNAL_NAME
              " itself, or set a seccomp filter, or made an io_uring; it is not sampled any more",
              (int)member->pid);
    probe_note(agent, "time", &why);
}

static void publish_member(struct probe *agent, struct probe_member *member, bool final)
{
    struct shared_tree tree;
    struct base_error why = {0};
    uint64_t used = shared_file_used(&member->family->file);
    if (used > agent->memory_most)
        agent->memory_most = used;
    agent->heap.cookies = agent->cookies.items;
    agent->heap.cookie_count = agent->cookies.count;
    agent->counts.ns_of_tick = probe_times(agent) ? probe_timing_ns(&agent->timing) : 1;
    if (final)
        settle_last(agent, member);
    int result = shared_file_read(&member->family->file, member->region, &tree, &why);
    if (result == BASE_OK) {
        look_at_claims(agent, member, final);
        look_at_clock(agent, member);
        result = shared_heap_publish(&agent->heap, &tree, &member->published, member->process, member->thread,
                                     since_start(agent), final, &why);
        if (result == BASE_OK)
            result = publish_counts(agent, &tree, member, final, &why);
        shared_tree_free(&tree);
    }
    if (result < 0)
        profile_lose(agent->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
}

void probe_publish(struct probe *agent)
{
    uint64_t now = base_clock_now();
    if (now - agent->published_ns < agent->publish_cost_ns * PUBLISH_SHARE)
        return;
    for (size_t i = 0; i < agent->member_count; i++) {
        look_at_descriptors(agent, &agent->members[i], SHARED_DESCRIPTORS_NAMES);
        publish_member(agent, &agent->members[i], false);
    }
    agent->published_ns = base_clock_now();
    agent->publish_cost_ns = agent->published_ns - now;
}

int probe_attach(struct probe *agent, pid_t pid, struct base_error *error)
{
    return probe_load(agent, pid, false, error);
}

int probe_launch(struct probe *agent, pid_t pid, struct base_error *error)
{
    return loader_expect_exec(agent->helper, pid, error);
}

/* --- ends --- */

/* A process that never had timers. */
static void look_at_timers(struct probe *agent, const struct probe_member *member)
{
    struct base_error why = {0};
    const struct profile_process *process = &agent->profile->processes[member->process];
    if (!probe_does(agent, WIRE_AGENT_TIME) || member->timed || member->region)
        return;
    base_fail(&why, BASE_ENOTFOUND, "%s (%d) has no C library that could be watched for signals",
              profile_text(agent->profile, process->name), (int)member->pid);
    probe_note(agent, "time is not sampled", &why);
}

static void publish_unhooked(struct probe *agent, const struct probe_member *member, const char *what,
                             const char *does)
{
    struct base_error why = {0};
    const struct profile_process *process = &agent->profile->processes[member->process];
    base_fail(&why, BASE_ENOTFOUND, "no function that %s was hooked in %s (%d)", does,
              profile_text(agent->profile, process->name), (int)member->pid);
    probe_note(agent, what, &why);
}

/* A process without a hooked function that allocates, or that opens descriptors: nothing of that was counted.
 * A child of fork has what its parent has. */
static void look_at_end(struct probe *agent, struct probe_member *member)
{
    bool blocks = !member->allocates && probe_does(agent, WIRE_AGENT_HEAP);
    bool descriptors = !member->opens && probe_does(agent, WIRE_AGENT_FDS);
    look_at_timers(agent, member);
    if (member->region || (!blocks && !descriptors))
        return;
    profile_lose(agent->profile, WIRE_LOSS_AGENT_ABSENT, 1);
    if (blocks)
        publish_unhooked(agent, member, "memory is not counted", "allocates");
    else
        publish_unhooked(agent, member, "descriptors are not counted", "opens descriptors");
}

static void end_member(struct probe *agent, size_t index)
{
    struct probe_member *member = &agent->members[index];
    struct perf_task task = {
        .pid = (uint32_t)member->pid, .tid = (uint32_t)member->pid, .time = base_clock_now()};
    look_at_end(agent, member);
    publish_member(agent, member, true);
    shared_file_forget(&member->family->file, member->region);
    if (agent->options.unpublished)
        sample_processes_on_exit(agent->processes, &task);
    probe_members_drop(agent, index);
}

static void end_the_dead(struct probe *agent)
{
    while (agent->watched_capacity < agent->member_count)
        if (!base_array_room(agent->watched, agent->watched_capacity, agent->watched_capacity))
            return;
    for (size_t i = 0; i < agent->member_count; i++)
        agent->watched[i] = (struct pollfd){.fd = agent->members[i].end.file, .events = POLLIN};
    size_t polled = agent->member_count;
    poll(agent->watched, polled, 0);
    probe_members_join(agent); /* before their parents end; of these children nothing was asked yet */
    for (size_t i = agent->member_count; i-- > 0;)
        if (agent->members[i].end.file < 0 ? proc_ended_is(&agent->members[i].end)
                                           : i < polled && agent->watched[i].revents)
            end_member(agent, i);
    for (size_t i = agent->family_count; i-- > 0;)
        if (!agent->families[i]->members && base_clock_now() - agent->families[i]->looked_ns >= LOOK_NS)
            probe_members_look_at_family(agent, agent->families[i]);
}

/* --- requests --- */

/* Who runs in a process's memory (vfork) rings its bell. */
static void expect_exec(struct probe *agent, const struct probe_member *member, pid_t pid)
{
    struct base_error why = {0};
    if (agent->options.host || !pid || (pid != member->pid && !agent->options.follow))
        return;
    if (loader_expect_exec(agent->helper, pid, &why) < 0) {
        profile_lose(agent->profile, WIRE_LOSS_AGENT_ABSENT, 1);
        probe_note(agent, "a program that was started is not counted", &why);
    }
}

/* What a process has that ends or execs: its last moment. Who runs in it by vfork ends nothing of it. */
static void look_at_last(struct probe *agent, struct probe_member *member, uint32_t asked, pid_t pid)
{
    if (asked & WIRE_AGENT_EXEC_FAILED)
        member->empty.looked = false;
    if (!(asked & (WIRE_AGENT_END | WIRE_AGENT_EXEC)) || pid != member->pid)
        return;
    if (agent->empty.counter)
        look_at_blocks(agent, member, member->pid);
    if (asked & WIRE_AGENT_END)
        look_at_descriptors(agent, member, SHARED_DESCRIPTORS_ENDING);
}

static void answer_thread(struct probe *agent, struct probe_member *member, struct shared_ask *ask)
{
    pid_t pid = shared_proc_outside(&member->family->file, member->pid, &ask->tid);
    if (ask->what & WIRE_AGENT_EXEC_FAILED && pid && !agent->options.host)
        loader_let_go(agent->helper, pid);
    if (ask->what & WIRE_AGENT_EXEC)
        expect_exec(agent, member, pid);
    look_at_last(agent, member, ask->what, pid);
}

static void answer(struct probe *agent, struct probe_member *member)
{
    uint32_t sequence, asked;
    struct shared_asks asks;
    if (!shared_file_request(&member->family->file, member->region, &asked, &sequence, &asks))
        return;
    if (asked & WIRE_AGENT_OBJECTS)
        probe_load_objects(agent, member);
    for (uint32_t i = 0; i < asks.count; i++)
        answer_thread(agent, member, &asks.items[i]);
    shared_file_answer(&member->family->file, member->region, sequence);
}

static void answer_all(struct probe *agent)
{
    uint64_t ignored;
    if (read(loader_listen_file(agent->listener), &ignored, sizeof ignored) < 0)
        return;
    probe_members_join(agent);
    for (size_t i = 0; i < agent->member_count; i++)
        answer(agent, &agent->members[i]);
}

/* --- execs --- */

static void publish_exec(struct probe *agent, pid_t pid)
{
    char name[32] = "";
    struct perf_comm comm = {(uint32_t)pid, (uint32_t)pid, true, name};
    proc_target_name(pid, pid, name, sizeof name);
    sample_processes_on_comm(agent->processes, &comm, base_clock_now());
}

void probe_exec(struct probe *agent, pid_t pid)
{
    struct base_error why = {0};
    /* Who execs may be a child that nothing was heard of: joined later, it would be taken for its new
     * program. */
    probe_members_join(agent);
    struct shared_descriptors_published opened = {0};
    struct probe_member *old = probe_members_find(agent, pid);
    if (old) {
        look_at_end(agent, old);
        look_at_descriptors(agent, old, SHARED_DESCRIPTORS_EXECED);
        publish_member(agent, old, true);
        shared_descriptors_carry(&opened, &old->opened);
        shared_file_forget(&old->family->file, old->region);
        probe_members_drop(agent, (size_t)(old - agent->members));
    }
    if (agent->options.unpublished)
        publish_exec(agent, pid);
    if (probe_load(agent, pid, true, &why) < 0) {
        profile_lose(agent->profile, WIRE_LOSS_AGENT_ABSENT, 1);
        probe_note(agent, "a program that was started is not counted", &why);
    } else if ((old = probe_members_find(agent, pid))) {
        shared_descriptors_carry(&old->opened, &opened);
    }
    shared_descriptors_published_free(&opened);
}

/* Whose agent a child goes on with that has not come to a hook yet; NULL: it is none of ours. */
static const struct loader_agent *parent_of(const struct probe *agent, pid_t pid)
{
    for (size_t i = 0; i < agent->member_count; i++)
        if (agent->members[i].agent && shared_file_is_users(&agent->members[i].family->file, pid))
            return agent->members[i].agent;
    for (size_t i = 0; i < agent->family_count; i++)
        if (shared_file_is_users(&agent->families[i]->file, pid))
            return agent->families[i]->last;
    return NULL;
}

static void update_undiscovered(struct probe *agent, pid_t pid)
{
    struct base_error why = {0};
    struct loader_agent *there = probe_undiscovered_find(&agent->undiscovered, pid);
    const struct loader_agent *parent = there ? NULL : parent_of(agent, pid);
    int result = BASE_OK;
    if (parent)
        result = probe_undiscovered_add(&agent->undiscovered, parent, pid, &there, &why);
    if (result == BASE_OK && there)
        result = probe_load_hooks(agent, there, &why);
    if (result < 0)
        probe_note(agent, "objects that were loaded are not hooked", &why);
}

void probe_objects(struct probe *agent, pid_t pid)
{
    probe_members_join(agent);
    struct probe_member *member = probe_members_find(agent, pid);
    if (member)
        probe_load_objects(agent, member);
    else
        update_undiscovered(agent, pid);
}

void probe_left_by_owner(struct probe *agent, pid_t pid)
{
    probe_members_join(agent);
    struct probe_member *member = probe_members_find(agent, pid);
    if (member)
        probe_members_stop_observing(member);
}

int probe_step(struct probe *agent, struct base_error *error)
{
    struct trace_event event;
    int result = BASE_OK;
    while (!agent->options.host && (result = helper_trace_next(agent->helper, &event, error)) > 0) {
        if (loader_take_event(agent->helper, &event)) {
            if (trace_event_lost_privileges(&event))
                sample_privileges_lost(agent->profile, event.pid, event.flags & TRACE_FLAG_PRIVILEGES_LOST);
            probe_exec(agent, event.pid);
            loader_let_go(agent->helper, event.pid);
        }
        answer_all(agent);
    }
    answer_all(agent);
    end_the_dead(agent);
    for (size_t i = 0; i < agent->member_count; i++)
        probe_load_move(agent, &agent->members[i]);
    probe_uprobe_tend(agent);
    return result;
}

/* Who waits at this moment asks again for its answer within 10 ms. */
void probe_suspend(struct probe *agent)
{
    for (size_t i = 0; i < agent->family_count; i++)
        shared_file_suspend(&agent->families[i]->file, true);
    if (!agent->options.host)
        helper_trace_suspend(agent->helper, NULL);
}

void probe_resume(struct probe *agent)
{
    for (size_t i = 0; i < agent->family_count; i++)
        shared_file_suspend(&agent->families[i]->file, false);
}

/* --- the end --- */

/* Whom the host follows is held. One that cannot be, since it runs another image by now or has ended, has no
 * agent. */
static void leave_process(struct probe *agent, pid_t pid)
{
    struct loader_left left = {0};
    struct base_error why;
    bool held;
    int result;
    do {
        why = (struct base_error){0};
        held = agent->options.host && probe_members_is_published_by_owner(agent, pid);
        if (!agent->options.host) /* its exec may have come after the last events were read */
            loader_let_go(agent->helper, pid);
        result = held ? helper_trace_hold(agent->helper, pid, NULL, &why) : BASE_OK;
        if (result == BASE_OK) {
            result = loader_leave(agent->helper, pid, held, &left, &why);
            if (held)
                helper_trace_release(agent->helper, pid, NULL, NULL);
        }
    } while (result < 0 && remains_again(result, &agent->leaving_ns));
    if (result < 0 && result != BASE_ENOTFOUND) {
        probe_note(agent, "leaving", &why);
    }
    if ((result < 0 && result != BASE_ENOTFOUND) || left.bytes_left)
        remains_left_add(&agent->left, pid, left.bytes_left, !left.skipped);
    profile_lose(agent->profile, WIRE_LOSS_TEXT_ALTERED, left.probed + left.skipped);
}

/* A runtime that was linked in and stripped has no names. */
static void look_for_hooked(struct probe *agent, enum wire_agent_collector collector, bool hooked,
                            const char *what, const char *missing)
{
    struct base_error why = {0};
    if (hooked || !probe_does(agent, collector))
        return;
    if (collector == WIRE_AGENT_INSTRUMENTED)
        profile_lose(agent->profile, WIRE_LOSS_INSTRUMENTED_ABSENT, 1);
    base_fail(&why, BASE_ENOTFOUND, "no %s", missing);
    if (collector == WIRE_AGENT_THROWS)
        profile_set_meta(agent->profile, "throws_absent", why.text);
    probe_note(agent, what, &why);
}

/* Who still has a family's memory mapped: those that `left` knows, where a part had to stay, and children
 * that were never heard of. */
static void leave_undiscovered(struct probe *agent, const struct base_map *left)
{
    for (size_t i = 0; i < agent->family_count; i++) {
        pid_t *pids;
        size_t count = shared_file_users(&agent->families[i]->file, &pids);
        for (size_t j = 0; j < count; j++)
            if (base_map_find(left, (uint64_t)pids[j]) == BASE_MAP_NONE && !proc_target_vfork_parent(pids[j]))
                leave_process(agent, pids[j]);
        free(pids);
    }
}

uint64_t probe_real(const struct probe *agent, pid_t pid, uint64_t pc)
{
    return probe_timing_real(&agent->timing, pid, pc);
}

int probe_leave(struct probe *agent, struct base_error *error)
{
    int result = probe_step(agent, error);
    struct base_map left = {0};
    for (size_t i = 0; i < agent->member_count; i++) {
        look_at_descriptors(agent, &agent->members[i], SHARED_DESCRIPTORS_ENDING);
        shared_file_release(&agent->members[i].family->file, agent->members[i].region);
        leave_process(agent, agent->members[i].pid);
        base_map_set(&left, (uint64_t)agent->members[i].pid, 1);
    }
    for (size_t i = 0; i < agent->family_count; i++)
        shared_file_leave(&agent->families[i]->file);
    while (agent->member_count) {
        struct probe_member *member = &agent->members[agent->member_count - 1];
        look_at_end(agent, member);
        if (!member->empty.looked)
            look_at_blocks(agent, member, member->pid);
        publish_member(agent, member, true);
        probe_members_drop(agent, agent->member_count - 1);
    }
    leave_undiscovered(agent, &left);
    base_map_free(&left);
    helper_end(&agent->own); /* who stands for an exec that nobody reads of goes on */
    look_for_hooked(agent, WIRE_AGENT_THROWS, agent->throws, "no exceptions are counted",
                    "__cxa_throw was found in the program");
    look_for_hooked(agent, WIRE_AGENT_INSTRUMENTED, agent->instrumented, "nothing to count",
                    "function of the program was built with -finstrument-functions");
    probe_named_found_publish(&agent->found);
    profile_set_metaf(agent->profile, "agent_memory", "%llu", (unsigned long long)agent->memory_most);
    return result;
}
