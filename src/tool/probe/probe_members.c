#include "base_clock.h"
#include "probe_inside.h"

#include <stdlib.h>
#include <unistd.h>

#include "base_array.h"
#include "perf_record.h"
#include "probe_timer.h"
#include "shared_proc.h"
#include "wire_loss.h"

/* --- families and members --- */

int probe_members_listen(struct probe *agent, struct probe_family *family, struct base_error *error)
{
    struct wire_agent_control *control = shared_file_control(&family->file);
    return loader_listen_add(agent->listener, &control->bell, &control->now_ns, error);
}

static void forget_doorbell(struct probe *agent, const struct probe_family *family)
{
    if (family->file.bytes)
        loader_listen_forget(agent->listener, &shared_file_control(&family->file)->bell);
}

void probe_members_free_family(struct probe *agent, struct probe_family *family)
{
    int file = family->file.file;
    for (size_t i = 0; i < agent->family_count; i++)
        if (agent->families[i] == family)
            agent->families[i] = agent->families[--agent->family_count];
    forget_doorbell(agent, family);
    probe_timing_keep(&agent->timing, &family->file);
    shared_file_end(&family->file);
    if (file >= 0)
        close(file);
    base_map_free(&family->rows);
    loader_free(family->last);
    free(family);
}

static void join_children(struct probe *agent, struct probe_family *family);

/* All that were heard of have ended. A child that has not allocated yet was not, and will go on in the
 * family's tables: they stay as long as somebody has them mapped. */
