#include "collect_agent_inside.h"

#include <stdlib.h>
#include <unistd.h>

#include "base_array.h"
#include "collect_agent_proc.h"
#include "collect_agent_timer.h"
#include "collect_record.h"
#include "patch_target.h"
#include "wire_loss.h"

/* --- families and members --- */

int collect_agent_members_listen(struct collect_agent *agent, struct collect_agent_family *family,
                                 struct base_error *error)
{
    struct wire_agent_control *control = collect_agent_file_control(&family->file);
    return collect_listen_add(agent->listener, &control->doorbell, &control->now_ns, error);
}

static void forget_bell(struct collect_agent *agent, const struct collect_agent_family *family)
{
    if (family->file.bytes)
        collect_listen_forget(agent->listener, &collect_agent_file_control(&family->file)->doorbell);
}

void collect_agent_members_free_family(struct collect_agent *agent, struct collect_agent_family *family)
{
    int file = family->file.file;
    for (size_t i = 0; i < agent->family_count; i++)
        if (agent->families[i] == family)
            agent->families[i] = agent->families[--agent->family_count];
    forget_bell(agent, family);
    collect_agent_timing_keep(&agent->timing, &family->file);
    collect_agent_file_end(&family->file);
    if (file >= 0)
        close(file);
    base_map_free(&family->rows);
    patch_agent_free(family->last);
    free(family);
}

static void join_children(struct collect_agent *agent, struct collect_agent_family *family);

/* All that were heard of have ended. A child that has not allocated yet was not, and will go on in the
 * family's tables: they stay as long as somebody has them mapped. */
