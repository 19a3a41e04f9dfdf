/* Members that come and go: children that have taken a region of their group's memory join it, with their
 * own hooks if they loaded objects before they were discovered (above probe_load.c); members that have
 * ended leave it. */
#include "probe_inside.h"

#include "base_clock.h"
#include "shared_proc.h"
#include "wire_loss.h"

static void join_child(struct probe *probe, struct probe_group *group, uint32_t region)
{
    struct wire_agent_process *process = shared_file_process(&group->file, region);
    struct base_error why = {0};
    struct probe_member *parent = NULL;
    bool ended = shared_proc_outside(&group->file, 0, &process->pid) == 0;
    pid_t pid = (pid_t)process->pid;
    for (size_t i = 0; i < probe->member_count; i++)
        if (probe->members[i].group == group && (!parent || probe->members[i].region + 1 == process->parent))
            parent = &probe->members[i];
    if (pid <= 0)
        return;
    const struct loader_agent *like = parent ? parent->agent : group->last;
    struct probe_member *member =
        probe_members_add(probe, group, region, pid, parent ? parent->pid : 0, ended);
    if (!member) {
        profile_lose(probe->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
        return;
    }
    member->agent = probe_undiscovered_take(&probe->undiscovered, pid);
    bool loaded = member->agent;
    if (!loaded && like && member->end.started)
        loader_adopt(like, pid, &member->agent, &why);
    if (probe_replaces(probe) &&
        ((parent && parent->unobserved) || !probe_members_is_followed_by_owner(probe, pid)))
        probe_members_stop_observing(member);
    if (loaded)
        probe_load_objects(probe, member);
}

/* Regions that children have taken. */
static void join_children(struct probe *probe, struct probe_group *group)
{
    uint32_t regions = shared_file_regions(&group->file);
    for (uint32_t r = 1; r < regions && r < WIRE_AGENT_REGIONS; r++)
        if (!(group->joined[r / 8] & 1u << r % 8) &&
            __atomic_load_n(&shared_file_process(&group->file, r)->state, __ATOMIC_ACQUIRE))
            join_child(probe, group, r);
}

/* All discovered ones have ended. A child that has not allocated yet was not, and will go on in the
 * group's tables: they stay as long as a process has them mapped. */
void probe_join_look_at_group(struct probe *probe, struct probe_group *group)
{
    struct base_error why = {0};
    probe_members_forget_doorbell(probe, group);
    int outlives = shared_file_outlives(&group->file, &why);
    if (outlives > 0 && probe_members_listen(probe, group, &why) < 0)
        outlives = BASE_ENOMEM;
    if (outlives >= 0)
        join_children(probe, group); /* which came since the last look, and may have ended */
    else
        profile_lose(probe->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
    group->looked_ns = base_clock_now();
    if (outlives <= 0 && !group->members)
        probe_members_free_group(probe, group);
}

void probe_join_drop(struct probe *probe, size_t index)
{
    struct probe_member *member = &probe->members[index];
    struct probe_group *group = member->group;
    probe->spent_ns += probe_members_spent_ns(member);
    if (member->agent) {
        loader_free(group->last);
        group->last = member->agent;
    }
    proc_ended_close(&member->end);
    shared_heap_published_free(&member->published);
    shared_counts_published_free(&member->counted);
    shared_empty_published_free(&member->empty);
    shared_latency_published_free(&member->latencies);
    shared_descriptors_published_free(&member->opened);
    *member = probe->members[--probe->member_count];
    if (--group->members == 0)
        probe_join_look_at_group(probe, group);
}

void probe_join_all(struct probe *probe)
{
    for (size_t i = 0; i < probe->group_count; i++)
        join_children(probe, probe->groups[i]);
}
