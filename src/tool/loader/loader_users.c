#include "loader_users.h"

#include <stdlib.h>

#include "helper_trace.h"
#include "proc_target.h"
#include "trace_frames.h"
#include "wire_agent_process.h"

enum {
    FUNCTION_NEAR = 256, /* bytes of a function */
    WORDS_NEAR = 16,
};

/* --- by the agent's own count --- */

static bool is_agent_code(const struct loader_users *users, uint64_t address)
{
    for (size_t i = 0; i < users->range_count; i++)
        if (users->ranges[i].code && address - users->ranges[i].address < users->ranges[i].size)
            return true;
    return false;
}

/* A thread that left by a jump or an exception, and entered no hook since, is still counted as inside: its
 * stack shows whether it is. */
static bool may_return(const struct loader_users *users, const struct wire_agent_thread *record)
{
    enum { LAST = WIRE_AGENT_ENTRY_WORDS - 1, LINK = 2 };
    uint64_t words[LAST + 1];
    if (record->inside != WIRE_AGENT_INSIDE)
        return record->inside != WIRE_AGENT_OUTSIDE;
    if (proc_target_read(users->access->pid, record->entered_sp - sizeof words, words, sizeof words) !=
        sizeof words)
        return true;
    bool replaced = is_agent_code(users, words[LAST]), found = false;
    for (size_t i = 0; i + LINK < LAST && !found; i++)
        found = is_agent_code(users, words[i]) &&
                (replaced || words[i + LINK] == words[LAST] || is_agent_code(users, words[i + LINK]));
    return found;
}

/* A record counts a thread as inside as long as its owner has not been seen outside. A new owner comes
 * from outside, or was created by a thread inside. Numbers that were given out may have no record
 * (agent_thread.c): one that cannot be read is no record. */
static bool record_counts(struct loader_users *users, uint64_t number)
{
    struct wire_agent_thread record;
    uint64_t at = users->records + number * WIRE_AGENT_THREAD_BYTES;
    if (proc_target_read(users->access->pid, at, &record, sizeof record) != sizeof record || record.key == 0)
        return false;
    bool unwinding = users->unwinders && record.inside == WIRE_AGENT_INSIDE_UNWINDING;
    bool inside = !unwinding && may_return(users, &record);
    if (unwinding)
        users->unwinding[users->unwinding_count++] = record.key;
    if (!inside)
        users->record_owners[number] = record.tid;
    return inside && (record.tid == 0 || record.tid != users->record_owners[number]);
}

/* The records are read after the process, which shows whether the region can be read at all. All are read,
 * since each owner that is outside must be noted. */
static bool counts_any_thread(struct loader_users *users)
{
    struct wire_agent_process process;
    users->unwinding_count = 0;
    if (users->process == 0)
        return false;
    if (proc_target_read(users->access->pid, users->process, &process, sizeof process) != sizeof process)
        return true;
    users->unrecorded_outside |= process.unrecorded == 0;
    bool inside = !users->unrecorded_outside;
    for (uint64_t i = 0; i < process.thread_count && i < WIRE_AGENT_THREADS; i++)
        inside |= record_counts(users, i);
    return inside;
}

/* --- by pc and stack --- */

/* A thread in execve is not counted while it is in there, since nothing could take the count back if it
 * does not return. */
static bool is_in_hooked(const struct loader_users *users, uint64_t pc)
{
    for (size_t i = 0; i < users->function_count; i++)
        if (pc - users->functions[i] < FUNCTION_NEAR)
            return true;
    return false;
}

static bool stack_leads_to_ours(const struct loader_users *users, const struct trace_stop_thread *thread,
                                uint64_t *words, size_t size)
{
    bool counted = users->process != 0;
    size_t near = counted && is_in_hooked(users, thread->pc) ? WORDS_NEAR : 0;
    size_t count = proc_target_stack(users->access->pid, thread->sp, words, size);
    for (size_t i = 0; i < count; i++)
        if (is_agent_code(users, words[i]) &&
            (!counted || i < near || proc_target_is_frame_pc(words, count, i)))
            return true;
    return count == 0;
}

