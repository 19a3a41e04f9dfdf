#include "collect_agent.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent_blob.h"
#include "base_array.h"
#include "collect_agent_filter.h"
#include "collect_agent_inside.h"
#include "collect_agent_proc.h"
#include "collect_agent_timer.h"
#include "collect_agent_uprobe.h"
#include "collect_privileges.h"
#include "collect_record.h"
#include "collect_remains.h"
#include "patch_commit.h"
#include "patch_target.h"
#include "wire_loss.h"

enum {
    PATIENCE_MS =
        200,         /* tally's clock is told every 10 ms; beside 16 runnable threads on two processors it was
                          late by 115 ms */
    TELL_SHARE = 20, /* telling may take one part in so many of the time */
    LOOK_NS = 1000000000, /* for who is left of a family */
};

void collect_agent_note(struct collect_agent *agent, const char *what, const struct base_error *why)
{
    if (!agent->notice[0])
        snprintf(agent->notice, sizeof agent->notice, "%.60s: %.190s", what, why->text);
    profile_set_meta(agent->profile, "agent_notice", agent->notice);
}

static void take_note(void *agent, const char *what, const struct base_error *why)
{
    collect_agent_note(agent, what, why);
}

static uint64_t since_start(const struct collect_agent *agent)
{
    uint64_t now = patch_target_now(), start = agent->processes->start_ns;
    return now > start ? now - start : 0;
}

/* --- making and freeing --- */

static int make_plans(struct collect_agent *agent, struct base_error *error)
{
    const struct collect_agent_functions_wish wish = {
        .heap = collect_agent_does(agent, WIRE_AGENT_HEAP),
        .passes = agent->options.sample_bytes && !collect_agent_asks_sizes(agent),
        .maps = collect_agent_does(agent, WIRE_AGENT_MAP),
        .throws = collect_agent_does(agent, WIRE_AGENT_THROWS),
        .named = agent->options.named,
        .descriptors = collect_agent_does(agent, WIRE_AGENT_FDS),
        .instrumented = collect_agent_does(agent, WIRE_AGENT_INSTRUMENTED),
        .timed = agent->options.functions,
        .timed_count = agent->options.function_count,
        .timers = collect_agent_does(agent, WIRE_AGENT_TIME),
        .hosted = agent->options.host != NULL,
        .ends = agent->empty.flags != 0 || collect_agent_does(agent, WIRE_AGENT_FDS),
        .sizes = collect_agent_asks_sizes(agent)};
    int result = patch_agent_image_open(agent_blob, agent_blob_size, &agent->image, error);
    if (result == BASE_OK)
        result = collect_agent_functions_make(&agent->functions, agent->image, &wish, error);
    if (result < 0)
        return result;
    agent->plans = patch_agent_plans_new(agent->functions.items, agent->functions.count);
    if (agent->plans)
        patch_agent_plans_leave_out(agent->plans, agent->options.images, agent->options.image_count);
    agent->found = (struct collect_agent_named_found){
        .named = agent->options.named ? agent->options.named->items : NULL,
        .named_count = agent->functions.named,
        .timed = agent->options.functions,
        .timed_count = agent->options.function_count,
        .images = agent->processes->images,
        .profile = agent->profile,
        .note = take_note,
        .context = agent,
    };
    return agent->plans ? collect_agent_named_found_begin(&agent->found, error)
                        : base_fail(error, BASE_ENOMEM, "out of memory");
}

static int begin_timing(struct collect_agent *agent, struct base_error *error)
{
    if (!collect_agent_replaces(agent) && !collect_agent_times(agent))
        return BASE_OK;
    int result = collect_agent_timing_begin(&agent->timing, collect_agent_times(agent), error);
    if (result == BASE_OK)
        agent->wish.ns_of_ticks = collect_agent_timing_fixed(&agent->timing);
    return result;
}

static int init_figures(struct collect_agent *agent, struct base_error *error)
{
    int result = collect_agent_does(agent, WIRE_AGENT_HEAP)
                     ? collect_heap_init(&agent->heap, agent->profile, agent->options.sample_bytes, error)
                     : collect_heap_init_idle(&agent->heap, agent->profile, error);
    agent->heap.samples_only = agent->options.collectors == 1u << WIRE_AGENT_TIME;
    if (result == BASE_OK)
        result = collect_agent_counts_init(&agent->counts, agent->profile, agent->options.collectors,
                                           agent->options.time, error);
    if (result == BASE_OK && collect_agent_does(agent, WIRE_AGENT_FDS))
        result = collect_agent_descriptors_init(&agent->descriptors, agent->profile, error);
    return result == BASE_OK ? collect_empty_init(&agent->empty, agent->profile, agent->options.empty, error)
                             : result;
}

