#include "collect_remains.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "elf_maps.h"
#include "patch_agent.h"
#include "patch_kept.h"
#include "patch_leads.h"
#include "patch_target.h"

#define PATIENCE_NS UINT64_C(1000000000)
#define REST_NS     20000000
#define LEAVE_NS    UINT64_C(5000000000)

static int has_remains(pid_t pid, struct base_error *error)
{
    struct elf_maps maps = {0};
    bool found = false;
    struct base_error why = {0};
    int result = elf_maps_read(pid, &maps, &why);
    for (size_t i = 0; i < maps.count && !found; i++)
        found = !strncmp(maps.items[i].path, PATCH_LEADS_OURS, strlen(PATCH_LEADS_OURS));
    elf_maps_free(&maps);
    if (result < 0)
        return patch_target_lives(pid) ? base_fail(error, result, "%s", why.text)
                                       : patch_target_check(pid, error);
    return found;
}

static int remove_agent(pid_t pid, struct collect_calls_cleaned *cleaned, struct base_error *error)
{
    struct patch_helper helper;
    struct patch_agent_left left = {0};
    int result = patch_helper_begin(&helper, error);
    if (result < 0)
        return result;
    result = patch_agent_leave(&helper, pid, false, &left, error);
    patch_helper_end(&helper);
    cleaned->mappings += left.mappings;
    cleaned->places += left.places;
    cleaned->bytes_left = left.bytes_left;
    return result;
}

/* Once: both, as far as nobody is in the way. */
static int remove_both(pid_t pid, struct collect_calls_cleaned *cleaned, struct base_error *error)
{
    struct collect_calls_cleaned calls = {0};
    int result = remove_agent(pid, cleaned, error);
    if (result == BASE_OK)
        result = collect_calls_clean_process(pid, &calls, error);
    cleaned->mappings += calls.mappings;
    cleaned->places += calls.places;
    cleaned->bytes_left += calls.bytes_left;
    cleaned->unreadable = calls.unreadable;
    return result;
}

int collect_remains_remove(pid_t pid, struct collect_calls_cleaned *cleaned, struct base_error *error)
{
    const struct timespec moment = {.tv_nsec = REST_NS};
    uint64_t end = 0, mappings = 0;
    *cleaned = (struct collect_calls_cleaned){0};
    int result = has_remains(pid, error);
    pid_t parent = result > 0 ? patch_target_vfork_parent(pid) : 0;
    if (parent)
        return base_fail(error, BASE_EBUSY,
                         "process %d runs in the memory of process %d, which made it: leave that one",
                         (int)pid, (int)parent);
    while (result > 0) {
        cleaned->mappings = 0;
        result = remove_both(pid, cleaned, error);
        mappings = cleaned->mappings > mappings ? cleaned->mappings : mappings;
        /* Once more at least, however long the first time took: stubs of calls may have led to the agent. */
        end = end ? end : patch_target_now() + PATIENCE_NS;
        cleaned->bytes_kept = cleaned->bytes_left ? patch_kept_bytes(pid) : 0;
        if (result < 0 || cleaned->bytes_left <= cleaned->bytes_kept || cleaned->unreadable ||
            patch_target_now() >= end)
            break;
        nanosleep(&moment, NULL);
        result = has_remains(pid, error);
    }
    cleaned->mappings = mappings;
    return result < 0 ? result : BASE_OK;
}

bool collect_remains_again(int result, uint64_t *began)
{
    uint64_t now = patch_target_now();
    *began = *began ? *began : now;
    if (result != BASE_EBUSY || now - *began >= LEAVE_NS)
        return false;
    nanosleep(&(struct timespec){.tv_nsec = REST_NS}, NULL);
    return true;
}