/* Its record is found as the agent finds it, by the thread pointer: thread numbers differ in another pid
 * namespace. */
static bool is_unwinding(const struct loader_users *users, const struct trace_stop_thread *thread)
{
    struct user_regs_struct registers;
    if (users->unwinding_count == 0 || thread->state != TRACE_STOP_STOPPED ||
        helper_trace_read_registers(users->access->helper, users->access->trace, thread->tid, &registers,
                                    NULL) < 0)
        return false;
    for (size_t i = 0; i < users->unwinding_count; i++)
        if (users->unwinding[i] == registers.fs_base)
            return true;
    return false;
}

static bool is_thread_inside(const struct loader_users *users, const struct trace_stop_thread *thread,
                             uint64_t *words, size_t size)
{
    return thread->pc == 0 || (is_agent_code(users, thread->pc) && !is_unwinding(users, thread)) ||
           stack_leads_to_ours(users, thread, words, size);
}

/* --- each thread by itself --- */

static int by_number(const void *one, const void *other)
{
    const pid_t *a = one, *b = other;
    return (*a > *b) - (*a < *b);
}

static bool was_outside(const struct loader_users *users, pid_t tid)
{
    return users->outside_count &&
           bsearch(&tid, users->outside, users->outside_count, sizeof tid, by_number) != NULL;
}

/* Ended threads are removed, since their numbers may be given out again. 1: some thread has not been
 * outside yet. */
static int look_at_threads(struct loader_users *users, const struct trace_stop_thread *threads, size_t count,
                           struct base_error *error)
{
    size_t size = trace_frames_size(count), found = 0;
    uint64_t *words = malloc(size);
    pid_t *outside = calloc(count + 1, sizeof *outside);
    if (!words || !outside) {
        free(words);
        free(outside);
        return base_fail(error, BASE_ENOMEM, "out of memory");
    }
    bool inside = false;
    users->awake = false;
    for (size_t i = 0; i < count; i++) {
        if (threads[i].state == TRACE_STOP_GONE)
            continue;
        users->awake |= threads[i].state == TRACE_STOP_STOPPED && !threads[i].in_call;
        if (was_outside(users, threads[i].tid) || !is_thread_inside(users, &threads[i], words, size))
            outside[found++] = threads[i].tid;
        else
            inside = true;
    }
    free(words);
    free(users->outside);
    users->outside = outside;
    users->outside_count = found;
    qsort(outside, found, sizeof *outside, by_number);
    return inside;
}

int loader_users_look(struct loader_users *users, struct base_error *error)
{
    struct loader_access *access = users->access;
    struct trace_stop_thread *threads;
    size_t count;
    int result = helper_trace_threads(access->helper, access->trace, &threads, &count, error);
    if (result < 0)
        return result;
    for (size_t i = 0; i < count; i++)
        trace_stop_locate(&threads[i]);
    bool replaced = !loader_returns_put_back(users->returns, access, threads, count);
    bool counted = counts_any_thread(users);
    result = look_at_threads(users, threads, count, error);
    free(threads);
    return result < 0 ? result : result || counted || replaced;
}

int loader_users_begin(struct loader_users *users, bool unwinders, struct base_error *error)
{
    loader_users_free(users);
    users->unwinders = unwinders;
    users->record_owners = calloc(WIRE_AGENT_THREADS, sizeof *users->record_owners);
    users->unwinding = calloc(WIRE_AGENT_THREADS, sizeof *users->unwinding);
    return users->record_owners && users->unwinding ? BASE_OK
                                                    : base_fail(error, BASE_ENOMEM, "out of memory");
}

void loader_users_free(struct loader_users *users)
{
    free(users->outside);
    free(users->record_owners);
    free(users->unwinding);
    users->outside = NULL;
    users->record_owners = NULL;
    users->unwinding = NULL;
    users->outside_count = users->unwinding_count = 0;
    users->unrecorded_outside = false;
}
