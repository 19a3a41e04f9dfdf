/* What members have counted since the last time becomes counters of the profile. */

#include "probe_inside.h"

#include "base_clock.h"
#include "probe_filter.h"
#include "probe_timer.h"
#include "wire_loss.h"

enum { PUBLISH_SHARE = 20 }; /* publishing may take one part in so many of the time */

static uint64_t since_start(const struct probe *probe)
{
    uint64_t now = base_clock_now(), start = probe->processes->start_ns;
    return now > start ? now - start : 0;
}

static struct shared_descriptors_place place_of(const struct probe_member *member)
{
    return (struct shared_descriptors_place){&member->group->file, member->region, member->pid};
}

void probe_publish_descriptors(struct probe *probe, struct probe_member *member,
                               enum shared_descriptors_look which)
{
    const struct shared_descriptors_place place = place_of(member);
    shared_descriptors_look(&probe->descriptors, &place, &member->opened, which);
}

static int publish_counts(struct probe *probe, const struct shared_tree *tree, struct probe_member *member,
                          bool final, struct base_error *error)
{
    const struct shared_descriptors_place place = place_of(member);
    const struct shared_descriptors_whose whose = {member->process, member->thread, since_start(probe),
                                                   final};
    struct shared_nodes nodes = {.profile = probe->profile,
                                 .tree = tree,
                                 .cookies = probe->cookies.items,
                                 .cookie_count = probe->cookies.count,
                                 .special_unknown = probe->heap.special_unknown};
    int result = shared_counts_publish(&probe->counts, &nodes, &member->counted, member->thread, error);
    if (result == BASE_OK && probe->options.function_count)
        result = shared_latency_publish(&nodes, &member->latencies, member->process, probe->counts.ns_of_tick,
                                        error);
    if (result == BASE_OK)
        result =
            shared_descriptors_publish(&probe->descriptors, &place, &nodes, &member->opened, &whose, error);
    return result == BASE_OK
               ? shared_empty_publish(&probe->empty, &nodes, &member->empty, member->thread, final, error)
               : result;
}

void probe_publish_blocks(const struct probe *probe, struct probe_member *member, pid_t pid)
{
    shared_empty_look(&probe->empty, &member->group->file, member->region, pid, &member->empty);
}

/* The last look at the blocks of an ended process, unless it was made. It is made again where an exec
 * failed: the agent reports that without waiting. */
static void settle_last(const struct probe *probe, struct probe_member *member)
{
    const struct wire_agent_process *process = shared_file_process(&member->group->file, member->region);
    if (!member->empty.looked ||
        __atomic_load_n(&process->request, __ATOMIC_ACQUIRE) & WIRE_AGENT_EXEC_FAILED)
        probe_publish_blocks(probe, member, 0);
}

static void look_at_clock(const struct probe *probe, struct probe_member *member)
{
    bool timed = probe_does(probe, WIRE_AGENT_TIME) && (member->timed || member->region);
    uint64_t now = timed ? probe_timer_clock(member->pid, probe->options.timers.clock) : 0;
    member->clock_ns = now > member->clock_ns ? now : member->clock_ns;
}

/* It took for itself what timers cannot be beside (agent_hook_signal.c), or forbade itself what the agent
 * needs (agent_hook_filter.c). `final`: it does not run any more. */
static void look_at_claims(struct probe *probe, struct probe_member *member, bool final)
{
    struct base_error why = {0};
    const struct wire_agent_process *process = shared_file_process(&member->group->file, member->region);
    if (probe_filter_publish(process, member->pid, &why))
        probe_note(probe, "not all is seen", &why);
    uint32_t timing = __atomic_load_n(&process->timing, __ATOMIC_RELAXED);
    if (timing <= WIRE_AGENT_TIMED ||
        (!final && (timing == WIRE_AGENT_ENDING || probe_load_may_move(probe, member))))
        return;
    base_error_clear(&why);
    base_fail(&why, BASE_EUSAGE,
              "process %d uses " PROBE_TIMER_SIGNAL_NAME
              " itself, or set a seccomp filter, or made an io_uring; it is not sampled any more",
              (int)member->pid);
    probe_note(probe, "time", &why);
}

void probe_publish_member(struct probe *probe, struct probe_member *member, bool final)
{
    struct shared_tree tree;
    struct base_error why = {0};
    uint64_t used = shared_file_used(&member->group->file);
    if (used > probe->memory_most)
        probe->memory_most = used;
    probe->heap.cookies = probe->cookies.items;
    probe->heap.cookie_count = probe->cookies.count;
    probe->counts.ns_of_tick = probe_times(probe) ? probe_timing_ns(&probe->timing) : 1;
    if (final)
        settle_last(probe, member);
    int result = shared_file_read(&member->group->file, member->region, &tree, &why);
    if (result == BASE_OK) {
        look_at_claims(probe, member, final);
        look_at_clock(probe, member);
        const struct shared_heap_of of = {member->process, member->thread, since_start(probe), final};
        result = shared_heap_publish(&probe->heap, &tree, &member->published, of, &why);
        if (result == BASE_OK)
            result = publish_counts(probe, &tree, member, final, &why);
        shared_tree_free(&tree);
    }
    if (result < 0)
        profile_lose(probe->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
}

void probe_publish(struct probe *probe)
{
    uint64_t now = base_clock_now();
    if (now - probe->published_ns < probe->publish_cost_ns * PUBLISH_SHARE)
        return;
    for (size_t i = 0; i < probe->member_count; i++) {
        probe_publish_descriptors(probe, &probe->members[i], SHARED_DESCRIPTORS_NAMES);
        probe_publish_member(probe, &probe->members[i], false);
    }
    probe->published_ns = base_clock_now();
    probe->publish_cost_ns = probe->published_ns - now;
}
