#include "probe_inside.h"

#include <stdlib.h>
#include <unistd.h>

#include "base_array.h"
#include "base_clock.h"
#include "perf_record.h"
#include "wire_loss.h"

/* --- groups and members --- */

int probe_members_listen(struct probe *probe, struct probe_group *group, struct base_error *error)
{
    struct wire_agent_control *control = shared_file_control(&group->file);
    return loader_listen_add(probe->listener, &control->doorbell, &control->now_ns, error);
}

void probe_members_forget_doorbell(struct probe *probe, const struct probe_group *group)
{
    if (group->file.bytes)
        loader_listen_forget(probe->listener, &shared_file_control(&group->file)->doorbell);
}

void probe_members_free_group(struct probe *probe, struct probe_group *group)
{
    int file = group->file.file;
    for (size_t i = 0; i < probe->group_count; i++)
        if (probe->groups[i] == group)
            probe->groups[i] = probe->groups[--probe->group_count];
    probe_members_forget_doorbell(probe, group);
    probe_timing_keep(&probe->timing, &group->file);
    shared_file_end(&group->file);
    if (file >= 0)
        close(file);
    base_map_free(&group->rows);
    loader_free(group->last);
    free(group);
}

uint64_t probe_members_spent_ns(const struct probe_member *member)
{
    return member->clock_ns > member->begun_ns ? member->clock_ns - member->begun_ns : 0;
}

struct probe_member *probe_members_find(struct probe *probe, pid_t pid)
{
    for (size_t i = probe->member_count; i-- > 0;)
        if (probe->members[i].pid == pid)
            return &probe->members[i];
    return NULL;
}

/* A child that may be gone already is not asked for in /proc: it has its parent's name; or everything
 * about it was published before we discovered it. */
static struct sample_process *process_of(struct probe *probe, pid_t pid, pid_t parent, bool ended)
{
    struct perf_task task = {.pid = (uint32_t)pid,
                             .tid = (uint32_t)pid,
                             .parent_pid = (uint32_t)parent,
                             .parent_tid = (uint32_t)parent,
                             .time = base_clock_now()};
    if (ended && base_map_find(&probe->processes->by_pid, (uint64_t)pid) != BASE_MAP_NONE)
        return sample_processes_latest(probe->processes, pid, task.time);
    if (parent && !sample_processes_knows(probe->processes, pid))
        sample_processes_on_fork(probe->processes, &task);
    return sample_processes_get(probe->processes, pid, task.time);
}

struct probe_member *probe_members_add(struct probe *probe, struct probe_group *group, uint32_t region,
                                       pid_t pid, pid_t parent, bool ended)
{
    struct proc_ended end = {.pid = pid, .file = -1};
    ended = ended || !proc_ended_begin(&end, pid);
    struct sample_process *process = process_of(probe, pid, parent, ended);
    bool room = process && base_array_room(probe->members, probe->member_count, probe->member_capacity);
    uint32_t thread = room ? profile_thread(probe->profile, process->profile_process, 0) : 0;
    if (!thread) {
        proc_ended_close(&end);
        return NULL;
    }
    profile_set_thread_name(probe->profile, thread, "(all threads)");
    struct probe_member *member = &probe->members[probe->member_count++];
    *member = (struct probe_member){.pid = pid,
                                    .end = end,
                                    .group = group,
                                    .region = region,
                                    .process = process->profile_process,
                                    .thread = thread};
    if (probe_replaces(probe) && probe_timing_add(&probe->timing, pid, &group->file, region, NULL) < 0)
        profile_lose(probe->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
    group->members++;
    group->joined[region / 8] |= (uint8_t)(1u << region % 8);
    return member;
}

struct probe_timed probe_timed(const struct probe *probe)
{
    struct probe_timed timed = {probe->counts.samples, probe->counts.sampled_ns, probe->spent_ns};
    for (size_t i = 0; i < probe->member_count; i++)
        timed.spent_ns += probe_members_spent_ns(&probe->members[i]);
    return timed;
}

/* --- joining --- */

void probe_members_stop_observing(struct probe_member *member)
{
    struct wire_agent_process *process = shared_file_process(&member->group->file, member->region);
    member->unobserved = true;
    __atomic_store_n(&process->timed, 0, __ATOMIC_RELEASE);
}

bool probe_members_is_followed_by_owner(const struct probe *probe, pid_t pid)
{
    struct trace_cost cost;
    return !probe->options.owner || helper_trace_cost(probe->helper, pid, &cost, NULL) == BASE_OK;
}
