#include "probe_inside.h"

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
#include "probe_timer.h"
#include "probe_uprobe.h"
#include "proc_commit.h"
#include "proc_target.h"
#include "remains.h"
#include "sample_privileges.h"
#include "shared_proc.h"
#include "wire_loss.h"

/* Tally's clock is written every 10 ms; beside 16 runnable threads on two processors it was late by 115
 * ms. */
enum { PATIENCE_MS = 200 };

static void take_note(void *agent, const char *what, const struct base_error *why)
{
    probe_note(agent, what, why);
}

/* --- making and freeing --- */

static int make_plans(struct probe *probe, struct base_error *error)
{
    const struct probe_functions_request request = {
        .heap = probe_does(probe, WIRE_AGENT_HEAP),
        .passes = probe->options.sample_bytes && !probe_asks_sizes(probe),
        .maps = probe_does(probe, WIRE_AGENT_MAP),
        .throws = probe_does(probe, WIRE_AGENT_THROWS),
        .named = probe->options.named,
        .descriptors = probe_does(probe, WIRE_AGENT_FDS),
        .instrumented = probe_does(probe, WIRE_AGENT_INSTRUMENTED),
        .timed = probe->options.functions,
        .timed_count = probe->options.function_count,
        .timers = probe_does(probe, WIRE_AGENT_TIME),
        .shared = probe->options.owner != NULL,
        .ends = probe->empty.flags != 0 || probe_does(probe, WIRE_AGENT_FDS),
        .sizes = probe_asks_sizes(probe)};
    int result = loader_image_open(agent_blob, agent_blob_size, &probe->image, error);
    if (result == BASE_OK)
        result = probe_functions_make(&probe->functions, probe->image, &request, error);
    if (result < 0)
        return result;
    probe->plans = loader_plans_new(probe->functions.items, probe->functions.count);
    if (probe->plans)
        loader_plans_leave_out(probe->plans, probe->options.images, probe->options.image_count);
    probe->found = (struct probe_named_found){
        .named = probe->options.named ? probe->options.named->items : NULL,
        .named_count = probe->functions.named,
        .timed = probe->options.functions,
        .timed_count = probe->options.function_count,
        .images = probe->processes->images,
        .profile = probe->profile,
        .note = take_note,
        .context = probe,
    };
    return probe->plans ? probe_named_found_begin(&probe->found, error)
                        : base_fail(error, BASE_ENOMEM, "out of memory");
}

static int begin_timing(struct probe *probe, struct base_error *error)
{
    if (!probe_replaces(probe) && !probe_times(probe))
        return BASE_OK;
    int result = probe_timing_begin(&probe->timing, probe_times(probe), error);
    if (result == BASE_OK)
        probe->request.ns_of_ticks = probe_timing_fixed(&probe->timing);
    return result;
}