void probe_members_look_at_family(struct probe *agent, struct probe_family *family)
{
    struct base_error why = {0};
    forget_doorbell(agent, family);
    int outlives = shared_file_outlives(&family->file, &why);
    if (outlives > 0 && probe_members_listen(agent, family, &why) < 0)
        outlives = BASE_ENOMEM;
    if (outlives >= 0)
        join_children(agent, family); /* who came since the last look, and may have ended */
    else
        profile_lose(agent->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
    family->looked_ns = base_clock_now();
    if (outlives <= 0 && !family->members)
        probe_members_free_family(agent, family);
}

static uint64_t spent_ns(const struct probe_member *member)
{
    return member->clock_ns > member->begun_ns ? member->clock_ns - member->begun_ns : 0;
}

void probe_members_drop(struct probe *agent, size_t index)
{
    struct probe_member *member = &agent->members[index];
    struct probe_family *family = member->family;
    agent->spent_ns += spent_ns(member);
    if (member->agent) {
        loader_free(family->last);
        family->last = member->agent;
    }
    proc_ended_close(&member->end);
    shared_heap_published_free(&member->published);
    shared_counts_published_free(&member->counted);
    shared_empty_published_free(&member->empty);
    shared_latency_published_free(&member->latencies);
    shared_descriptors_published_free(&member->opened);
    *member = agent->members[--agent->member_count];
    if (--family->members == 0)
        probe_members_look_at_family(agent, family);
}

struct probe_member *probe_members_find(struct probe *agent, pid_t pid)
{
    for (size_t i = agent->member_count; i-- > 0;)
        if (agent->members[i].pid == pid)
            return &agent->members[i];
    return NULL;
}

/* A child that may be gone already is not asked for in /proc: it has its parent's name; or everything about
 * it was told before we came to hear of it. */
static struct sample_process *process_of(struct probe *agent, pid_t pid, pid_t parent, bool ended)
{
    struct perf_task task = {.pid = (uint32_t)pid,
                             .tid = (uint32_t)pid,
                             .parent_pid = (uint32_t)parent,
                             .parent_tid = (uint32_t)parent,
                             .time = base_clock_now()};
    if (ended && base_map_find(&agent->processes->by_pid, (uint64_t)pid) != BASE_MAP_NONE)
        return sample_processes_latest(agent->processes, pid, task.time);
    if (parent && !sample_processes_knows(agent->processes, pid))
        sample_processes_on_fork(agent->processes, &task);
    return sample_processes_get(agent->processes, pid, task.time);
}

struct probe_member *probe_members_add(struct probe *agent, struct probe_family *family, uint32_t region,
                                       pid_t pid, pid_t parent, bool ended)
{
    struct proc_ended end = {.pid = pid, .file = -1};
    ended = ended || !proc_ended_begin(&end, pid);
    struct sample_process *process = process_of(agent, pid, parent, ended);
    bool room = process && base_array_room(agent->members, agent->member_count, agent->member_capacity);
    uint32_t thread = room ? profile_thread(agent->profile, process->profile_process, 0) : 0;
    if (!thread) {
        proc_ended_close(&end);
        return NULL;
    }
    profile_set_thread_name(agent->profile, thread, "(all threads)");
    struct probe_member *member = &agent->members[agent->member_count++];
    *member = (struct probe_member){.pid = pid,
                                    .end = end,
                                    .family = family,
                                    .region = region,
                                    .process = process->profile_process,
                                    .thread = thread};
    if (probe_replaces(agent) && probe_timing_add(&agent->timing, pid, &family->file, region, NULL) < 0)
        profile_lose(agent->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
    family->members++;
    family->joined[region / 8] |= (uint8_t)(1u << region % 8);
    return member;
}

struct probe_timed probe_timed(const struct probe *agent)
{
    struct probe_timed timed = {agent->counts.samples, agent->counts.sampled_ns, agent->spent_ns};
    for (size_t i = 0; i < agent->member_count; i++)
        timed.spent_ns += spent_ns(&agent->members[i]);
    return timed;
}

/* --- joining --- */

void probe_members_stop_observing(struct probe_member *member)
{
    struct wire_agent_process *process = shared_file_process(&member->family->file, member->region);
    member->unobserved = true;
    __atomic_store_n(&process->timed, 0, __ATOMIC_RELEASE);
}

bool probe_members_is_published_by_owner(const struct probe *agent, pid_t pid)
{
    struct trace_cost cost;
    return !agent->options.host || helper_trace_cost(agent->helper, pid, &cost, NULL) == BASE_OK;
}

static void join(struct probe *agent, struct probe_family *family, uint32_t region)
{
    struct wire_agent_process *process = shared_file_process(&family->file, region);
    struct base_error why = {0};
    struct probe_member *parent = NULL;
    bool ended = shared_proc_outside(&family->file, 0, &process->pid) == 0;
    pid_t pid = (pid_t)process->pid;
    for (size_t i = 0; i < agent->member_count; i++)
        if (agent->members[i].family == family &&
            (!parent || agent->members[i].region + 1 == process->parent))
            parent = &agent->members[i];
    if (pid <= 0)
        return;
    const struct loader_agent *like = parent ? parent->agent : family->last;
    struct probe_member *member =
        probe_members_add(agent, family, region, pid, parent ? parent->pid : 0, ended);
    if (!member) {
        profile_lose(agent->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
        return;
    }
    member->agent = probe_undiscovered_take(&agent->undiscovered, pid);
    bool loaded = member->agent;
    if (!loaded && like && member->end.started)
        loader_adopt(like, pid, &member->agent, &why);
    if (probe_replaces(agent) &&
        ((parent && parent->unobserved) || !probe_members_is_published_by_owner(agent, pid)))
        probe_members_stop_observing(member);
    if (loaded)
        probe_load_objects(agent, member);
}

/* Regions that children have taken. */
static void join_children(struct probe *agent, struct probe_family *family)
{
    uint32_t regions = shared_file_regions(&family->file);
    for (uint32_t r = 1; r < regions && r < WIRE_AGENT_REGIONS; r++)
        if (!(family->joined[r / 8] & 1u << r % 8) &&
            __atomic_load_n(&shared_file_process(&family->file, r)->state, __ATOMIC_ACQUIRE))
            join(agent, family, r);
}

void probe_members_join(struct probe *agent)
{
    for (size_t i = 0; i < agent->family_count; i++)
        join_children(agent, agent->families[i]);
}
