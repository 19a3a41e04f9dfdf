/* Counters into the profile, and stubs made anew for what has been learned from them. */
#include "calls_inside.h"

#include "base_clock.h"
#include "calls_detach.h"
#include "space_build.h"
#include "space_guess.h"
#include "space_slots.h"
#include "space_totals.h"

enum {
    REBINDS = 2,
    OFTEN_THREADS = 64, /* with more of them running totals are published at the end only */
};

#define GUESS_NS        150000000u
#define REBIND_FIRST_NS 400000000u
#define REBIND_AGAIN_NS 5000000000u

/* Hooks with many callers need room for more. */
static void grow_tables(struct space *space)
{
    for (size_t i = 0; i < space->arena_count; i++)
        slab_block_grow(&space->arenas[i].block, NULL);
    for (size_t i = 0; i < space->thread_count; i++)
        if (space->threads[i].state == SPACE_USED)
            slab_block_grow(&space->threads[i].block, NULL);
}

/* Stubs are made anew that go straight to what ld.so has bound since, past linkage stub and hook: some time
 * after the beginning, when most first calls were made, and once more much later; then also with guesses from
 * what indirect sites were counted to call. */
static void rebind_slots(struct calls *calls, struct space *space)
{
    uint64_t age = base_clock_now() - space->created_ns;
    if (space->rebinds >= REBINDS || age < (space->rebinds ? REBIND_AGAIN_NS : REBIND_FIRST_NS))
        return;
    bool guessed = space->rebinds++ && space_guess_mark(space);
    if (space_slots_mark_bound(space) || guessed)
        space_build_all(space, &calls->session, false, NULL);
}

void calls_publish_guess(struct calls *calls)
{
    for (size_t i = 0; i < calls->member_count; i++) {
        struct space *space = calls->members[i].space;
        if (!space || space->pid != calls->members[i].pid || space->guessed ||
            base_clock_now() - space->created_ns < GUESS_NS)
            continue;
        space->guessed = true;
        if (space->thread_count <= OFTEN_THREADS && space_guess_mark(space))
            space_build_all(space, &calls->session, false, NULL);
    }
}

void calls_publish(struct calls *calls)
{
    for (size_t i = 0; i < calls->member_count; i++) {
        struct space *space = calls->members[i].space;
        if (!space || space->pid != calls->members[i].pid)
            continue;
        if (space->thread_count <= OFTEN_THREADS) {
            grow_tables(space);
            space_slots_read(space);
            space_totals_publish(space, &calls->session, calls->processes, false);
            rebind_slots(calls, space);
        }
        calls_detach_tend(space, &calls->session); /* last: what needs a hold has had it */
    }
}

void calls_publish_ended(struct calls *calls, uint64_t until)
{
    size_t kept = 0;
    for (size_t i = 0; i < calls->ended_count; i++) {
        struct calls_ended ended = calls->ended[i];
        if (ended.at_ns > until) {
            calls->ended[kept++] = ended;
            continue;
        }
        space_totals_publish(ended.space, &calls->session, calls->processes, true);
        space_free(ended.space);
    }
    calls->ended_count = kept;
    for (size_t i = 0; i < calls->member_count; i++)
        if (calls->members[i].space && calls->members[i].space->pid == calls->members[i].pid)
            space_totals_publish_ended(calls->members[i].space, &calls->session, calls->processes, until);
}
