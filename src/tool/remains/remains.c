#include "remains.h"

#include <stdbool.h>
#include <string.h>

#include "base_clock.h"
#include "loader.h"
#include "loader_kept.h"
#include "loader_leads.h"
#include "proc_maps.h"
#include "proc_target.h"

#define RETRY_NS UINT64_C(1000000000)
#define REST_NS  20000000
#define LEAVE_NS UINT64_C(5000000000)

static int has_remains(pid_t pid, struct base_error *error)
{
    struct proc_maps maps = {0};
    bool found = false;
    struct base_error why = {0};
    int result = proc_maps_read(pid, &maps, &why);
    for (size_t i = 0; i < maps.count && !found; i++)
        found = loader_leads_is_ours(&maps.items[i]);
    proc_maps_free(&maps);
    if (result < 0)
        return proc_target_is_alive(pid) ? base_fail(error, result, "%s", why.text)
                                         : proc_target_check(pid, error);
    return found;
}

static int remove_agent(pid_t pid, struct remains_cleaned *cleaned, struct base_error *error)
{
    struct helper helper;
    struct loader_left left = {0};
    int result = helper_begin(&helper, error);
    if (result < 0)
        return result;
    result = loader_leave(&helper, pid, false, &left, error);
    helper_end(&helper);
    cleaned->mappings += left.mappings;
    cleaned->places += left.places;
    cleaned->bytes_left = left.bytes_left;
    return result;
}

/* Once: both, as far as nothing is in the way. */
static int remove_both(pid_t pid, struct remains_cleaned *cleaned, struct base_error *error)
{
    struct remains_cleaned calls = {0};
    int result = remove_agent(pid, cleaned, error);
    if (result == BASE_OK)
        result = remains_clean_process(pid, &calls, error);
    cleaned->mappings += calls.mappings;
    cleaned->places += calls.places;
    cleaned->bytes_left += calls.bytes_left;
    cleaned->unreadable = calls.unreadable;
    return result;
}

int remains_remove(pid_t pid, struct remains_cleaned *cleaned, struct base_error *error)
{
    uint64_t end = 0, mappings = 0;
    *cleaned = (struct remains_cleaned){0};
    int result = has_remains(pid, error);
    pid_t parent = result > 0 ? proc_target_vfork_parent(pid) : 0;
    if (parent)
        return base_fail(error, BASE_EBUSY,
                         "process %d runs in the memory of process %d, which made it: leave that one",
                         (int)pid, (int)parent);
    while (result > 0) {
        cleaned->mappings = 0;
        result = remove_both(pid, cleaned, error);
        mappings = cleaned->mappings > mappings ? cleaned->mappings : mappings;
        /* Once more at least, however long the first time took: stubs of calls may have led to the agent. */
        end = end ? end : base_clock_now() + RETRY_NS;
        cleaned->bytes_kept = cleaned->bytes_left ? loader_kept_bytes(pid) : 0;
        if (result < 0 || cleaned->bytes_left <= cleaned->bytes_kept || cleaned->unreadable ||
            base_clock_now() >= end)
            break;
        base_clock_sleep(REST_NS);
        result = has_remains(pid, error);
    }
    cleaned->mappings = mappings;
    return result < 0 ? result : BASE_OK;
}

bool remains_again(int result, uint64_t *began)
{
    uint64_t now = base_clock_now();
    *began = *began ? *began : now;
    if (result != BASE_EBUSY || now - *began >= LEAVE_NS)
        return false;
    base_clock_sleep(REST_NS);
    return true;
}