static uint32_t flags_of(const struct collect_agent_options *options, const struct collect_empty *empty)
{
    return empty->flags | (options->follow ? WIRE_AGENT_FOLLOW : 0u) |
           (options->overhead == PROFILE_HEAP_INCLUDE ? WIRE_AGENT_INCLUDE : 0u) |
           (options->overhead == PROFILE_HEAP_DELTA ? WIRE_AGENT_DELTA : 0u) |
           (patch_commit_is_strict() ? WIRE_AGENT_COMMIT : 0u);
}

/* What is not used is not mapped. */
static uint32_t parts_of(const struct collect_agent *agent)
{
    const uint32_t always = 1u << WIRE_AGENT_PART_CONTROL | 1u << WIRE_AGENT_PART_ROWS |
                            1u << WIRE_AGENT_PART_HEAD | 1u << WIRE_AGENT_PART_NODES |
                            1u << WIRE_AGENT_PART_INDEX | 1u << WIRE_AGENT_PART_CELLS |
                            1u << WIRE_AGENT_PART_THREADS;
    return always | (collect_agent_does(agent, WIRE_AGENT_HEAP) ? 1u << WIRE_AGENT_PART_BLOCKS : 0) |
           (collect_agent_does(agent, WIRE_AGENT_MAP) ? 1u << WIRE_AGENT_PART_RANGES : 0) |
           (collect_agent_does(agent, WIRE_AGENT_FDS) ? 1u << WIRE_AGENT_PART_DESCRIPTORS : 0) |
           (collect_agent_does(agent, WIRE_AGENT_TIME) ? 1u << WIRE_AGENT_PART_TIMERS : 0) |
           (agent->options.function_count ? 1u << WIRE_AGENT_PART_LATENCIES : 0) |
           (collect_agent_replaces(agent) ? 1u << WIRE_AGENT_PART_OWN : 0);
}

int collect_agent_new(const struct collect_agent_options *options, struct collect_processes *processes,
                      struct collect_agent **made, struct base_error *error)
{
    struct collect_agent *agent = calloc(1, sizeof *agent);
    if (!agent)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    agent->options = *options;
    agent->processes = processes;
    agent->profile = processes->profile;
    agent->own.socket = -1;
    agent->helper = options->host ? options->host : &agent->own;
    int result = init_figures(agent, error);
    agent->wish =
        (struct collect_agent_wish){.memory = options->memory ? options->memory : COLLECT_AGENT_MEMORY,
                                    .flags = flags_of(options, &agent->empty),
                                    .sample_bytes = options->sample_bytes,
                                    .seed = patch_target_now(),
                                    .patience_ms = PATIENCE_MS,
                                    .parts = parts_of(agent),
                                    .timers = options->timers};
    if (result == BASE_OK && !options->host)
        result = patch_helper_begin(&agent->own, error);
    if (result == BASE_OK)
        result = make_plans(agent, error);
    if (result == BASE_OK)
        result = collect_listen_new(processes->start_ns, &agent->listener, error);
    if (result == BASE_OK)
        result = begin_timing(agent, error);
    if (result == BASE_OK && collect_agent_does(agent, WIRE_AGENT_HEAP))
        profile_set_meta(agent->profile, "heap_overhead", profile_heap_overhead_name(options->overhead));
    if (result < 0) {
        collect_agent_free(agent);
        return result;
    }
    *made = agent;
    return BASE_OK;
}

void collect_agent_free(struct collect_agent *agent)
{
    if (!agent)
        return;
    patch_helper_end(&agent->own);
    while (agent->member_count)
        collect_agent_members_drop(agent, agent->member_count - 1);
    while (agent->family_count)
        collect_agent_members_free_family(agent, agent->families[0]);
    collect_agent_unheard_free(&agent->unheard);
    collect_listen_free(agent->listener);
    patch_agent_plans_free(agent->plans);
    patch_agent_image_close(agent->image);
    collect_agent_cookies_free(&agent->cookies);
    collect_left_free(&agent->left);
    collect_agent_timing_end(&agent->timing);
    collect_agent_named_found_end(&agent->found);
    free(agent->functions.items);
    free(agent->families);
    free(agent->members);
    free(agent->watched);
    free(agent);
}