void collect_agent_members_look_at_family(struct collect_agent *agent, struct collect_agent_family *family)
{
    struct base_error why = {0};
    forget_bell(agent, family);
    int outlives = collect_agent_file_outlives(&family->file, &why);
    if (outlives > 0 && collect_agent_members_listen(agent, family, &why) < 0)
        outlives = BASE_ENOMEM;
    if (outlives >= 0)
        join_children(agent, family); /* who came since the last look, and may have ended */
    else
        profile_lose(agent->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
    family->looked_ns = patch_target_now();
    if (outlives <= 0 && !family->members)
        collect_agent_members_free_family(agent, family);
}

static uint64_t spent_ns(const struct collect_agent_member *member)
{
    return member->clock_ns > member->begun_ns ? member->clock_ns - member->begun_ns : 0;
}

void collect_agent_members_drop(struct collect_agent *agent, size_t index)
{
    struct collect_agent_member *member = &agent->members[index];
    struct collect_agent_family *family = member->family;
    agent->spent_ns += spent_ns(member);
    if (member->agent) {
        patch_agent_free(family->last);
        family->last = member->agent;
    }
    collect_ended_close(&member->end);
    collect_heap_told_free(&member->told);
    collect_agent_counts_told_free(&member->counted);
    collect_empty_told_free(&member->empty);
    collect_agent_latency_told_free(&member->latencies);
    collect_agent_descriptors_told_free(&member->opened);
    *member = agent->members[--agent->member_count];
    if (--family->members == 0)
        collect_agent_members_look_at_family(agent, family);
}

struct collect_agent_member *collect_agent_members_find(struct collect_agent *agent, pid_t pid)
{
    for (size_t i = agent->member_count; i-- > 0;)
        if (agent->members[i].pid == pid)
            return &agent->members[i];
    return NULL;
}

/* A child that may be gone already is not asked for in /proc: it has its parent's name; or everything about
 * it was told before we came to hear of it. */
static struct collect_process *process_of(struct collect_agent *agent, pid_t pid, pid_t parent, bool ended)
{
    struct collect_task task = {.pid = (uint32_t)pid,
                                .tid = (uint32_t)pid,
                                .parent_pid = (uint32_t)parent,
                                .parent_tid = (uint32_t)parent,
                                .time = patch_target_now()};
    if (ended && base_map_find(&agent->processes->by_pid, (uint64_t)pid) != BASE_MAP_NONE)
        return collect_processes_latest(agent->processes, pid, task.time);
    if (parent && !collect_processes_knows(agent->processes, pid))
        collect_processes_on_fork(agent->processes, &task);
    return collect_processes_get(agent->processes, pid, task.time);
}

struct collect_agent_member *collect_agent_members_add(struct collect_agent *agent,
                                                       struct collect_agent_family *family, uint32_t region,
                                                       pid_t pid, pid_t parent, bool ended)
{
    struct collect_ended end = {.pid = pid, .file = -1};
    ended = ended || !collect_ended_begin(&end, pid);
    struct collect_process *process = process_of(agent, pid, parent, ended);
    bool room = process && base_array_room(agent->members, agent->member_count, agent->member_capacity);
    uint32_t thread = room ? profile_thread(agent->profile, process->profile_process, 0) : 0;
    if (!thread) {
        collect_ended_close(&end);
        return NULL;
    }
    profile_set_thread_name(agent->profile, thread, "(all threads)");
    struct collect_agent_member *member = &agent->members[agent->member_count++];
    *member = (struct collect_agent_member){.pid = pid,
                                            .end = end,
                                            .family = family,
                                            .region = region,
                                            .process = process->profile_process,
                                            .thread = thread};
    if (collect_agent_replaces(agent) &&
        collect_agent_timing_add(&agent->timing, pid, &family->file, region, NULL) < 0)
        profile_lose(agent->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
    family->members++;
    family->joined[region / 8] |= (uint8_t)(1u << region % 8);
    return member;
}

struct collect_agent_timed collect_agent_timed(const struct collect_agent *agent)
{
    struct collect_agent_timed timed = {agent->counts.samples, agent->counts.sampled_ns, agent->spent_ns};
    for (size_t i = 0; i < agent->member_count; i++)
        timed.spent_ns += spent_ns(&agent->members[i]);
    return timed;
}

/* --- joining --- */

void collect_agent_members_make_blind(struct collect_agent_member *member)
{
    struct wire_agent_process *process = collect_agent_file_process(&member->family->file, member->region);
    member->blind = true;
    __atomic_store_n(&process->timed, 0, __ATOMIC_RELEASE);
}

bool collect_agent_members_is_told_by_host(const struct collect_agent *agent, pid_t pid)
{
    struct patch_trace_cost cost;
    return !agent->options.host || patch_trace_cost(agent->helper, pid, &cost, NULL) == BASE_OK;
}

static void join(struct collect_agent *agent, struct collect_agent_family *family, uint32_t region)
{
    struct wire_agent_process *process = collect_agent_file_process(&family->file, region);
    struct base_error why = {0};
    struct collect_agent_member *parent = NULL;
    bool ended = collect_agent_proc_outside(&family->file, 0, &process->pid) == 0;
    pid_t pid = (pid_t)process->pid;
    for (size_t i = 0; i < agent->member_count; i++)
        if (agent->members[i].family == family &&
            (!parent || agent->members[i].region + 1 == process->parent))
            parent = &agent->members[i];
    if (pid <= 0)
        return;
    const struct patch_agent *like = parent ? parent->agent : family->last;
    struct collect_agent_member *member =
        collect_agent_members_add(agent, family, region, pid, parent ? parent->pid : 0, ended);
    if (!member) {
        profile_lose(agent->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
        return;
    }
    member->agent = collect_agent_unheard_take(&agent->unheard, pid);
    bool loaded = member->agent;
    if (!loaded && like && member->end.started)
        patch_agent_adopt(like, pid, &member->agent, &why);
    if (collect_agent_replaces(agent) &&
        ((parent && parent->blind) || !collect_agent_members_is_told_by_host(agent, pid)))
        collect_agent_members_make_blind(member);
    if (loaded)
        collect_agent_load_objects(agent, member);
}

/* Regions that children have taken. */
static void join_children(struct collect_agent *agent, struct collect_agent_family *family)
{
    uint32_t regions = collect_agent_file_regions(&family->file);
    for (uint32_t r = 1; r < regions && r < WIRE_AGENT_REGIONS; r++)
        if (!(family->joined[r / 8] & 1u << r % 8) &&
            __atomic_load_n(&collect_agent_file_process(&family->file, r)->state, __ATOMIC_ACQUIRE))
            join(agent, family, r);
}

void collect_agent_members_join(struct collect_agent *agent)
{
    for (size_t i = 0; i < agent->family_count; i++)
        join_children(agent, agent->families[i]);
}
