/* Members that have ended: what was never counted in them is said, what was counted is published. */
#include "probe_inside.h"

#include <poll.h>

#include "base_array.h"
#include "base_clock.h"
#include "perf_record.h"
#include "wire_loss.h"

enum { LOOK_NS = 1000000000 }; /* between looks at groups whose known members have ended */

/* A process that never had timers. */
static void look_at_timers(struct probe *probe, const struct probe_member *member)
{
    struct base_error why = {0};
    const struct profile_process *process = &probe->profile->processes[member->process];
    if (!probe_does(probe, WIRE_AGENT_TIME) || member->timed || member->region)
        return;
    base_fail(&why, BASE_ENOTFOUND, "%s (%d) has no C library that could be watched for signals",
              profile_text(probe->profile, process->name), (int)member->pid);
    probe_note(probe, "time is not sampled", &why);
}

static void publish_unhooked(struct probe *probe, const struct probe_member *member, const char *what,
                             const char *does)
{
    struct base_error why = {0};
    const struct profile_process *process = &probe->profile->processes[member->process];
    base_fail(&why, BASE_ENOTFOUND, "no function that %s was hooked in %s (%d)", does,
              profile_text(probe->profile, process->name), (int)member->pid);
    probe_note(probe, what, &why);
}

/* A process without a hooked function that allocates, or that opens descriptors: nothing of that was counted.
 * A child of fork has what its parent has. */
void probe_end_look_at(struct probe *probe, struct probe_member *member)
{
    bool blocks = !member->allocates && probe_does(probe, WIRE_AGENT_HEAP);
    bool descriptors = !member->opens && probe_does(probe, WIRE_AGENT_FDS);
    look_at_timers(probe, member);
    if (member->region || (!blocks && !descriptors))
        return;
    profile_lose(probe->profile, WIRE_LOSS_AGENT_ABSENT, 1);
    if (blocks)
        publish_unhooked(probe, member, "memory is not counted", "allocates");
    else
        publish_unhooked(probe, member, "descriptors are not counted", "opens descriptors");
}

static void end_member(struct probe *probe, size_t index)
{
    struct probe_member *member = &probe->members[index];
    struct perf_task task = {
        .pid = (uint32_t)member->pid, .tid = (uint32_t)member->pid, .time = base_clock_now()};
    probe_end_look_at(probe, member);
    probe_publish_member(probe, member, true);
    shared_file_forget(&member->group->file, member->region);
    if (probe->options.unpublished)
        sample_processes_on_exit(probe->processes, &task);
    probe_join_drop(probe, index);
}

void probe_end_members(struct probe *probe)
{
    while (probe->watched_capacity < probe->member_count)
        if (!base_array_room(probe->watched, probe->watched_capacity, probe->watched_capacity))
            return;
    for (size_t i = 0; i < probe->member_count; i++)
        probe->watched[i] = (struct pollfd){.fd = probe->members[i].end.file, .events = POLLIN};
    size_t polled = probe->member_count;
    poll(probe->watched, polled, 0);
    probe_join_all(probe); /* before their parents end; of these children nothing was asked yet */
    for (size_t i = probe->member_count; i-- > 0;)
        if (probe->members[i].end.file < 0 ? proc_ended_is(&probe->members[i].end)
                                           : i < polled && probe->watched[i].revents)
            end_member(probe, i);
    for (size_t i = probe->group_count; i-- > 0;)
        if (!probe->groups[i]->members && base_clock_now() - probe->groups[i]->looked_ns >= LOOK_NS)
            probe_join_look_at_group(probe, probe->groups[i]);
}
