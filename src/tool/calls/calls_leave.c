/* The end: processes are left as they were found, and the profile says what that and the whole recording
 * cost. */
#include "calls_inside.h"

#include <time.h>

#include "calls_detach.h"
#include "calls_undiscovered.h"
#include "helper_trace.h"
#include "plan_absent.h"
#include "space_slots.h"

#define TICKS 100 /* a second: USER_HZ, of /proc on every architecture that Tally knows */

static void describe_recording(struct calls *calls)
{
    struct trace_cost cost = {0};
    struct profile *profile = calls->session.profile;
    profile_set_meta(profile, "calls_form", calls->locked ? "lock" : calls->threaded ? "thread" : "plain");
    profile_set_metaf(profile, "calls_setup_ns", "%llu", (unsigned long long)calls->setup_ns);
    if (calls->attach_ns)
        profile_set_metaf(profile, "calls_attach_stopped_ns", "%llu", (unsigned long long)calls->attach_ns);
    profile_set_metaf(profile, "calls_stub_bytes", "%llu", (unsigned long long)calls->session.stub_bytes);
    profile_set_metaf(profile, "calls_stubs", "%llu", (unsigned long long)calls->session.stub_sites);
    profile_set_metaf(profile, "overhead_stub_samples", "%llu", (unsigned long long)calls->stub_samples);
    if (calls->memory_most)
        profile_set_metaf(profile, "overhead_target_memory", "%llu", (unsigned long long)calls->memory_most);
    if (calls->places_left)
        profile_set_metaf(profile, "calls_remains", "%llu", (unsigned long long)calls->places_left);
    if (helper_trace_cost(&calls->session.helper, 0, &cost, NULL) < 0)
        return;
    profile_set_metaf(profile, "overhead_signals", "%llu", (unsigned long long)cost.signals);
    profile_set_metaf(profile, "overhead_births", "%llu",
                      (unsigned long long)(cost.creations + cost.forks + cost.execs));
    profile_set_metaf(profile, "overhead_stopped_ns", "%llu", (unsigned long long)cost.stopped_ns);
    profile_set_metaf(profile, "overhead_followed_ns", "%llu", (unsigned long long)cost.followed_ns);
    profile_set_metaf(profile, "overhead_traced_ns", "%llu",
                      (unsigned long long)(cost.followed_ns - cost.detached_ns));
}

/* The helper answers after it has sent the events that it has. */
static int drain_events(struct calls *calls, struct base_error *error)
{
    struct trace_cost cost;
    int result = helper_trace_cost(&calls->session.helper, 0, &cost, error);
    return result < 0 ? result : calls_step(calls, error);
}

/* The recording ends where leaving begins: what is created from here on is no part of it. */
static void note_end(struct calls *calls)
{
    struct timespec now;
    if (!calls->ended_ticks && !clock_gettime(CLOCK_BOOTTIME, &now))
        calls->ended_ticks = (uint64_t)now.tv_sec * TICKS + (uint64_t)now.tv_nsec / (1000000000 / TICKS);
}

void calls_before_agent(struct calls *calls)
{
    struct base_error why = {0};
    note_end(calls);
    for (size_t i = 0; i < calls->member_count; i++) {
        struct space *space = calls->members[i].space;
        bool first = space && space->pid == calls->members[i].pid;
        int result = first ? calls_detach_end(space, &calls->session, &why) : BASE_OK;
        if (result < 0 && result != BASE_ENOTFOUND) /* else it has ended */
            calls_note(calls, "leaving", &why);
    }
}

int calls_leave(struct calls *calls, struct base_error *error)
{
    note_end(calls);
    int result = drain_events(calls, error);
    for (size_t i = 0; i < calls->member_count; i++) {
        struct space *space = calls->members[i].space;
        if (!space || space->pid != calls->members[i].pid)
            continue;
        space_slots_read(space);
        calls_members_leave(calls, space, true);
    }
    for (size_t i = 0; i < calls->member_count; i++)
        helper_trace_leave(&calls->session.helper, calls->members[i].pid, NULL);
    while (calls->member_count)
        calls_members_remove(calls, calls->members[0].pid);
    describe_recording(calls);
    /* Threads that wait at a creation whose event is not read go on, so that their processes can be left. */
    helper_end(&calls->session.helper);
    calls_undiscovered_leave(&calls->left, calls->ended_ticks, calls->session.profile);
    return result;
}

/* The first name that no counted image has: there is one notice. Where nothing is counted, nothing is
 * known. */
static void explain_absent(struct calls *calls)
{
    const struct space_images *set = &calls->session.images;
    struct symbol_near near = {0};
    struct base_error why = {0};
    size_t absent = 0;
    bool counted = false;
    while (absent < set->request.name_count && set->found[absent])
        absent++;
    if (absent == set->request.name_count)
        return;
    for (size_t i = 0; i < set->capacity; i++) {
        if (!set->items[i] || set->items[i]->state != SPACE_PLANNED)
            continue;
        sample_image_visit(&set->images->items[i], plan_absent_look, &near);
        counted = true;
    }
    plan_absent_explain(&near, set->request.names[absent], "what is counted of the program", "", &why);
    if (counted)
        calls_note(calls, "not counted", &why);
    symbol_near_free(&near);
}

void calls_finish(struct calls *calls)
{
    calls_publish_ended(calls, UINT64_MAX);
    explain_absent(calls);
}
