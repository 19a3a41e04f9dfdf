/* Following a process: one that runs is stopped twice, for what must be mapped first, and for the bytes. */
#include "calls_inside.h"

#include <stdlib.h>

#include "base_clock.h"
#include "calls_doorbell.h"
#include "helper_trace.h"
#include "remains_clean.h"
#include "space_build.h"
#include "space_place.h"
#include "space_survey.h"

int calls_launch(struct calls *calls, pid_t pid, struct base_error *error)
{
    return helper_trace_follow(&calls->session.helper, pid, error);
}

static int attach_held(struct calls *calls, struct space *space, bool lock, struct base_error *error)
{
    struct trace_stop_thread *threads;
    size_t count;
    int result = helper_trace_threads(&calls->session.helper, space->pid, &threads, &count, error);
    if (result < 0)
        return result;
    free(threads);
    if (count > 1) {
        space->form = lock || calls_form_has_set_gs(calls, space) ? STUB_LOCK : STUB_THREAD;
        result = space->form == STUB_LOCK ? calls_form_keep_gs(calls, space, error)
                                          : calls_form_give_blocks(calls, space, error);
    }
    if (result == BASE_OK)
        result = space_place(space, &calls->session, error);
    if (result == BASE_OK)
        result = calls_doorbell_prepare(space, &calls->session, calls->listener, 0, error);
    if (result > 0) /* where it cannot be written now, it is written with the next changes */
        calls_doorbell_notification(space, &calls->session, NULL);
    return result < 0 ? result : BASE_OK;
}

/* What was loaded before the loader's doorbell was set may have set gs since: no stub may count by it then,
 * not for a moment. What is loaded later waits for our answer. 1: there are other objects than before. */
static int survey_again(struct calls *calls, struct space *space, struct base_error *error)
{
    int result = space_survey(space, &calls->session, error);
    int kept = result < 0 ? result : calls_form_keep_off_gs(calls, space, error);
    return kept < 0 ? kept : result;
}

/* Plans are of text as in the file: what a killed tally left is removed first. */
static int clean_process(struct calls *calls, pid_t pid, struct base_error *error)
{
    struct remains_cleaned cleaned;
    int result = remains_clean(&calls->session.helper, pid, &cleaned, error);
    if (result == BASE_OK && cleaned.bytes_left > cleaned.bytes_kept)
        remains_left_add(&calls->left, pid, cleaned.bytes_left - cleaned.bytes_kept, true);
    return result;
}

static int survey_process(struct calls *calls, struct space *space, struct base_error *error)
{
    int result = clean_process(calls, space->pid, error);
    if (result == BASE_OK)
        result = space_survey(space, &calls->session, error);
    if (result >= 0)
        result = calls_program_refuse(calls, space, error);
    return result < 0 ? result : calls_program_free_traced(calls, space, error);
}

/* Stopped twice: for what must be mapped and the bytes of the loader's doorbell, and for all other bytes. */
static int attach_running(struct calls *calls, struct space *space, struct base_error *error)
{
    int result = survey_process(calls, space, error);
    if (result < 0)
        return result;
    bool lock = calls_form_code_uses_gs(calls, space);
    result = helper_trace_hold(&calls->session.helper, space->pid, NULL, error);
    if (result < 0)
        return result;
    result = attach_held(calls, space, lock, error);
    helper_trace_release(&calls->session.helper, space->pid, NULL, NULL);
    if (result == BASE_OK)
        result = survey_again(calls, space, error);
    if (result >= 0)
        result = space_build_all(space, &calls->session, false, error);
    if (result == BASE_OK) /* where there is no doorbell, or a thread waited there for too long */
        result = survey_again(calls, space, error);
    return result > 0 ? space_build_all(space, &calls->session, false, error) : result;
}

static struct space *add_space(struct calls *calls, pid_t pid, struct base_error *error)
{
    struct space *space = space_new(&calls->session, pid);
    if (space && calls_members_add(calls, pid, space))
        return space;
    free(space);
    base_fail(error, BASE_ENOMEM, "out of memory");
    return NULL;
}

int calls_attach_child(struct calls *calls, pid_t pid, struct base_error *error)
{
    uint64_t began = base_clock_now();
    struct space *space = add_space(calls, pid, error);
    int result = space ? survey_process(calls, space, error) : BASE_ENOMEM;
    if (result >= 0)
        result = attach_held(calls, space, calls_form_code_uses_gs(calls, space), error);
    if (result >= 0)
        result = space_build_all(space, &calls->session, true, error);
    calls->setup_ns += base_clock_now() - began;
    return result;
}

int calls_attach(struct calls *calls, pid_t pid, struct base_error *error)
{
    int result = helper_trace_follow(&calls->session.helper, pid, error);
    if (result < 0)
        return result;
    struct space *space = add_space(calls, pid, error);
    if (!space) {
        helper_trace_leave(&calls->session.helper, pid, NULL);
        return BASE_ENOMEM;
    }
    uint64_t began = base_clock_now();
    result = attach_running(calls, space, error);
    calls->setup_ns += base_clock_now() - began;
    struct trace_cost cost;
    if (helper_trace_cost(&calls->session.helper, pid, &cost, NULL) == BASE_OK)
        calls->attach_ns += cost.stopped_ns;
    if (result == BASE_ENOTFOUND && helper_trace_runs_another(&calls->session.helper, pid)) {
        base_error_clear(error); /* the event counts the new image from its first instruction */
        return BASE_OK;
    }
    if (result < 0) {
        calls_members_leave(calls, space, true);
        helper_trace_leave(&calls->session.helper, pid, NULL);
        calls_members_remove(calls, pid);
    }
    return result;
}