pid_t collect_agent_helper(const struct collect_agent *agent)
{
    return agent->helper->pid;
}

void collect_agent_files(const struct collect_agent *agent, int files[2])
{
    files[0] = agent->options.host ? -1 : agent->helper->socket;
    files[1] = collect_listen_file(agent->listener);
}

void collect_agent_restart(struct collect_agent *agent)
{
    collect_listen_restart(agent->listener, agent->processes->start_ns);
}

const char *collect_agent_notice(const struct collect_agent *agent)
{
    return agent->notice;
}

struct collect_left *collect_agent_left(struct collect_agent *agent)
{
    return &agent->left;
}

/* --- telling --- */

static struct collect_agent_descriptors_place place_of(const struct collect_agent_member *member)
{
    return (struct collect_agent_descriptors_place){&member->family->file, member->region, member->pid};
}

static void look_at_descriptors(struct collect_agent *agent, struct collect_agent_member *member,
                                enum collect_agent_descriptors_look which)
{
    const struct collect_agent_descriptors_place place = place_of(member);
    collect_agent_descriptors_look(&agent->descriptors, &place, &member->opened, which);
}

static int tell_counts(struct collect_agent *agent, const struct collect_agent_tree *tree,
                       struct collect_agent_member *member, bool final, struct base_error *error)
{
    const struct collect_agent_descriptors_place place = place_of(member);
    const struct collect_agent_descriptors_whose whose = {member->process, member->thread, since_start(agent),
                                                          final};
    struct collect_agent_nodes nodes = {.profile = agent->profile,
                                        .tree = tree,
                                        .cookies = agent->cookies.items,
                                        .cookie_count = agent->cookies.count,
                                        .special_unknown = agent->heap.special_unknown};
    int result = collect_agent_counts_tell(&agent->counts, &nodes, &member->counted, member->thread, error);
    if (result == BASE_OK && agent->options.function_count)
        result = collect_agent_latency_tell(&nodes, &member->latencies, member->process,
                                            agent->counts.ns_of_tick, error);
    if (result == BASE_OK)
        result = collect_agent_descriptors_tell(&agent->descriptors, &place, &nodes, &member->opened, &whose,
                                                error);
    return result == BASE_OK
               ? collect_empty_tell(&agent->empty, &nodes, &member->empty, member->thread, final, error)
               : result;
}

/* `pid` 0: it has ended. */
static void look_at_blocks(const struct collect_agent *agent, struct collect_agent_member *member, pid_t pid)
{
    collect_empty_look(&agent->empty, &member->family->file, member->region, pid, &member->empty);
}

/* Of a process that has ended, unless it was looked at. An exec that failed is told without waiting: we may
 * not have heard of it. */
static void settle_last(const struct collect_agent *agent, struct collect_agent_member *member)
{
    const struct wire_agent_process *process =
        collect_agent_file_process(&member->family->file, member->region);
    if (!member->empty.looked ||
        __atomic_load_n(&process->request, __ATOMIC_ACQUIRE) & WIRE_AGENT_EXEC_FAILED)
        look_at_blocks(agent, member, 0);
}

static void look_at_clock(const struct collect_agent *agent, struct collect_agent_member *member)
{
    bool timed = collect_agent_does(agent, WIRE_AGENT_TIME) && (member->timed || member->region);
    uint64_t now = timed ? collect_agent_timer_clock(member->pid, agent->options.timers.clock) : 0;
    member->clock_ns = now > member->clock_ns ? now : member->clock_ns;
}

/* It took for itself what timers cannot be beside (agent_hook_signal.c), or forbade itself what the agent
 * needs (agent_hook_filter.c). `final`: it does not run any more. */
static void look_at_claims(struct collect_agent *agent, struct collect_agent_member *member, bool final)
{
    struct base_error why = {0};
    const struct wire_agent_process *process =
        collect_agent_file_process(&member->family->file, member->region);
    if (collect_agent_filter_tell(process, member->pid, &why))
        collect_agent_note(agent, "not all is seen", &why);
    uint32_t timing = __atomic_load_n(&process->timing, __ATOMIC_RELAXED);
    if (timing <= WIRE_AGENT_TIMED ||
        (!final && (timing == WIRE_AGENT_ENDING || collect_agent_load_may_move(agent, member))))
        return;
    base_error_clear(&why);
    base_fail(&why, BASE_EUSAGE,
              "process %d uses " COLLECT_AGENT_TIMER_SIGNAL_NAME
              " itself, or set a seccomp filter, or made an io_uring; it is not sampled any more",
              (int)member->pid);
    collect_agent_note(agent, "time", &why);
}

