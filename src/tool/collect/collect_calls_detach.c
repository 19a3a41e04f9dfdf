#include "collect_calls_detach.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

#include "collect_calls_bell.h"
#include "wire_loss.h"

enum { ATTEMPTS = 20, REST_NS = 2000000, STACK_MOST = 256 << 10, STACK_FEW = 64 << 10, THREADS_MANY = 100 };

/* --- bytes --- */

static size_t list_changes(const struct collect_calls_space *space, struct patch_memory_change **changes)
{
    size_t most = 1, count = 0;
    for (size_t i = 0; i < space->object_count; i++)
        if (space->objects[i].live && space->objects[i].patch)
            most += space->objects[i].patch->change_count;
    *changes = malloc(most * sizeof **changes);
    if (!*changes)
        return 0;
    for (size_t i = 0; i < space->object_count; i++) {
        const struct collect_calls_object *object = &space->objects[i];
        if (!object->live || !object->patch)
            continue;
        memcpy(*changes + count, object->patch->changes, object->patch->change_count * sizeof **changes);
        count += object->patch->change_count;
    }
    if (space->bell_set)
        (*changes)[count++] = space->bell_change;
    return count;
}

static bool is_as(pid_t pid, const struct patch_memory_change *change, const uint8_t *bytes)
{
    uint8_t found[PATCH_MEMORY_BYTES];
    struct iovec local = {found, change->length},
                 remote = {(void *)(uintptr_t)change->address, change->length};
    return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)change->length &&
           !memcmp(found, bytes, change->length);
}

/* What somebody else has changed since, or has unmapped, is left alone. */
static size_t keep_ours(const struct collect_calls_space *space, struct patch_memory_change *changes,
                        size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (is_as(space->pid, &changes[i], changes[i].after))
            changes[kept++] = changes[i];
    return kept;
}

static int undo(struct collect_calls_space *space, struct collect_calls_rig *rig,
                struct patch_memory_change *changes, size_t count, struct base_error *error)
{
    int result = patch_trace_stage(&rig->helper, space->pid, changes, count, error);
    return result < 0 ? result : patch_trace_undo(&rig->helper, space->pid, error);
}

static int put_back(struct collect_calls_space *space, struct collect_calls_rig *rig,
                    struct collect_calls_remains *remains, struct base_error *error)
{
    struct patch_memory_change *changes;
    struct base_error why = {0};
    size_t count = list_changes(space, &changes);
    if (!changes)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    int result = undo(space, rig, changes, count, &why);
    if (result == BASE_EBUSY) {
        size_t kept = keep_ours(space, changes, count);
        remains->changes = count - kept;
        result = undo(space, rig, changes, kept, error);
    } else if (result < 0) {
        base_fail(error, result, "%s", why.text);
    }
    free(changes);
    return result;
}

/* --- who is still in our code --- */

static bool is_in(const struct collect_calls_code *code, uint64_t address)
{
    return code && address - code->address < code->size;
}

static bool is_ours(const struct collect_calls_space *space, uint64_t address)
{
    return is_in(space->bell_code, address) || collect_calls_space_is_code(space, address);
}

static void step_out(struct collect_calls_space *space, struct collect_calls_rig *rig, pid_t tid)
{
    size_t count = space->arena_count + space->window_count;
    struct patch_step_range *ranges = malloc((count + 1) * sizeof *ranges);
    if (!ranges)
        return;
    for (size_t i = 0; i < count; i++) {
        const struct collect_calls_code *code =
            i < space->arena_count ? space->arenas[i].code : space->windows[i - space->arena_count];
        ranges[i] = (struct patch_step_range){code->address, code->address + code->size};
    }
    patch_trace_step_out(&rig->helper, space->pid, tid, ranges, count, NULL);
    free(ranges);
}

/* A signal frame on the stack holds the pc that is gone back to. Stacks are looked through from the thread's sp up; words that only look
 * like addresses of ours keep memory mapped, which harms nobody. */
static bool stack_leads_here(const struct collect_calls_space *space, uint64_t sp, uint64_t *words,
                             size_t size)
{
    struct iovec local = {words, size}, remote = {(void *)(uintptr_t)(sp & ~7ull), size};
    ssize_t got = 0;
    for (size_t most = size; most >= 4096 && got <= 0; most /= 2) { /* to the stack's end, at most */
        local.iov_len = remote.iov_len = most;
        got = process_vm_readv(space->pid, &local, 1, &remote, 1, 0);
    }
    for (ssize_t i = 0; i < got / 8; i++)
        if (is_ours(space, words[i]))
            return true;
    return false;
}

