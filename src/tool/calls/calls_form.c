/* Which form of counters a process has (stub_block.h): PLAIN for one thread, THREAD for several, LOCK where
 * the program uses gs itself. */
#include "calls_inside.h"

#include <stdlib.h>

#include "helper_trace.h"
#include "plan_gs.h"
#include "remains_drain.h"
#include "space_build.h"
#include "space_threads.h"

int calls_form_keep_gs(struct calls *calls, const struct space *space, struct base_error *error)
{
    const uint64_t keep = TRACE_GS_KEEP;
    calls->locked = true;
    return helper_trace_give(&calls->session.helper, space->pid, &keep, 1, error);
}

static bool image_uses_gs(struct calls *calls, uint32_t index)
{
    struct space_image *image = space_images_get(&calls->session.images, index);
    if (!image || image->state == SPACE_PLANNED)
        return image && image->plan.header->gs_users;
    if (!image->gs_looked)
        image->sets_gs = image->elf && plan_gs_is_set(image->elf);
    image->gs_looked = true;
    return image->sets_gs;
}

bool calls_form_code_uses_gs(struct calls *calls, const struct space *space)
{
    for (size_t i = 0; i < space->mapping_count; i++)
        if (image_uses_gs(calls, space->mappings[i].image))
            return true;
    return false;
}

bool calls_form_has_set_gs(struct calls *calls, const struct space *space)
{
    struct trace_stop_thread *threads;
    size_t count;
    bool used = false;
    if (helper_trace_threads(&calls->session.helper, space->pid, &threads, &count, NULL) < 0)
        return false;
    for (size_t i = 0; i < count && !used; i++) {
        struct user_regs_struct registers;
        used = helper_trace_read_registers(&calls->session.helper, space->pid, threads[i].tid, &registers,
                                           NULL) == BASE_OK &&
               registers.gs_base;
    }
    free(threads);
    return used;
}

static int to_locked(struct calls *calls, struct space *space, struct base_error *error)
{
    int result = space_build_change_form(space, &calls->session, STUB_LOCK, error);
    return result < 0 ? result : calls_form_keep_gs(calls, space, error);
}

/* Threads whose creation has not been reported yet have blocks too. The space is held. */
static int clear_gs(struct calls *calls, const struct space *space, struct base_error *error)
{
    struct remains_ranges ranges = {0};
    bool room = true;
    for (size_t i = 0; i < space->memory_count && room; i++)
        room = remains_ranges_add(&ranges, &(struct loader_range){space->memories[i].address,
                                                                  space->memories[i].size, false, false});
    int result = room ? remains_drain_gs(&calls->session.helper, space->pid, &ranges, space->gs_offset, error)
                      : base_fail(error, BASE_ENOMEM, "out of memory");
    free(ranges.items);
    return result;
}

/* An object was loaded that uses gs, while threads count by it: they no longer do, and gs is as it was. A
 * thread in a stub of before counts in the fallback. */
static int give_gs_back(struct calls *calls, struct space *space, struct base_error *error)
{
    int result = helper_trace_hold(&calls->session.helper, space->pid, NULL, error);
    if (result < 0)
        return result;
    result = to_locked(calls, space, error);
    if (result == BASE_OK)
        result = clear_gs(calls, space, error);
    helper_trace_release(&calls->session.helper, space->pid, NULL, NULL);
    return result;
}

int calls_form_keep_off_gs(struct calls *calls, struct space *space, struct base_error *error)
{
    int result = BASE_OK;
    if (space->form == STUB_THREAD && calls_form_code_uses_gs(calls, space))
        result = give_gs_back(calls, space, error);
    return result == BASE_ENOTFOUND ? BASE_OK : result;
}

int calls_form_to_threads(struct calls *calls, struct space *space, bool lock, pid_t created,
                          struct base_error *error)
{
    if (lock || calls_form_has_set_gs(calls, space))
        return to_locked(calls, space, error);
    int result = space_threads_assign_all(space, &calls->session, created, error);
    if (result == BASE_OK)
        result = space_threads_refill(space, &calls->session, true, error);
    if (result == BASE_OK)
        result = space_build_change_form(space, &calls->session, STUB_THREAD, error);
    calls->threaded |= result == BASE_OK;
    return result;
}

int calls_form_give_blocks(struct calls *calls, struct space *space, struct base_error *error)
{
    calls->threaded = true;
    int result = space_threads_assign_all(space, &calls->session, 0, error);
    return result < 0 ? result : space_threads_refill(space, &calls->session, true, error);
}
