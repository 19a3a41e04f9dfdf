#include "loader_unmap.h"

#include <stdlib.h>

#include "helper_trace.h"
#include "loader_kept.h"
#include "proc_target.h"

/* A thread in the kernel returns to a pc that /proc shows; where it does not, that may be any. */
static bool stands_in_ranges(const struct trace_stop_thread *thread, const struct loader_range *ranges,
                             size_t count)
{
    uint64_t pc = thread->pc, sp;
    if (thread->state == TRACE_STOP_GONE)
        return false;
    if (!pc && !proc_target_is_in_kernel(thread->process, thread->tid, &pc, &sp))
        return true;
    return loader_range_of(ranges, count, pc) != NULL;
}

/* 1: some thread is; 0: none. */
static int is_thread_inside(const struct loader_target *target, const struct loader_range *ranges,
                            size_t count, struct base_error *error)
{
    struct trace_stop_thread *threads;
    size_t thread_count;
    int result = helper_trace_threads(target->helper, target->trace, &threads, &thread_count, error);
    if (result < 0)
        return result;
    bool inside = false;
    for (size_t i = 0; i < thread_count && !inside; i++)
        inside = stands_in_ranges(&threads[i], ranges, count);
    free(threads);
    return inside;
}

/* 1: some code jumps there; 0: none. */
static int is_jumped_to(pid_t pid, const struct loader_range *ranges, size_t count, struct base_error *error)
{
    struct proc_maps maps = {0};
    struct loader_leads leads = {0};
    int result = proc_maps_read(pid, &maps, error);
    if (result == BASE_OK)
        result = loader_leads_find(pid, &maps, ranges, count, &leads, error);
    bool led = leads.count || leads.unreadable || leads.others;
    loader_leads_free(&leads);
    proc_maps_free(&maps);
    return result < 0 ? result : led;
}

static int unmap_unused(const struct loader_target *target, const struct loader_range *ranges, size_t count,
                        uint64_t *left, struct base_error *error)
{
    int used = is_thread_inside(target, ranges, count, error);
    if (used == 0)
        used = is_jumped_to(target->pid, ranges, count, error);
    if (used < 0)
        return used;
    for (size_t i = 0; i < count; i++)
        if (used ||
            helper_trace_unmap(target->helper, target->trace, ranges[i].address, ranges[i].size, NULL) < 0)
            *left += ranges[i].size;
    return BASE_OK;
}

/* Copies the ranges that do not stay for good to `chosen`; returns how many. */
static size_t choose_ranges(const struct loader_kept *kept, const struct loader_range *ranges, size_t count,
                            struct loader_range *chosen, uint64_t *left)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        if (loader_kept_has(kept, &ranges[i]))
            *left += ranges[i].size;
        else
            chosen[found++] = ranges[i];
    return found;
}

int loader_unmap(const struct loader_target *target, const struct loader_range *ranges, size_t count,
                 uint64_t *left, struct base_error *error)
{
    struct proc_maps maps = {0};
    struct loader_kept kept = {0};
    struct loader_range *chosen = calloc(count + 1, sizeof *chosen);
    uint64_t stays = 0;
    int result =
        chosen ? proc_maps_read(target->pid, &maps, error) : base_fail(error, BASE_ENOMEM, "out of memory");
    if (result == BASE_OK)
        result = loader_kept_read(target->pid, &maps, &kept, error);
    if (result == BASE_OK) {
        size_t found = choose_ranges(&kept, ranges, count, chosen, &stays);
        result = found ? unmap_unused(target, chosen, found, left, error) : BASE_OK;
    }
    *left += result == BASE_OK ? stays : 0;
    free(chosen);
    loader_kept_free(&kept);
    proc_maps_free(&maps);
    return result;
}
