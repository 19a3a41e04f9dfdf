/* Objects that are loaded and unloaded, as the loader's doorbell notifies of them. */
#include "calls_inside.h"

#include <unistd.h>

#include "base_clock.h"
#include "calls_detach.h"
#include "calls_doorbell.h"
#include "helper_trace.h"
#include "space_build.h"
#include "space_slots.h"
#include "space_survey.h"
#include "wire_loss.h"

/* `missed`: no thread waited for an answer, so what has been loaded since was not counted from its
 * beginning. */
static void answer_doorbell(struct calls *calls, struct space *space, uint32_t notified, bool missed)
{
    struct base_error why = {0};
    uint64_t began = base_clock_now();
    int result = calls_detach_reattach(space, &calls->session, &why);
    if (result < 0 && result != BASE_ENOTFOUND) {
        calls_note(calls, "thread and process creation is not observed", &why);
        profile_lose(calls->session.profile, WIRE_LOSS_CALLS_UNSEEN, 1);
    }
    if (calls_doorbell_reopen(space) && !missed)
        profile_lose(calls->session.profile, WIRE_LOSS_NOT_PLANNED, 1);
    result = BASE_OK;
    space_slots_read(space); /* of objects that may be about to be unloaded */
    if (calls->client.objects)
        calls->client.objects(calls->client.context, space->pid);
    bool settled = calls_doorbell_settled(space);
    if (settled)
        result = space_survey(space, &calls->session, &why);
    if (settled && result >= 0 && calls_program_refuse(calls, space, &why) < 0) {
        calls_members_give_up(calls, space->pid, &why);
        return;
    }
    if (settled && result >= 0 && calls_form_keep_off_gs(calls, space, &why) < 0) {
        calls_members_give_up(calls, space->pid, &why);
        return;
    }
    if (result > 0 && missed)
        profile_lose(calls->session.profile, WIRE_LOSS_NOT_PLANNED, 1);
    if (result > 0)
        result = space_build_all(space, &calls->session, false, &why);
    if (result < 0 && result != BASE_ENOTFOUND) {
        calls_note(calls, "objects that were loaded are not counted", &why);
        profile_lose(calls->session.profile, WIRE_LOSS_NOT_PLANNED, 1);
    }
    calls_doorbell_answer(space, notified);
    calls->setup_ns += base_clock_now() - began;
}

void calls_objects_answer_all(struct calls *calls)
{
    uint64_t ignored;
    uint32_t notified;
    if (read(loader_listen_file(calls->listener), &ignored, sizeof ignored) < 0)
        return;
    for (size_t i = calls->member_count; i-- > 0;) { /* one that is given up is replaced by the last */
        struct space *space = calls->members[i].space;
        if (space && calls_doorbell_notifications(space, &notified))
            answer_doorbell(calls, space, notified, false);
    }
}

/* Detached processes are reattached: then the helper observes creation, and gives threads their blocks by
 * itself. */
void calls_suspend(struct calls *calls)
{
    for (size_t i = 0; i < calls->member_count; i++) {
        struct space *space = calls->members[i].space;
        if (!space || space->pid != calls->members[i].pid || !space->doorbell)
            continue;
        calls_detach_reattach(space, &calls->session, NULL);
        calls_doorbell_silence(space);
    }
    helper_trace_suspend(&calls->session.helper, NULL);
}

void calls_resume(struct calls *calls)
{
    for (size_t i = calls->member_count; i-- > 0;) { /* one that is given up is replaced by the last */
        struct space *space = calls->members[i].space;
        if (space && space->pid == calls->members[i].pid && space->doorbell)
            answer_doorbell(calls, space, __atomic_load_n(&space->doorbell->notified, __ATOMIC_ACQUIRE),
                            true);
    }
}
