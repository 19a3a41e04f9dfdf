/* All steps, again while places are left out because text was not as expected. */
#include "space_build.h"

#include "helper_trace.h"
#include "space_apply.h"
#include "space_make.h"
#include "space_place.h"
#include "space_prepared.h"

#define LOOK_ROUNDS 4 /* of text that differs */

static int make_staged(struct space *space, struct space_session *session, bool all, struct base_error *error)
{
    int result = space_make(space, all, error);
    if (result == BASE_OK)
        result = space_apply_stage(space, session, error);
    if (result < 0)
        space_make_forget(space);
    return result;
}

static int make_and_apply(struct space *space, struct space_session *session, bool held,
                          struct base_error *error)
{
    int result = make_staged(space, session, false, error);
    if (result < 0 || held)
        return result < 0 ? result : space_apply(space, session, error);
    result = helper_trace_hold(&session->helper, space->pid, NULL, error);
    if (result < 0) {
        space_make_forget(space);
        return result;
    }
    result = space_apply(space, session, error);
    helper_trace_release(&session->helper, space->pid, NULL, NULL);
    return result;
}

static int place_held(struct space *space, struct space_session *session, bool held, struct base_error *error)
{
    if (held || !space_place_is_needed(space))
        return space_place(space, session, error);
    int result = helper_trace_hold(&session->helper, space->pid, NULL, error);
    if (result < 0)
        return result;
    result = space_place(space, session, error);
    helper_trace_release(&session->helper, space->pid, NULL, NULL);
    return result;
}

/* What could not be put in force is not tried again when another object is loaded: the caller reports it. */
static void leave_failed(struct space *space)
{
    for (size_t i = 0; i < space->object_count; i++) {
        struct space_object *object = &space->objects[i];
        object->refused |= space_place_needs_patch(object, false) && !object->patch;
        object->stale = false;
    }
}

int space_build_all(struct space *space, struct space_session *session, bool held, struct base_error *error)
{
    struct base_error why = {0};
    int result = BASE_EBUSY;
    for (int i = 0; i < LOOK_ROUNDS && result == BASE_EBUSY; i++) {
        result = place_held(space, session, held, &why);
        if (result == BASE_OK)
            result = make_and_apply(space, session, held, &why);
    }
    if (result == BASE_OK)
        space_prepared_begin(space, session);
    else if (space_place_is_there(space))
        leave_failed(space);
    return result < 0 ? base_fail(error, result, "%s", why.text) : result;
}

int space_build_change_form(struct space *space, struct space_session *session, enum stub_form form,
                            struct base_error *error)
{
    enum stub_form before = space->form;
    space->form = form;
    struct base_error why = {0};
    int result = BASE_EBUSY;
    for (int i = 0; i < LOOK_ROUNDS && result == BASE_EBUSY; i++) {
        why = (struct base_error){0};
        result = space_place_rooms(space, session, true, &why);
        if (result == BASE_OK)
            result = make_staged(space, session, true, &why);
        if (result == BASE_OK)
            result = space_apply(space, session, &why);
    }
    if (result < 0)
        space->form = before;
    return result < 0 ? base_fail(error, result, "%s", why.text) : result;
}
