#include "collect_calls_totals.h"

#include "collect_calls_read.h"
#include "collect_calls_threads.h"
#include "patch_target.h"
#include "wire_loss.h"

#define OWN_THREADS 256 /* of a process, whose calls are told apart */

struct telling {
    struct collect_calls_space *space;
    struct collect_calls_rig *rig;
    struct collect_processes *processes;
};

static uint32_t profile_thread_of(const struct telling *telling, pid_t pid, pid_t tid)
{
    struct collect_process *process = collect_processes_latest(telling->processes, pid, patch_target_now());
    return process ? collect_processes_thread(telling->processes, process, tid) : 0;
}

/* All that is not a thread's own: what was counted while there was one, and by whoever has no block. */
static int read_shared(const struct collect_calls_space *space, struct collect_calls_sheet *sheet)
{
    int result = BASE_OK;
    for (size_t i = 0; i < space->arena_count && result == BASE_OK; i++)
        result = collect_calls_read_block(space, &space->arenas[i].block, sheet, NULL);
    if (space->gs_offset && result == BASE_OK)
        result = collect_calls_read_block(space, &space->fallback, sheet, NULL);
    return result;
}

void collect_calls_totals_read(const struct collect_calls_space *space, struct collect_calls_sheet *sheet)
{
    read_shared(space, sheet);
    for (size_t i = 0; i < space->thread_count; i++)
        if (space->threads[i].state == COLLECT_CALLS_USED)
            collect_calls_read_block(space, &space->threads[i].block, sheet, NULL);
}

static void tell_failure(const struct telling *telling, int result)
{
    if (result < 0)
        profile_lose(telling->rig->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
}

/* Running totals take the place of earlier ones, unless they are of one among many threads that nobody tells
 * apart. */
static void tell_sheet(const struct telling *telling, struct collect_calls_sheet *sheet, uint32_t thread,
                       bool final)
{
    struct collect_calls_reading reading = {.space = telling->space,
                                            .rig = telling->rig,
                                            .thread = thread,
                                            .final = final,
                                            .replace = thread || telling->space->form == PATCH_LOCK};
    tell_failure(telling, collect_calls_read(&reading, sheet, NULL));
    collect_calls_sheet_free(sheet);
}

static void tell_thread(const struct telling *telling, const struct collect_calls_thread *thread, bool own,
                        bool final)
{
    struct collect_calls_sheet sheet = {0};
    uint32_t number = own ? profile_thread_of(telling, thread->process, thread->tid) : 0;
    tell_failure(telling, collect_calls_read_block(telling->space, &thread->block, &sheet, NULL));
    tell_sheet(telling, &sheet, number, final);
}

/* One of which running totals were told under its own number keeps that: they would be counted twice. */
static bool is_own(const struct collect_calls_space *space, const struct collect_calls_thread *thread)
{
    return thread->told || space->told_threads < OWN_THREADS;
}

/* A thread that is no more: its counts are told for good, and its block is free. */
static void tell_ended(const struct telling *telling, struct collect_calls_thread *thread)
{
    bool own = is_own(telling->space, thread);
    telling->space->told_threads++;
    tell_thread(telling, thread, own, true);
    collect_calls_threads_recycle(telling->space, thread);
}

static void tell_all_ended(const struct telling *telling, uint64_t until)
{
    struct collect_calls_space *space = telling->space;
    for (size_t i = 0; i < space->thread_count; i++) {
        struct collect_calls_thread *thread = &space->threads[i];
        if (thread->state == COLLECT_CALLS_ENDED && thread->ended_ns <= until &&
            thread->tid != space->first_tid)
            tell_ended(telling, thread);
    }
}

static void tell_first(const struct telling *telling, bool final)
{
    const struct collect_calls_space *space = telling->space;
    struct collect_calls_sheet sheet = {0};
    bool shared = space->form == PATCH_LOCK;
    tell_failure(telling, read_shared(space, &sheet));
    for (size_t i = 0; i < space->thread_count; i++) {
        const struct collect_calls_thread *thread = &space->threads[i];
        if (thread->tid == space->first_tid &&
            (thread->state == COLLECT_CALLS_USED || thread->state == COLLECT_CALLS_ENDED))
            tell_failure(telling, collect_calls_read_block(space, &thread->block, &sheet, NULL));
    }
    tell_sheet(telling, &sheet, shared ? 0 : profile_thread_of(telling, space->pid, space->first_tid), final);
}

static void tell_others(const struct telling *telling, bool final)
{
    struct collect_calls_space *space = telling->space;
    for (size_t i = 0; i < space->thread_count; i++) {
        struct collect_calls_thread *thread = &space->threads[i];
        if (thread->state != COLLECT_CALLS_USED || thread->tid == space->first_tid)
            continue;
        if (final) {
            tell_ended(telling, thread);
        } else if (is_own(space, thread)) {
            thread->told = true;
            tell_thread(telling, thread, true, false);
        }
    }
}

void collect_calls_totals_tell_ended(struct collect_calls_space *space, struct collect_calls_rig *rig,
                                     struct collect_processes *processes, uint64_t until)
{
    tell_all_ended(&(struct telling){space, rig, processes}, until);
}

void collect_calls_totals_tell(struct collect_calls_space *space, struct collect_calls_rig *rig,
                               struct collect_processes *processes, bool final)
{
    const struct telling telling = {space, rig, processes};
    if (final)
        tell_all_ended(&telling, UINT64_MAX);
    tell_first(&telling, final);
    tell_others(&telling, final);
    if (final)
        collect_calls_read_coverage(space, rig);
}
