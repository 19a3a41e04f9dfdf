/* How a process can be read and changed at the moment: stopped by the helper for that, held by a
 * recording, or through its memory file alone. */
#include "loader_inside.h"

#include <string.h>

#include "base_clock.h"
#include "proc_target.h"

#define STOP_TRIES       20
#define PERMISSION_TRIES 4
#define REST_NS          5000000

/* The kernel says "not permitted" also when there is a tracer, which may have gone when it is looked for:
 * then the stop is tried again. */
static bool may_succeed_later(int result, int tries)
{
    return result == BASE_EBUSY || (result == BASE_EPERMISSION && tries < PERMISSION_TRIES);
}

/* A tracer that will not go away by waiting. The helper of a killed tally does, as soon as it has finished
 * its step. */
static bool is_foreign_tracer(pid_t pid)
{
    struct proc_target_facts facts, tracer;
    return proc_target_facts(pid, pid, &facts) == BASE_OK && facts.tracer > 0 &&
           (proc_target_facts(facts.tracer, facts.tracer, &tracer) < 0 ||
            strcmp(tracer.name, "tally-helper") != 0);
}

int loader_stop(struct loader_access *access, struct helper *helper, pid_t pid, bool held_before,
                struct base_error *error)
{
    struct base_error why = {0};
    int result = held_before ? BASE_OK : BASE_EBUSY;
    *access = (struct loader_access){
        .helper = helper, .pid = pid, .trace = held_before ? pid : 0, .memory = {.file = -1}};
    for (int i = 0; i < STOP_TRIES && may_succeed_later(result, i); i++) {
        base_error_clear(&why);
        if (i)
            base_clock_sleep(REST_NS);
        result = helper_stop(helper, pid, NULL, &why);
        if (result == BASE_EBUSY && is_foreign_tracer(pid))
            break;
    }
    access->held = result == BASE_OK;
    return result < 0 ? base_fail(error, result, "%s", why.text) : BASE_OK;
}

void loader_resume(struct loader_access *access, bool held_before)
{
    if (access->held && !held_before)
        helper_resume(access->helper, NULL, NULL);
    trace_memory_close(&access->memory);
    access->held = false;
}

int loader_read(struct loader_access *access, uint64_t address, void *bytes, size_t size)
{
    return access->held ? helper_trace_read(access->helper, access->trace, address, bytes, size, NULL)
                        : trace_memory_read(&access->memory, address, bytes, size, NULL);
}
