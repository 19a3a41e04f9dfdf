#include "space_totals.h"

#include "base_clock.h"
#include "space_read.h"
#include "space_threads.h"
#include "wire_loss.h"

#define OWN_THREADS 256 /* of a process, whose calls are told apart */

struct telling {
    struct space *space;
    struct space_rig *rig;
    struct sample_processes *processes;
};

static uint32_t profile_thread_of(const struct telling *telling, pid_t pid, pid_t tid)
{
    struct sample_process *process = sample_processes_latest(telling->processes, pid, base_clock_now());
    return process ? sample_processes_thread(telling->processes, process, tid) : 0;
}

/* All that is not a thread's own: what was counted while there was one, and by whoever has no block. */
static int read_shared(const struct space *space, struct slab_counts *counts)
{
    int result = BASE_OK;
    for (size_t i = 0; i < space->arena_count && result == BASE_OK; i++)
        result = space_read_block(space, &space->arenas[i].block, counts, NULL);
    if (space->gs_offset && result == BASE_OK)
        result = space_read_block(space, &space->fallback, counts, NULL);
    return result;
}

void space_totals_read(const struct space *space, struct slab_counts *counts)
{
    read_shared(space, counts);
    for (size_t i = 0; i < space->thread_count; i++)
        if (space->threads[i].state == SPACE_USED)
            space_read_block(space, &space->threads[i].block, counts, NULL);
}

static void note_failure(const struct telling *telling, int result)
{
    if (result < 0)
        profile_lose(telling->rig->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
}

/* Running totals take the place of earlier ones, unless they are of one among many threads that nobody tells
 * apart. */
static void publish_counts(const struct telling *telling, struct slab_counts *counts, uint32_t thread,
                           bool final)
{
    struct space_reading reading = {.space = telling->space,
                                    .rig = telling->rig,
                                    .thread = thread,
                                    .final = final,
                                    .replace = thread || telling->space->form == STUB_LOCK};
    note_failure(telling, space_read(&reading, counts, NULL));
    slab_counts_free(counts);
}

static void publish_thread(const struct telling *telling, const struct space_thread *thread, bool own,
                           bool final)
{
    struct slab_counts counts = {0};
    uint32_t number = own ? profile_thread_of(telling, thread->process, thread->tid) : 0;
    note_failure(telling, space_read_block(telling->space, &thread->block, &counts, NULL));
    publish_counts(telling, &counts, number, final);
}

/* One of which running totals were told under its own number keeps that: they would be counted twice. */
static bool is_own(const struct space *space, const struct space_thread *thread)
{
    return thread->published || space->published_threads < OWN_THREADS;
}

/* A thread that is no more: its counts are told for good, and its block is free. */
static void publish_ended(const struct telling *telling, struct space_thread *thread)
{
    bool own = is_own(telling->space, thread);
    telling->space->published_threads++;
    publish_thread(telling, thread, own, true);
    space_threads_recycle(telling->space, thread);
}

static void publish_all_ended(const struct telling *telling, uint64_t until)
{
    struct space *space = telling->space;
    for (size_t i = 0; i < space->thread_count; i++) {
        struct space_thread *thread = &space->threads[i];
        if (thread->state == SPACE_ENDED && thread->ended_ns <= until && thread->tid != space->first_tid)
            publish_ended(telling, thread);
    }
}

static void publish_first(const struct telling *telling, bool final)
{
    const struct space *space = telling->space;
    struct slab_counts counts = {0};
    bool shared = space->form == STUB_LOCK;
    note_failure(telling, read_shared(space, &counts));
    for (size_t i = 0; i < space->thread_count; i++) {
        const struct space_thread *thread = &space->threads[i];
        if (thread->tid == space->first_tid && (thread->state == SPACE_USED || thread->state == SPACE_ENDED))
            note_failure(telling, space_read_block(space, &thread->block, &counts, NULL));
    }
    publish_counts(telling, &counts, shared ? 0 : profile_thread_of(telling, space->pid, space->first_tid),
                   final);
}

static void publish_others(const struct telling *telling, bool final)
{
    struct space *space = telling->space;
    for (size_t i = 0; i < space->thread_count; i++) {
        struct space_thread *thread = &space->threads[i];
        if (thread->state != SPACE_USED || thread->tid == space->first_tid)
            continue;
        if (final) {
            publish_ended(telling, thread);
        } else if (is_own(space, thread)) {
            thread->published = true;
            publish_thread(telling, thread, true, false);
        }
    }
}

void space_totals_publish_ended(struct space *space, struct space_rig *rig,
                                struct sample_processes *processes, uint64_t until)
{
    publish_all_ended(&(struct telling){space, rig, processes}, until);
}

void space_totals_publish(struct space *space, struct space_rig *rig, struct sample_processes *processes,
                          bool final)
{
    const struct telling telling = {space, rig, processes};
    if (final)
        publish_all_ended(&telling, UINT64_MAX);
    publish_first(&telling, final);
    publish_others(&telling, final);
    if (final)
        space_read_coverage(space, rig);
}