static int init_figures(struct probe *probe, struct base_error *error)
{
    int result = probe_does(probe, WIRE_AGENT_HEAP)
                     ? shared_heap_init(&probe->heap, probe->profile, probe->options.sample_bytes, error)
                     : shared_heap_init_idle(&probe->heap, probe->profile, error);
    probe->heap.samples_only = probe->options.collectors == 1u << WIRE_AGENT_TIME;
    if (result == BASE_OK)
        result = shared_counts_init(&probe->counts, probe->profile, probe->options.collectors,
                                    probe->options.time, error);
    if (result == BASE_OK && probe_does(probe, WIRE_AGENT_FDS))
        result = shared_descriptors_init(&probe->descriptors, probe->profile, error);
    return result == BASE_OK ? shared_empty_init(&probe->empty, probe->profile, probe->options.empty, error)
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
static uint32_t parts_of(const struct probe *probe)
{
    const uint32_t always = 1u << WIRE_AGENT_PART_CONTROL | 1u << WIRE_AGENT_PART_ROWS |
                            1u << WIRE_AGENT_PART_HEAD | 1u << WIRE_AGENT_PART_NODES |
                            1u << WIRE_AGENT_PART_INDEX | 1u << WIRE_AGENT_PART_CELLS |
                            1u << WIRE_AGENT_PART_THREADS;
    return always | (probe_does(probe, WIRE_AGENT_HEAP) ? 1u << WIRE_AGENT_PART_BLOCKS : 0) |
           (probe_does(probe, WIRE_AGENT_MAP) ? 1u << WIRE_AGENT_PART_RANGES : 0) |
           (probe_does(probe, WIRE_AGENT_FDS) ? 1u << WIRE_AGENT_PART_DESCRIPTORS : 0) |
           (probe_does(probe, WIRE_AGENT_TIME) ? 1u << WIRE_AGENT_PART_TIMERS : 0) |
           (probe->options.function_count ? 1u << WIRE_AGENT_PART_LATENCIES : 0) |
           (probe_replaces(probe) ? 1u << WIRE_AGENT_PART_OWN : 0);
}

int probe_new(const struct probe_options *options, struct sample_processes *processes, struct probe **made,
              struct base_error *error)
{
    struct probe *probe = calloc(1, sizeof *probe);
    if (!probe)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    probe->options = *options;
    probe->processes = processes;
    probe->profile = processes->profile;
    probe->own.socket = -1;
    probe->helper = options->owner ? options->owner : &probe->own;
    int result = init_figures(probe, error);
    probe->request = (struct shared_request){.memory = options->memory ? options->memory : PROBE_MEMORY,
                                             .flags = flags_of(options, &probe->empty),
                                             .sample_bytes = options->sample_bytes,
                                             .seed = base_clock_now(),
                                             .patience_ms = PATIENCE_MS,
                                             .parts = parts_of(probe),
                                             .timers = options->timers};
    if (result == BASE_OK && !options->owner)
        result = helper_begin(&probe->own, error);
    if (result == BASE_OK)
        result = make_plans(probe, error);
    if (result == BASE_OK)
        result = loader_listen_new(processes->start_ns, &probe->listener, error);
    if (result == BASE_OK)
        result = begin_timing(probe, error);
    if (result == BASE_OK && probe_does(probe, WIRE_AGENT_HEAP))
        profile_set_meta(probe->profile, "heap_overhead", profile_heap_overhead_name(options->overhead));
    if (result < 0) {
        probe_free(probe);
        return result;
    }
    *made = probe;
    return BASE_OK;
}

void probe_free(struct probe *probe)
{
    if (!probe)
        return;
    helper_end(&probe->own);
    while (probe->member_count)
        probe_join_drop(probe, probe->member_count - 1);
    while (probe->group_count)
        probe_members_free_group(probe, probe->groups[0]);
    probe_undiscovered_free(&probe->undiscovered);
    loader_listen_free(probe->listener);
    loader_plans_free(probe->plans);
    loader_image_close(probe->image);
    shared_cookies_free(&probe->cookies);
    remains_left_free(&probe->left);
    probe_timing_end(&probe->timing);
    probe_named_found_end(&probe->found);
    free(probe->functions.items);
    free(probe->groups);
    free(probe->members);
    free(probe->watched);
    free(probe);
}

pid_t probe_helper(const struct probe *probe)
{
    return probe->helper->pid;
}

void probe_files(const struct probe *probe, int files[2])
{
    files[0] = probe->options.owner ? -1 : probe->helper->socket;
    files[1] = loader_listen_file(probe->listener);
}

void probe_restart(struct probe *probe)
{
    loader_listen_restart(probe->listener, probe->processes->start_ns);
}

const char *probe_notice(const struct probe *probe)
{
    return probe->notice;
}

struct remains_left *probe_left(struct probe *probe)
{
    return &probe->left;
}

/* --- requests of members --- */

int probe_attach(struct probe *probe, pid_t pid, struct base_error *error)
{
    return probe_load(probe, pid, false, error);
}

int probe_launch(struct probe *probe, pid_t pid, struct base_error *error)
{
    return loader_expect_exec(probe->helper, pid, error);
}

/* --- ends --- */

/* --- requests --- */

/* A child that runs in a process's memory (vfork) notifies by its doorbell. */
static void expect_exec(struct probe *probe, const struct probe_member *member, pid_t pid)
{
    struct base_error why = {0};
    if (probe->options.owner || !pid || (pid != member->pid && !probe->options.follow))
        return;
    if (loader_expect_exec(probe->helper, pid, &why) < 0) {
        profile_lose(probe->profile, WIRE_LOSS_AGENT_ABSENT, 1);
        probe_note(probe, "a program that was started is not counted", &why);
    }
}

/* What a process has that ends or execs: its last moment. A child that runs in it by vfork ends nothing of
 * it. */
static void look_at_last(struct probe *probe, struct probe_member *member, uint32_t asked, pid_t pid)
{
    if (asked & WIRE_AGENT_EXEC_FAILED)
        member->empty.looked = false;
    if (!(asked & (WIRE_AGENT_END | WIRE_AGENT_EXEC)) || pid != member->pid)
        return;
    if (probe->empty.counter)
        probe_publish_blocks(probe, member, member->pid);
    if (asked & WIRE_AGENT_END)
        probe_publish_descriptors(probe, member, SHARED_DESCRIPTORS_ENDING);
}

static void answer_thread(struct probe *probe, struct probe_member *member, struct shared_ask *ask)
{
    pid_t pid = shared_proc_outside(&member->group->file, member->pid, &ask->tid);
    if (ask->what & WIRE_AGENT_EXEC_FAILED && pid && !probe->options.owner)
        loader_unfollow(probe->helper, pid);
    if (ask->what & WIRE_AGENT_EXEC)
        expect_exec(probe, member, pid);
    look_at_last(probe, member, ask->what, pid);
}

static void answer_member(struct probe *probe, struct probe_member *member)
{
    uint32_t sequence, asked;
    struct shared_asks asks;
    if (!shared_file_request(&member->group->file, member->region, &asked, &sequence, &asks))
        return;
    if (asked & WIRE_AGENT_OBJECTS)
        probe_load_objects(probe, member);
    for (uint32_t i = 0; i < asks.count; i++)
        answer_thread(probe, member, &asks.items[i]);
    shared_file_answer(&member->group->file, member->region, sequence);
}

static void answer_members(struct probe *probe)
{
    uint64_t ignored;
    if (read(loader_listen_file(probe->listener), &ignored, sizeof ignored) < 0)
        return;
    probe_join_all(probe);
    for (size_t i = 0; i < probe->member_count; i++)
        answer_member(probe, &probe->members[i]);
}

/* --- execs --- */

static void publish_exec(struct probe *probe, pid_t pid)
{
    char name[32] = "";
    struct perf_comm comm = {(uint32_t)pid, (uint32_t)pid, true, name};
    proc_target_name(pid, pid, name, sizeof name);
    sample_processes_on_comm(probe->processes, &comm, base_clock_now());
}

void probe_exec(struct probe *probe, pid_t pid)
{
    struct base_error why = {0};
    /* The process that execs may be an undiscovered child: joined later, it would be taken for its new
     * program. */
    probe_join_all(probe);
    struct shared_descriptors_published opened = {0};
    struct probe_member *old = probe_members_find(probe, pid);
    if (old) {
        probe_end_look_at(probe, old);
        probe_publish_descriptors(probe, old, SHARED_DESCRIPTORS_EXECED);
        probe_publish_member(probe, old, true);
        shared_descriptors_carry(&opened, &old->opened);
        shared_file_forget(&old->group->file, old->region);
        probe_join_drop(probe, (size_t)(old - probe->members));
    }
    if (probe->options.unpublished)
        publish_exec(probe, pid);
    if (probe_load(probe, pid, true, &why) < 0) {
        profile_lose(probe->profile, WIRE_LOSS_AGENT_ABSENT, 1);
        probe_note(probe, "a program that was started is not counted", &why);
    } else if ((old = probe_members_find(probe, pid))) {
        shared_descriptors_carry(&old->opened, &opened);
    }
    shared_descriptors_published_free(&opened);
}

/* Whose agent a child goes on with that has not come to a hook yet; NULL: it is none of ours. */
static const struct loader_agent *parent_of(const struct probe *probe, pid_t pid)
{
    for (size_t i = 0; i < probe->member_count; i++)
        if (probe->members[i].agent && shared_file_is_users(&probe->members[i].group->file, pid))
            return probe->members[i].agent;
    for (size_t i = 0; i < probe->group_count; i++)
        if (shared_file_is_users(&probe->groups[i]->file, pid))
            return probe->groups[i]->last;
    return NULL;
}

static void update_undiscovered(struct probe *probe, pid_t pid)
{
    struct base_error why = {0};
    struct loader_agent *there = probe_undiscovered_find(&probe->undiscovered, pid);
    const struct loader_agent *parent = there ? NULL : parent_of(probe, pid);
    int result = BASE_OK;
    if (parent)
        result = probe_undiscovered_add(&probe->undiscovered, parent, pid, &there, &why);
    if (result == BASE_OK && there)
        result = probe_load_hooks(probe, there, &why);
    if (result < 0)
        probe_note(probe, "objects that were loaded are not hooked", &why);
}

void probe_objects(struct probe *probe, pid_t pid)
{
    probe_join_all(probe);
    struct probe_member *member = probe_members_find(probe, pid);
    if (member)
        probe_load_objects(probe, member);
    else
        update_undiscovered(probe, pid);
}

void probe_left_by_owner(struct probe *probe, pid_t pid)
{
    probe_join_all(probe);
    struct probe_member *member = probe_members_find(probe, pid);
    if (member)
        probe_members_stop_observing(member);
}

int probe_step(struct probe *probe, struct base_error *error)
{
    struct trace_event event;
    int result = BASE_OK;
    while (!probe->options.owner && (result = helper_trace_next(probe->helper, &event, error)) > 0) {
        if (loader_take_event(probe->helper, &event)) {
            if (trace_event_lost_privileges(&event))
                sample_privileges_lost(probe->profile, event.pid, event.flags & TRACE_FLAG_PRIVILEGES_LOST);
            probe_exec(probe, event.pid);
            loader_unfollow(probe->helper, event.pid);
        }
        answer_members(probe);
    }
    answer_members(probe);
    probe_end_members(probe);
    for (size_t i = 0; i < probe->member_count; i++)
        probe_load_move(probe, &probe->members[i]);
    probe_uprobe_tend(probe);
    return result;
}

/* A thread that waits at this moment asks again for its answer within 10 ms. */
void probe_suspend(struct probe *probe)
{
    for (size_t i = 0; i < probe->group_count; i++)
        shared_file_suspend(&probe->groups[i]->file, true);
    if (!probe->options.owner)
        helper_trace_suspend(probe->helper, NULL);
}

void probe_resume(struct probe *probe)
{
    for (size_t i = 0; i < probe->group_count; i++)
        shared_file_suspend(&probe->groups[i]->file, false);
}

/* --- the end --- */

/* A process that the owner follows is held. One that cannot be, since it runs another image by now or has
 * ended, has no agent. */
static void leave_process(struct probe *probe, pid_t pid)
{
    struct loader_left left = {0};
    struct base_error why;
    bool held;
    int result;
    do {
        why = (struct base_error){0};
        held = probe->options.owner && probe_members_is_followed_by_owner(probe, pid);
        if (!probe->options.owner) /* its exec may have come after the last events were read */
            loader_unfollow(probe->helper, pid);
        result = held ? helper_trace_hold(probe->helper, pid, NULL, &why) : BASE_OK;
        if (result == BASE_OK) {
            result = loader_leave(probe->helper, pid, held, &left, &why);
            if (held)
                helper_trace_release(probe->helper, pid, NULL, NULL);
        }
    } while (result < 0 && remains_again(result, &probe->leaving_ns));
    if (result < 0 && result != BASE_ENOTFOUND) {
        probe_note(probe, "leaving", &why);
    }
    if ((result < 0 && result != BASE_ENOTFOUND) || left.bytes_left)
        remains_left_add(&probe->left, pid, left.bytes_left, !left.skipped);
    profile_lose(probe->profile, WIRE_LOSS_TEXT_ALTERED, left.probed + left.skipped);
}

/* A runtime that was linked in and stripped has no names. */
static void look_for_hooked(struct probe *probe, enum wire_agent_collector collector, bool hooked,
                            const char *what, const char *missing)
{
    struct base_error why = {0};
    if (hooked || !probe_does(probe, collector))
        return;
    if (collector == WIRE_AGENT_INSTRUMENTED)
        profile_lose(probe->profile, WIRE_LOSS_INSTRUMENTED_ABSENT, 1);
    base_fail(&why, BASE_ENOTFOUND, "no %s", missing);
    if (collector == WIRE_AGENT_THROWS)
        profile_set_meta(probe->profile, "throws_absent", why.text);
    probe_note(probe, what, &why);
}

/* Processes that still have a group's memory mapped: those that `left` knows, where a part had to stay,
 * and children that were never discovered. */
static void leave_undiscovered(struct probe *probe, const struct base_map *left)
{
    for (size_t i = 0; i < probe->group_count; i++) {
        pid_t *pids;
        size_t count = shared_file_users(&probe->groups[i]->file, &pids);
        for (size_t j = 0; j < count; j++)
            if (base_map_find(left, (uint64_t)pids[j]) == BASE_MAP_NONE && !proc_target_vfork_parent(pids[j]))
                leave_process(probe, pids[j]);
        free(pids);
    }
}

uint64_t probe_real(const struct probe *probe, pid_t pid, uint64_t pc)
{
    return probe_timing_real(&probe->timing, pid, pc);
}

int probe_leave(struct probe *probe, struct base_error *error)
{
    int result = probe_step(probe, error);
    struct base_map left = {0};
    for (size_t i = 0; i < probe->member_count; i++) {
        probe_publish_descriptors(probe, &probe->members[i], SHARED_DESCRIPTORS_ENDING);
        shared_file_release(&probe->members[i].group->file, probe->members[i].region);
        leave_process(probe, probe->members[i].pid);
        base_map_set(&left, (uint64_t)probe->members[i].pid, 1);
    }
    for (size_t i = 0; i < probe->group_count; i++)
        shared_file_leave(&probe->groups[i]->file);
    while (probe->member_count) {
        struct probe_member *member = &probe->members[probe->member_count - 1];
        probe_end_look_at(probe, member);
        if (!member->empty.looked)
            probe_publish_blocks(probe, member, member->pid);
        probe_publish_member(probe, member, true);
        probe_join_drop(probe, probe->member_count - 1);
    }
    leave_undiscovered(probe, &left);
    base_map_free(&left);
    helper_end(&probe->own); /* a process stopped at an exec that is not read any more goes on */
    look_for_hooked(probe, WIRE_AGENT_THROWS, probe->throws, "no exceptions are counted",
                    "__cxa_throw was found in the program");
    look_for_hooked(probe, WIRE_AGENT_INSTRUMENTED, probe->instrumented, "nothing to count",
                    "function of the program was built with -finstrument-functions");
    probe_named_found_publish(&probe->found);
    profile_set_metaf(probe->profile, "agent_memory", "%llu", (unsigned long long)probe->memory_most);
    return result;
}
