/* Which process runs in which space, and what becomes of a process that is not counted any more. */
#include "calls_inside.h"

#include <stdio.h>
#include <sys/stat.h>

#include "base_array.h"
#include "base_clock.h"
#include "calls_doorbell.h"
#include "calls_remove.h"
#include "remains.h"
#include "wire_loss.h"

void calls_note(struct calls *calls, const char *what, const struct base_error *why)
{
    if (!calls->notice[0])
        snprintf(calls->notice, sizeof calls->notice, "%.64s: %.180s", what, why->text);
    profile_set_meta(calls->session.profile, "calls_notice", calls->notice);
}

void calls_members_free_space(struct calls *calls, struct space *space)
{
    calls_doorbell_forget(space, calls->listener);
    space_free(space);
}

static struct calls_member *find_member(struct calls *calls, pid_t pid)
{
    for (size_t i = 0; i < calls->member_count; i++)
        if (calls->members[i].pid == pid)
            return &calls->members[i];
    return NULL;
}

struct space *calls_members_space(struct calls *calls, pid_t pid)
{
    const struct calls_member *member = find_member(calls, pid);
    return member ? member->space : NULL;
}

bool calls_members_add(struct calls *calls, pid_t pid, struct space *space)
{
    if (!base_array_room(calls->members, calls->member_count, calls->member_capacity))
        return false;
    calls->members[calls->member_count++] = (struct calls_member){pid, space};
    return true;
}

static uint64_t used_of(int file)
{
    struct stat status;
    return fstat(file, &status) ? 0 : (uint64_t)status.st_blocks * 512;
}

static void measure_memory(struct calls *calls, const struct space *space)
{
    uint64_t used = 0;
    for (size_t i = 0; i < space->arena_count; i++)
        used += used_of(space->arenas[i].code->file);
    for (size_t i = 0; i < space->window_count; i++)
        used += used_of(space->windows[i]->file);
    for (size_t i = 0; i < space->memory_count; i++)
        used += space->memories[i].offset ? 0 : used_of(space->memories[i].file); /* counted with its code */
    if (used > calls->memory_most)
        calls->memory_most = used;
}

static void end_space(struct calls *calls, struct space *space)
{
    measure_memory(calls, space);
    calls_doorbell_forget(space, calls->listener);
    calls_doorbell_silence(space);
    if (base_array_room(calls->ended, calls->ended_count, calls->ended_capacity)) {
        calls->ended[calls->ended_count++] = (struct calls_ended){space, space->pid, base_clock_now()};
        return;
    }
    profile_lose(calls->session.profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
    space_free(space);
}

void calls_members_remove(struct calls *calls, pid_t pid)
{
    struct calls_member *member = find_member(calls, pid);
    if (!member)
        return;
    struct space *space = member->space;
    *member = calls->members[--calls->member_count];
    if (!space)
        return;
    if (--space->processes == 0) {
        end_space(calls, space);
        return;
    }
    for (size_t i = 0; i < calls->member_count && space->pid == pid; i++)
        if (calls->members[i].space == space)
            space->pid = calls->members[i].pid;
}

void calls_members_publish_remains(struct calls *calls, pid_t pid, const struct calls_remains *remains)
{
    if (remains->memory_bytes)
        remains_left_add(&calls->left, pid, remains->memory_bytes, !remains->changes);
    calls->places_left += remains->changes;
    profile_lose(calls->session.profile, WIRE_LOSS_TEXT_ALTERED,
                 remains->changes - remains->published + remains->probed);
}

void calls_members_leave(struct calls *calls, struct space *space, bool retry)
{
    struct calls_remains remains = {0};
    struct base_error why = {0};
    int result;
    do {
        why = (struct base_error){0};
        result = calls_remove(space, &calls->session, false, &remains, &why);
    } while (retry && result < 0 && remains_again(result, &calls->leaving_ns));
    if (result < 0 && result != BASE_ENOTFOUND) {
        calls_note(calls, "leaving", &why);
        remains_left_add(&calls->left, space->pid, 0, !remains.changes);
    }
    calls_members_publish_remains(calls, space->pid, &remains);
}

void calls_members_give_up(struct calls *calls, pid_t pid, const struct base_error *why)
{
    char what[64];
    struct space *space = calls_members_space(calls, pid);
    snprintf(what, sizeof what, "calls of process %d are not counted", (int)pid);
    calls_note(calls, what, why);
    if (space && space->processes == 1)
        calls_members_leave(calls, space, false);
    else if (space && space->pid == pid) /* a vfork's child runs in it */
        remains_left_add(&calls->left, pid, 0, true);
    profile_lose(calls->session.profile, WIRE_LOSS_CALLS_UNSEEN, 1);
    if (calls->client.left)
        calls->client.left(calls->client.context, pid);
    helper_trace_leave(&calls->session.helper, pid, NULL);
    calls_members_remove(calls, pid);
}
