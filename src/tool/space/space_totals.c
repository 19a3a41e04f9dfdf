#include "space_totals.h"

#include "base_clock.h"
#include "space_read.h"
#include "space_threads.h"
#include "wire_loss.h"

#define OWN_THREADS 256 /* of a process, whose calls are kept apart */

struct publishing {
    struct space *space;
    struct space_session *session;
    struct sample_processes *processes;
};

static uint32_t profile_thread_of(const struct publishing *publishing, pid_t pid, pid_t tid)
{
    struct sample_process *process = sample_processes_latest(publishing->processes, pid, base_clock_now());
    return process ? sample_processes_thread(publishing->processes, process, tid) : 0;
}

/* All that is not one thread's own: what was counted while there was one thread, and by threads without a
 * block. */
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

static void note_failure(const struct publishing *publishing, int result)
{
    if (result < 0)
        profile_lose(publishing->session->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
}

/* Running totals take the place of earlier ones, unless they are of one among many threads that are not kept
 * apart. */
static void publish_counts(const struct publishing *publishing, struct slab_counts *counts, uint32_t thread,
                           bool final)
{
    struct space_reading reading = {.space = publishing->space,
                                    .session = publishing->session,
                                    .thread = thread,
                                    .final = final,
                                    .replace = thread || publishing->space->form == STUB_LOCK};
    note_failure(publishing, space_read(&reading, counts, NULL));
    slab_counts_free(counts);
}

static void publish_thread(const struct publishing *publishing, const struct space_thread *thread, bool own,
                           bool final)
{
    struct slab_counts counts = {0};
    uint32_t number = own ? profile_thread_of(publishing, thread->process, thread->tid) : 0;
    note_failure(publishing, space_read_block(publishing->space, &thread->block, &counts, NULL));
    publish_counts(publishing, &counts, number, final);
}

/* A thread whose running totals were published under its own number keeps that: else they would be counted
 * twice. */
static bool has_own_number(const struct space *space, const struct space_thread *thread)
{
    return thread->published || space->published_threads < OWN_THREADS;
}

/* A thread that has ended: its final counts are published, and its block is free. */
static void publish_ended(const struct publishing *publishing, struct space_thread *thread)
{
    bool own = has_own_number(publishing->space, thread);
    publishing->space->published_threads++;
    publish_thread(publishing, thread, own, true);
    space_threads_recycle(publishing->space, thread);
}

static void publish_all_ended(const struct publishing *publishing, uint64_t until)
{
    struct space *space = publishing->space;
    for (size_t i = 0; i < space->thread_count; i++) {
        struct space_thread *thread = &space->threads[i];
        if (thread->state == SPACE_ENDED && thread->ended_ns <= until && thread->tid != space->first_tid)
            publish_ended(publishing, thread);
    }
}

static void publish_first(const struct publishing *publishing, bool final)
{
    const struct space *space = publishing->space;
    struct slab_counts counts = {0};
    bool shared = space->form == STUB_LOCK;
    note_failure(publishing, read_shared(space, &counts));
    for (size_t i = 0; i < space->thread_count; i++) {
        const struct space_thread *thread = &space->threads[i];
        if (thread->tid == space->first_tid && (thread->state == SPACE_USED || thread->state == SPACE_ENDED))
            note_failure(publishing, space_read_block(space, &thread->block, &counts, NULL));
    }
    publish_counts(publishing, &counts,
                   shared ? 0 : profile_thread_of(publishing, space->pid, space->first_tid), final);
}

static void publish_others(const struct publishing *publishing, bool final)
{
    struct space *space = publishing->space;
    for (size_t i = 0; i < space->thread_count; i++) {
        struct space_thread *thread = &space->threads[i];
        if (thread->state != SPACE_USED || thread->tid == space->first_tid)
            continue;
        if (final) {
            publish_ended(publishing, thread);
        } else if (has_own_number(space, thread)) {
            thread->published = true;
            publish_thread(publishing, thread, true, false);
        }
    }
}

void space_totals_publish_ended(struct space *space, struct space_session *session,
                                struct sample_processes *processes, uint64_t until)
{
    publish_all_ended(&(struct publishing){space, session, processes}, until);
}

void space_totals_publish(struct space *space, struct space_session *session,
                          struct sample_processes *processes, bool final)
{
    const struct publishing publishing = {space, session, processes};
    if (final)
        publish_all_ended(&publishing, UINT64_MAX);
    publish_first(&publishing, final);
    publish_others(&publishing, final);
    if (final)
        space_read_coverage(space, session);
}