/* 1: somebody is or may come back there; 0: nobody. */
static int look_for_users(struct collect_calls_space *space, struct collect_calls_rig *rig,
                          struct base_error *error)
{
    struct patch_stop_thread *threads;
    size_t count;
    int result = patch_trace_threads(&rig->helper, space->pid, &threads, &count, error);
    if (result < 0)
        return result;
    size_t size = count > THREADS_MANY ? STACK_FEW : STACK_MOST;
    uint64_t *words = malloc(size);
    bool used = !words;
    for (size_t i = 0; i < count && !used; i++) {
        if (threads[i].state == PATCH_STOP_GONE)
            continue;
        used = !threads[i].pc || is_ours(space, threads[i].pc) ||
               stack_leads_here(space, threads[i].sp, words, size);
    }
    free(words);
    free(threads);
    return used;
}

static int leave_stubs(struct collect_calls_space *space, struct collect_calls_rig *rig,
                       struct base_error *error)
{
    struct patch_stop_thread *threads;
    size_t count;
    int result = patch_trace_threads(&rig->helper, space->pid, &threads, &count, error);
    for (size_t i = 0; result == BASE_OK && i < count; i++) {
        if (is_ours(space, threads[i].pc) && !is_in(space->bell_code, threads[i].pc))
            step_out(space, rig, threads[i].tid);
        if (space->gs_offset && threads[i].state != PATCH_STOP_GONE)
            patch_trace_set_gs(&rig->helper, threads[i].tid, 0, NULL);
    }
    if (result == BASE_OK)
        free(threads);
    return result;
}

/* --- memory --- */

static void unmap(struct collect_calls_space *space, struct collect_calls_rig *rig, uint64_t address,
                  uint64_t size, struct collect_calls_remains *remains)
{
    if (patch_trace_unmap(&rig->helper, space->pid, address, size, NULL) < 0)
        remains->memory_bytes += size;
}

static void unmap_all(struct collect_calls_space *space, struct collect_calls_rig *rig,
                      struct collect_calls_remains *remains)
{
    for (size_t i = 0; i < space->arena_count; i++)
        unmap(space, rig, space->arenas[i].code->address, space->arenas[i].code->size, remains);
    for (size_t i = 0; i < space->window_count; i++)
        unmap(space, rig, space->windows[i]->address, space->windows[i]->size, remains);
    for (size_t i = 0; i < space->memory_count; i++)
        unmap(space, rig, space->memories[i].address, space->memories[i].size, remains);
    if (space->bell_code)
        unmap(space, rig, space->bell_code->address, space->bell_code->size, remains);
}

static uint64_t all_memory(const struct collect_calls_space *space)
{
    uint64_t size = space->bell_code ? space->bell_code->size : 0;
    for (size_t i = 0; i < space->arena_count; i++)
        size += space->arenas[i].code->size;
    for (size_t i = 0; i < space->window_count; i++)
        size += space->windows[i]->size;
    for (size_t i = 0; i < space->memory_count; i++)
        size += space->memories[i].size;
    return size;
}

static int rest(struct collect_calls_space *space, struct collect_calls_rig *rig, bool held,
                struct base_error *error)
{
    const struct timespec moment = {.tv_nsec = REST_NS};
    if (held)
        return BASE_EBUSY;
    patch_trace_release(&rig->helper, space->pid, NULL, NULL);
    nanosleep(&moment, NULL);
    return patch_trace_hold(&rig->helper, space->pid, NULL, error);
}

static int give_memory_back(struct collect_calls_space *space, struct collect_calls_rig *rig, bool held,
                            struct collect_calls_remains *remains, struct base_error *error)
{
    for (int i = 0;; i++) {
        int used = leave_stubs(space, rig, error);
        if (used == BASE_OK)
            used = look_for_users(space, rig, error);
        if (used < 0)
            return used;
        if (!used) {
            unmap_all(space, rig, remains);
            return BASE_OK;
        }
        int result = i < ATTEMPTS ? rest(space, rig, held, error) : BASE_EBUSY;
        if (result == BASE_EBUSY) {
            remains->memory_bytes = all_memory(space);
            return BASE_OK;
        }
        if (result < 0)
            return result;
    }
}

int collect_calls_detach(struct collect_calls_space *space, struct collect_calls_rig *rig, bool held,
                         struct collect_calls_remains *remains, struct base_error *error)
{
    *remains = (struct collect_calls_remains){0};
    collect_calls_bell_silence(space);
    int result = held ? BASE_OK : patch_trace_hold(&rig->helper, space->pid, NULL, error);
    if (result < 0)
        return result;
    result = put_back(space, rig, remains, error);
    if (result == BASE_OK)
        result = give_memory_back(space, rig, held, remains, error);
    if (!held)
        patch_trace_release(&rig->helper, space->pid, NULL, NULL);
    return result;
}