static void tell_member(struct collect_agent *agent, struct collect_agent_member *member, bool final)
{
    struct collect_agent_tree tree;
    struct base_error why = {0};
    uint64_t used = collect_agent_file_used(&member->family->file);
    if (used > agent->memory_most)
        agent->memory_most = used;
    agent->heap.cookies = agent->cookies.items;
    agent->heap.cookie_count = agent->cookies.count;
    agent->counts.ns_of_tick = collect_agent_times(agent) ? collect_agent_timing_ns(&agent->timing) : 1;
    if (final)
        settle_last(agent, member);
    int result = collect_agent_file_read(&member->family->file, member->region, &tree, &why);
    if (result == BASE_OK) {
        look_at_claims(agent, member, final);
        look_at_clock(agent, member);
        result = collect_heap_tell(&agent->heap, &tree, &member->told, member->process, member->thread,
                                   since_start(agent), final, &why);
        if (result == BASE_OK)
            result = tell_counts(agent, &tree, member, final, &why);
        collect_agent_tree_free(&tree);
    }
    if (result < 0)
        profile_lose(agent->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
}

void collect_agent_tell(struct collect_agent *agent)
{
    uint64_t now = patch_target_now();
    if (now - agent->told_ns < agent->tell_cost_ns * TELL_SHARE)
        return;
    for (size_t i = 0; i < agent->member_count; i++) {
        look_at_descriptors(agent, &agent->members[i], COLLECT_AGENT_DESCRIPTORS_NAMES);
        tell_member(agent, &agent->members[i], false);
    }
    agent->told_ns = patch_target_now();
    agent->tell_cost_ns = agent->told_ns - now;
}

int collect_agent_attach(struct collect_agent *agent, pid_t pid, struct base_error *error)
{
    return collect_agent_load(agent, pid, false, error);
}

int collect_agent_launch(struct collect_agent *agent, pid_t pid, struct base_error *error)
{
    return patch_agent_expect_exec(agent->helper, pid, error);
}

/* --- ends --- */

/* A process that never had timers. */
static void look_at_timers(struct collect_agent *agent, const struct collect_agent_member *member)
{
    struct base_error why = {0};
    const struct profile_process *process = &agent->profile->processes[member->process];
    if (!collect_agent_does(agent, WIRE_AGENT_TIME) || member->timed || member->region)
        return;
    base_fail(&why, BASE_ENOTFOUND, "%s (%d) has no C library that could be watched for signals",
              profile_text(agent->profile, process->name), (int)member->pid);
    collect_agent_note(agent, "time is not sampled", &why);
}

static void tell_unhooked(struct collect_agent *agent, const struct collect_agent_member *member,
                          const char *what, const char *does)
{
    struct base_error why = {0};
    const struct profile_process *process = &agent->profile->processes[member->process];
    base_fail(&why, BASE_ENOTFOUND, "no function that %s was hooked in %s (%d)", does,
              profile_text(agent->profile, process->name), (int)member->pid);
    collect_agent_note(agent, what, &why);
}

/* A process without a hooked function that allocates, or that opens descriptors: nothing of that was counted.
 * A child of fork has what its parent has. */
static void look_at_end(struct collect_agent *agent, struct collect_agent_member *member)
{
    bool blocks = !member->allocates && collect_agent_does(agent, WIRE_AGENT_HEAP);
    bool descriptors = !member->opens && collect_agent_does(agent, WIRE_AGENT_FDS);
    look_at_timers(agent, member);
    if (member->region || (!blocks && !descriptors))
        return;
    profile_lose(agent->profile, WIRE_LOSS_AGENT_ABSENT, 1);
    if (blocks)
        tell_unhooked(agent, member, "memory is not counted", "allocates");
    else
        tell_unhooked(agent, member, "descriptors are not counted", "opens descriptors");
}

static void end_member(struct collect_agent *agent, size_t index)
{
    struct collect_agent_member *member = &agent->members[index];
    struct collect_task task = {
        .pid = (uint32_t)member->pid, .tid = (uint32_t)member->pid, .time = patch_target_now()};
    look_at_end(agent, member);
    tell_member(agent, member, true);
    collect_agent_file_forget(&member->family->file, member->region);
    if (agent->options.untold)
        collect_processes_on_exit(agent->processes, &task);
    collect_agent_members_drop(agent, index);
}

static void end_the_dead(struct collect_agent *agent)
{
    while (agent->watched_capacity < agent->member_count)
        if (!base_array_room(agent->watched, agent->watched_capacity, agent->watched_capacity))
            return;
    for (size_t i = 0; i < agent->member_count; i++)
        agent->watched[i] = (struct pollfd){.fd = agent->members[i].end.file, .events = POLLIN};
    size_t polled = agent->member_count;
    poll(agent->watched, polled, 0);
    collect_agent_members_join(agent); /* before their parents end; of these children nothing was asked yet */
    for (size_t i = agent->member_count; i-- > 0;)
        if (agent->members[i].end.file < 0 ? collect_ended_is(&agent->members[i].end)
                                           : i < polled && agent->watched[i].revents)
            end_member(agent, i);
    for (size_t i = agent->family_count; i-- > 0;)
        if (!agent->families[i]->members && patch_target_now() - agent->families[i]->looked_ns >= LOOK_NS)
            collect_agent_members_look_at_family(agent, agent->families[i]);
}

/* --- requests --- */

/* Who runs in a process's memory (vfork) rings its bell. */
static void expect_exec(struct collect_agent *agent, const struct collect_agent_member *member, pid_t pid)
{
    struct base_error why = {0};
    if (agent->options.host || !pid || (pid != member->pid && !agent->options.follow))
        return;
    if (patch_agent_expect_exec(agent->helper, pid, &why) < 0) {
        profile_lose(agent->profile, WIRE_LOSS_AGENT_ABSENT, 1);
        collect_agent_note(agent, "a program that was started is not counted", &why);
    }
}

/* What a process has that ends or execs: its last moment. Who runs in it by vfork ends nothing of it. */
static void look_at_last(struct collect_agent *agent, struct collect_agent_member *member, uint32_t asked,
                         pid_t pid)
{
    if (asked & WIRE_AGENT_EXEC_FAILED)
        member->empty.looked = false;
    if (!(asked & (WIRE_AGENT_END | WIRE_AGENT_EXEC)) || pid != member->pid)
        return;
    if (agent->empty.counter)
        look_at_blocks(agent, member, member->pid);
    if (asked & WIRE_AGENT_END)
        look_at_descriptors(agent, member, COLLECT_AGENT_DESCRIPTORS_ENDING);
}

static void answer_thread(struct collect_agent *agent, struct collect_agent_member *member,
                          struct collect_agent_ask *ask)
{
    pid_t pid = collect_agent_proc_outside(&member->family->file, member->pid, &ask->tid);
    if (ask->what & WIRE_AGENT_EXEC_FAILED && pid && !agent->options.host)
        patch_agent_let_go(agent->helper, pid);
    if (ask->what & WIRE_AGENT_EXEC)
        expect_exec(agent, member, pid);
    look_at_last(agent, member, ask->what, pid);
}

static void answer(struct collect_agent *agent, struct collect_agent_member *member)
{
    uint32_t sequence, asked;
    struct collect_agent_asks asks;
    if (!collect_agent_file_request(&member->family->file, member->region, &asked, &sequence, &asks))
        return;
    if (asked & WIRE_AGENT_OBJECTS)
        collect_agent_load_objects(agent, member);
    for (uint32_t i = 0; i < asks.count; i++)
        answer_thread(agent, member, &asks.items[i]);
    collect_agent_file_answer(&member->family->file, member->region, sequence);
}

static void answer_all(struct collect_agent *agent)
{
    uint64_t ignored;
    if (read(collect_listen_file(agent->listener), &ignored, sizeof ignored) < 0)
        return;
    collect_agent_members_join(agent);
    for (size_t i = 0; i < agent->member_count; i++)
        answer(agent, &agent->members[i]);
}

/* --- execs --- */

static void tell_exec(struct collect_agent *agent, pid_t pid)
{
    char name[32] = "";
    struct collect_comm comm = {(uint32_t)pid, (uint32_t)pid, true, name};
    patch_target_name(pid, pid, name, sizeof name);
    collect_processes_on_comm(agent->processes, &comm, patch_target_now());
}

void collect_agent_exec(struct collect_agent *agent, pid_t pid)
{
    struct base_error why = {0};
    /* Who execs may be a child that nothing was heard of: joined later, it would be taken for its new
     * program. */
    collect_agent_members_join(agent);
    struct collect_agent_descriptors_told opened = {0};
    struct collect_agent_member *old = collect_agent_members_find(agent, pid);
    if (old) {
        look_at_end(agent, old);
        look_at_descriptors(agent, old, COLLECT_AGENT_DESCRIPTORS_EXECED);
        tell_member(agent, old, true);
        collect_agent_descriptors_carry(&opened, &old->opened);
        collect_agent_file_forget(&old->family->file, old->region);
        collect_agent_members_drop(agent, (size_t)(old - agent->members));
    }
    if (agent->options.untold)
        tell_exec(agent, pid);
    if (collect_agent_load(agent, pid, true, &why) < 0) {
        profile_lose(agent->profile, WIRE_LOSS_AGENT_ABSENT, 1);
        collect_agent_note(agent, "a program that was started is not counted", &why);
    } else if ((old = collect_agent_members_find(agent, pid))) {
        collect_agent_descriptors_carry(&old->opened, &opened);
    }
    collect_agent_descriptors_told_free(&opened);
}

/* Whose agent a child goes on with that has not come to a hook yet; NULL: it is none of ours. */
static const struct patch_agent *parent_of(const struct collect_agent *agent, pid_t pid)
{
    for (size_t i = 0; i < agent->member_count; i++)
        if (agent->members[i].agent && collect_agent_file_is_users(&agent->members[i].family->file, pid))
            return agent->members[i].agent;
    for (size_t i = 0; i < agent->family_count; i++)
        if (collect_agent_file_is_users(&agent->families[i]->file, pid))
            return agent->families[i]->last;
    return NULL;
}

static void update_unheard(struct collect_agent *agent, pid_t pid)
{
    struct base_error why = {0};
    struct patch_agent *there = collect_agent_unheard_find(&agent->unheard, pid);
    const struct patch_agent *parent = there ? NULL : parent_of(agent, pid);
    int result = BASE_OK;
    if (parent)
        result = collect_agent_unheard_add(&agent->unheard, parent, pid, &there, &why);
    if (result == BASE_OK && there)
        result = collect_agent_load_hooks(agent, there, &why);
    if (result < 0)
        collect_agent_note(agent, "objects that were loaded are not hooked", &why);
}

void collect_agent_objects(struct collect_agent *agent, pid_t pid)
{
    collect_agent_members_join(agent);
    struct collect_agent_member *member = collect_agent_members_find(agent, pid);
    if (member)
        collect_agent_load_objects(agent, member);
    else
        update_unheard(agent, pid);
}

void collect_agent_unhosted(struct collect_agent *agent, pid_t pid)
{
    collect_agent_members_join(agent);
    struct collect_agent_member *member = collect_agent_members_find(agent, pid);
    if (member)
        collect_agent_members_make_blind(member);
}

int collect_agent_step(struct collect_agent *agent, struct base_error *error)
{
    struct patch_trace_event event;
    int result = BASE_OK;
    while (!agent->options.host && (result = patch_trace_next(agent->helper, &event, error)) > 0) {
        if (patch_agent_take_event(agent->helper, &event)) {
            collect_privileges_tell(agent->profile, &event);
            collect_agent_exec(agent, event.pid);
            patch_agent_let_go(agent->helper, event.pid);
        }
        answer_all(agent);
    }
    answer_all(agent);
    end_the_dead(agent);
    for (size_t i = 0; i < agent->member_count; i++)
        collect_agent_load_move(agent, &agent->members[i]);
    collect_agent_uprobe_tend(agent);
    return result;
}

/* Who waits at this moment asks again for its answer within 10 ms. */
void collect_agent_suspend(struct collect_agent *agent)
{
    for (size_t i = 0; i < agent->family_count; i++)
        collect_agent_file_suspend(&agent->families[i]->file, true);
    if (!agent->options.host)
        patch_trace_suspend(agent->helper, NULL);
}

void collect_agent_resume(struct collect_agent *agent)
{
    for (size_t i = 0; i < agent->family_count; i++)
        collect_agent_file_suspend(&agent->families[i]->file, false);
}

/* --- the end --- */

/* Whom the host follows is held. One that cannot be, since it runs another image by now or has ended, has no
 * agent. */
static void leave_process(struct collect_agent *agent, pid_t pid)
{
    struct patch_agent_left left = {0};
    struct base_error why;
    bool held;
    int result;
    do {
        why = (struct base_error){0};
        held = agent->options.host && collect_agent_members_is_told_by_host(agent, pid);
        if (!agent->options.host) /* its exec may have come after the last events were read */
            patch_agent_let_go(agent->helper, pid);
        result = held ? patch_trace_hold(agent->helper, pid, NULL, &why) : BASE_OK;
        if (result == BASE_OK) {
            result = patch_agent_leave(agent->helper, pid, held, &left, &why);
            if (held)
                patch_trace_release(agent->helper, pid, NULL, NULL);
        }
    } while (result < 0 && collect_remains_again(result, &agent->leaving_ns));
    if (result < 0 && result != BASE_ENOTFOUND) {
        collect_agent_note(agent, "leaving", &why);
    }
    if ((result < 0 && result != BASE_ENOTFOUND) || left.bytes_left)
        collect_left_add(&agent->left, pid, left.bytes_left, !left.skipped);
    profile_lose(agent->profile, WIRE_LOSS_TEXT_ALTERED, left.probed + left.skipped);
}

/* A runtime that was linked in and stripped has no names. */
static void look_for_hooked(struct collect_agent *agent, enum wire_agent_collector collector, bool hooked,
                            const char *what, const char *missing)
{
    struct base_error why = {0};
    if (hooked || !collect_agent_does(agent, collector))
        return;
    if (collector == WIRE_AGENT_INSTRUMENTED)
        profile_lose(agent->profile, WIRE_LOSS_INSTRUMENTED_ABSENT, 1);
    base_fail(&why, BASE_ENOTFOUND, "no %s", missing);
    if (collector == WIRE_AGENT_THROWS)
        profile_set_meta(agent->profile, "throws_absent", why.text);
    collect_agent_note(agent, what, &why);
}

/* Who still has a family's memory mapped: those that `left` knows, where a part had to stay, and children
 * that were never heard of. */
static void leave_unheard(struct collect_agent *agent, const struct base_map *left)
{
    for (size_t i = 0; i < agent->family_count; i++) {
        pid_t *pids;
        size_t count = collect_agent_file_users(&agent->families[i]->file, &pids);
        for (size_t j = 0; j < count; j++)
            if (base_map_find(left, (uint64_t)pids[j]) == BASE_MAP_NONE &&
                !patch_target_vfork_parent(pids[j]))
                leave_process(agent, pids[j]);
        free(pids);
    }
}

uint64_t collect_agent_real(const struct collect_agent *agent, pid_t pid, uint64_t pc)
{
    return collect_agent_timing_real(&agent->timing, pid, pc);
}

int collect_agent_leave(struct collect_agent *agent, struct base_error *error)
{
    int result = collect_agent_step(agent, error);
    struct base_map left = {0};
    for (size_t i = 0; i < agent->member_count; i++) {
        look_at_descriptors(agent, &agent->members[i], COLLECT_AGENT_DESCRIPTORS_ENDING);
        collect_agent_file_release(&agent->members[i].family->file, agent->members[i].region);
        leave_process(agent, agent->members[i].pid);
        base_map_set(&left, (uint64_t)agent->members[i].pid, 1);
    }
    for (size_t i = 0; i < agent->family_count; i++)
        collect_agent_file_leave(&agent->families[i]->file);
    while (agent->member_count) {
        struct collect_agent_member *member = &agent->members[agent->member_count - 1];
        look_at_end(agent, member);
        if (!member->empty.looked)
            look_at_blocks(agent, member, member->pid);
        tell_member(agent, member, true);
        collect_agent_members_drop(agent, agent->member_count - 1);
    }
    leave_unheard(agent, &left);
    base_map_free(&left);
    patch_helper_end(&agent->own); /* who stands for an exec that nobody reads of goes on */
    look_for_hooked(agent, WIRE_AGENT_THROWS, agent->throws, "no exceptions are counted",
                    "__cxa_throw was found in the program");
    look_for_hooked(agent, WIRE_AGENT_INSTRUMENTED, agent->instrumented, "nothing to count",
                    "function of the program was built with -finstrument-functions");
    collect_agent_named_found_tell(&agent->found);
    profile_set_metaf(agent->profile, "agent_memory", "%llu", (unsigned long long)agent->memory_most);
    return result;
}
