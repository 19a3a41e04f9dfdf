/* Taking an agent out of a process, by what lies in the process alone.
 *
 *   1. find       our mappings by their name, and in them home and slabs, which list the rest (loader_find.c)
 *   2. put back   every function whose first bytes still jump to its slot: no thread enters there any more
 *   3. timers     of the threads are deleted (agent_timer.c), and their signal's action is restored: no
 *                 thread enters there either
 *   4. wait       until each thread has been outside once (loader_users.h), and no return address is replaced
 *                 (loader_returns.h). Between looks the process runs
 *   5. put back   the hooks of unwinders, which the program needs as long as return addresses are replaced;
 *                 wait again
 *   6. unmap      where loader_unmap.h proves that no thread can come there
 */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base_clock.h"
#include "loader_find.h"
#include "loader_inside.h"
#include "loader_kept.h"
#include "loader_returns.h"
#include "loader_unmap.h"
#include "loader_users.h"
#include "proc_target.h"
#include "wire_agent_process.h"

enum {
    REST_NS = 1000000,    /* and so much more each time */
    ATTEMPTS = 40,        /* 0.8 s in all, where all threads sleep */
    ATTEMPTS_AWAKE = 100, /* 5 s: a thread inside may wait for a processor, and goes on once it has one */
    STARVED = 100,        /* attempts that do not count: the process got no processor in them */
};

static int no_memory(struct base_error *error)
{
    return base_fail(error, BASE_ENOMEM, "out of memory");
}

/* --- 2. put back --- */

static int restore_places(struct loader_leaving *leaving, const struct loader_changes *changes)
{
    struct loader_access *access = &leaving->access;
    if (changes->count == 0)
        return BASE_OK;
    int result =
        helper_trace_stage(access->helper, access->trace, changes->items, changes->count, leaving->error);
    if (result == BASE_OK)
        result = helper_trace_apply(access->helper, access->trace, leaving->error);
    if (result == BASE_OK)
        leaving->left->places += changes->count;
    return result;
}

/* A page of text that is as in its file again need not be the process's own. */
static void give_page_back(struct loader_leaving *leaving, const struct proc_maps *maps, uint64_t page)
{
    uint8_t live[LOADER_PAGE], file[LOADER_PAGE];
    for (size_t i = 0; i < maps->count; i++) {
        const struct proc_mapping *mapping = &maps->items[i];
        if (page < mapping->start || page >= mapping->end || mapping->writable)
            continue;
        int descriptor = proc_maps_open(leaving->access.pid, mapping, NULL);
        off_t at = (off_t)(mapping->offset + (page - mapping->start));
        if (descriptor >= 0 && pread(descriptor, file, sizeof file, at) == (ssize_t)sizeof file &&
            loader_read(&leaving->access, page, live, sizeof live) == BASE_OK &&
            memcmp(live, file, sizeof live) == 0)
            helper_trace_give_back(leaving->access.helper, leaving->access.trace, page, sizeof live, NULL);
        if (descriptor >= 0)
            close(descriptor);
    }
}

static void give_pages_back(struct loader_leaving *leaving, const struct loader_changes *changes)
{
    struct proc_maps maps = {0};
    uint64_t last = 0;
    int result = proc_maps_read(leaving->access.pid, &maps, NULL);
    for (size_t i = 0; i < changes->count && result == BASE_OK; i++) { /* mostly in order of address */
        const struct trace_memory_change *change = &changes->items[i];
        uint64_t first = change->address & ~(uint64_t)(LOADER_PAGE - 1);
        for (uint64_t page = first; page < change->address + change->length; page += LOADER_PAGE)
            if (page != last) {
                give_page_back(leaving, &maps, page);
                last = page;
            }
    }
    proc_maps_free(&maps);
}

static bool is_own_code(const struct loader_leaving *leaving, uint64_t address)
{
    for (size_t i = 0; i < leaving->ours.count; i++)
        if (leaving->ours.items[i].code &&
            address - leaving->ours.items[i].address < leaving->ours.items[i].size)
            return true;
    return false;
}

/* --- 3. timers --- */

static int make_calls(struct loader_leaving *leaving, struct helper_trace_call *calls, size_t count)
{
    struct loader_access *access = &leaving->access;
    return helper_trace_call(access->helper, access->trace, access->pid, calls, count, leaving->error);
}

/* Only the state of used places changes: a thread that has a place may be about to write its timer's
 * number there. */
static int delete_timers(struct loader_leaving *leaving)
{
    size_t size = WIRE_AGENT_TIMERS * sizeof(struct wire_agent_timer), count = 0;
    struct wire_agent_timer *timers = calloc(1, size);
    struct helper_trace_call *calls = calloc(WIRE_AGENT_TIMERS, sizeof *calls);
    int result = timers == NULL || calls == NULL ? no_memory(leaving->error) : BASE_OK;
    if (result == BASE_OK && proc_target_read(leaving->access.pid, leaving->timers, timers, size) != size)
        result = base_fail(leaving->error, BASE_EIO, "the agent's timers cannot be read");
    for (size_t i = 0; i < WIRE_AGENT_TIMERS && result == BASE_OK; i++) {
        if (timers[i].state == WIRE_AGENT_TIMER_NONE)
            continue;
        calls[count++] = (struct helper_trace_call){SYS_timer_delete, {timers[i].id}, 0, "timer_delete"};
        timers[i].state = WIRE_AGENT_TIMER_NONE;
    }
    if (result == BASE_OK && count)
        result = make_calls(leaving, calls, count);
    if (result == BASE_OK && count) /* their numbers may be given to other timers from now on */
        result = helper_trace_write(leaving->access.helper, leaving->access.trace, leaving->timers, timers,
                                    size, leaving->error);
    free(timers);
    free(calls);
    return result;
}

/* The address of the action that the program had set before. Two threads that reset it at once may have
 * saved our handler as that one. */
static uint64_t action_before(struct loader_leaving *leaving, uint32_t signal)
{
    uint64_t before = leaving->users.process + offsetof(struct wire_agent_process, before), handler;
    bool own = leaving->users.process && signal == leaving->own_signal &&
               loader_read(&leaving->access, before, &handler, sizeof handler) == BASE_OK &&
               !is_own_code(leaving, handler);
    return own ? before : leaving->region + offsetof(struct wire_agent_control, none);
}

/* /proc does not show it of a first thread that has ended. */
static bool may_have_handler(pid_t pid, uint32_t signal)
{
    struct proc_target_facts facts;
    return proc_target_facts(pid, pid, &facts) < 0 || facts.state == 'Z' || facts.state == 'X' ||
           (facts.caught >> (signal - 1) & 1);
}

/* Only if the handler is ours, which a fork's child has too. Pending signals of a thread that blocks it
 * are dropped by this, since the default action is to ignore it. */
static int restore_signal(struct loader_leaving *leaving, uint32_t signal)
{
    const uint64_t size = sizeof(uint64_t); /* of the kernel's signal sets */
    uint64_t found = leaving->region + offsetof(struct wire_agent_control, found), handler = 0;
    uint64_t before = action_before(leaving, signal);
    struct helper_trace_call get = {SYS_rt_sigaction, {signal, 0, found, size}, 0, "rt_sigaction"};
    struct helper_trace_call set = {SYS_rt_sigaction, {signal, before, 0, size}, 0, "rt_sigaction"};
    int result = make_calls(leaving, &get, 1);
    /* A filter that forbids the call has forbidden to set the handler, too. */
    if (result < 0 && !may_have_handler(leaving->access.pid, signal)) {
        base_error_clear(leaving->error);
        return BASE_OK;
    }
    if (result < 0)
        return result;
    if (loader_read(&leaving->access, found, &handler, sizeof handler) < 0)
        return BASE_EIO;
    return is_own_code(leaving, handler) ? make_calls(leaving, &set, 1) : BASE_OK;
}

/* While a call is made a timer may still expire, and a thread enter the handler. */
static int end_timers(struct loader_leaving *leaving)
{
    if (!leaving->timer_signals[0])
        return BASE_OK;
    int result = leaving->timers ? delete_timers(leaving) : BASE_OK;
    for (size_t i = 0; i < 2 && result == BASE_OK; i++)
        if (leaving->timer_signals[i])
            result = restore_signal(leaving, leaving->timer_signals[i]);
    return result;
}

/* --- 4. wait --- */

/* Hooks have been put back, all or all but those of `unwinders`: no thread enters by them from now on. */
static int begin_waiting(struct loader_leaving *leaving, bool unwinders)
{
    struct loader_users *users = &leaving->users;
    users->access = &leaving->access;
    users->ranges = leaving->ours.items;
    users->range_count = leaving->ours.count;
    users->functions = leaving->functions;
    users->function_count = leaving->function_count;
    users->returns = &leaving->returns;
    return loader_users_begin(users, unwinders, leaving->error);
}

static int let_run(struct loader_leaving *leaving, int attempt)
{
    struct loader_access *access = &leaving->access;
    struct helper *helper = access->helper;
    if (leaving->held)
        helper_trace_release(helper, access->pid, NULL, NULL);
    else
        loader_resume(access, false);
    base_clock_sleep((uint64_t)REST_NS * (unsigned)attempt);
    if (!leaving->held)
        return loader_stop(access, helper, access->pid, false, leaving->error);
    int result = helper_trace_hold(helper, access->pid, NULL, leaving->error);
    access->held = result == BASE_OK;
    return result;
}

/* As long as our handler is set, its code stays. A thread that was in the agent's start of a thread may
 * have made one more timer, and a fork's child may have got its region; so both are looked for again. */
static int put_unwinders_back(struct loader_leaving *leaving)
{
    struct wire_agent_control control;
    if (loader_find_control(leaving, &control))
        loader_find_process(leaving, &control);
    loader_find_publish(leaving);
    int ended = end_timers(leaving);
    int result = ended == BASE_OK ? restore_places(leaving, &leaving->last) : ended;
    if (result < 0)
        return result;
    give_pages_back(leaving, &leaving->last);
    return begin_waiting(leaving, false);
}

/* Has the process had a processor since the last call? Where its clock cannot be read it is taken to have. */
static bool has_run(const struct loader_leaving *leaving, int64_t *ran_ns)
{
    clockid_t clock;
    struct timespec time;
    if (clock_getcpuclockid(leaving->access.pid, &clock) || clock_gettime(clock, &time))
        return true;
    int64_t before = *ran_ns;
    *ran_ns = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
    return *ran_ns != before;
}

/* 1: a thread is still inside; 0: none, and none can enter. */
static int wait_for_users(struct loader_leaving *leaving)
{
    bool unwinders = true, awake = false;
    int64_t ran_ns = -1;
    int used = begin_waiting(leaving, unwinders) < 0 ? BASE_ENOMEM : 1, attempts = 0;
    for (int look = 0; attempts < (awake ? ATTEMPTS_AWAKE : ATTEMPTS) && used > 0; look++) {
        int result = look ? let_run(leaving, attempts) : BASE_OK;
        used = result < 0 ? result : loader_users_look(&leaving->users, leaving->error);
        awake |= leaving->users.awake;
        bool starved = leaving->users.awake && !has_run(leaving, &ran_ns);
        attempts += !starved || look - attempts >= STARVED;
        if (used == 0 && unwinders) {
            result = put_unwinders_back(leaving);
            unwinders = false;
            used = result < 0 ? result : loader_users_look(&leaving->users, leaving->error);
        }
    }
    return used;
}

/* --- 6. unmap --- */

/* While the process ran the agent may have mapped more tables, and unmapped some: the program's own memory
 * may be there now. */
static int find_ranges_again(struct loader_leaving *leaving)
{
    struct proc_maps maps = {0};
    size_t kept = 0;
    int result = loader_find(leaving, loader_find_add_mapping);
    if (result == BASE_OK)
        result = proc_maps_read(leaving->access.pid, &maps, leaving->error);
    for (size_t i = 0; i < leaving->ours.count && result == BASE_OK; i++) {
        const struct loader_own_range *range = &leaving->ours.items[i];
        if (loader_find_is_mapped(&maps, range, !range->data))
            leaving->ours.items[kept++] = *range;
    }
    leaving->ours.count = result == BASE_OK ? kept : leaving->ours.count;
    proc_maps_free(&maps);
    return result;
}

static int unmap_ours(struct loader_leaving *leaving, bool used)
{
    const struct loader_target target = {leaving->access.helper, leaving->access.trace, leaving->access.pid};
    int found = find_ranges_again(leaving);
    if (found < 0)
        return found;
    struct loader_range *ranges = calloc(leaving->ours.count + 1, sizeof *ranges);
    if (ranges == NULL)
        return no_memory(leaving->error);
    for (size_t i = 0; i < leaving->ours.count; i++) {
        const struct loader_own_range *range = &leaving->ours.items[i];
        ranges[i] = (struct loader_range){range->address, range->size, range->code, false};
        leaving->left->bytes_left += used ? range->size : 0;
    }
    int result =
        used ? BASE_OK
             : loader_unmap(&target, ranges, leaving->ours.count, &leaving->left->bytes_left, leaving->error);
    if (leaving->left->skipped)
        loader_kept_note(&target, ranges, leaving->ours.count, NULL);
    free(ranges);
    return result;
}

/* Steps 1 to 3. */
static int close_entries(struct loader_leaving *leaving)
{
    int result = loader_find(leaving, loader_find_mapping);
    if (result == BASE_OK) /* all jumps that are as we made them are known now */
        result = loader_find(leaving, loader_find_altered);
    loader_find_count_suspects(leaving);
    if (result == BASE_OK)
        result = loader_find_counts(leaving);
    if (result == BASE_OK)
        result = restore_places(leaving, &leaving->first);
    if (result < 0)
        return result;
    give_pages_back(leaving, &leaving->first);
    loader_find_publish(leaving);
    end_timers(leaving); /* done again when no thread can make one; an error counts then */
    base_error_clear(leaving->error);
    return BASE_OK;
}

static int leave_stopped(struct loader_leaving *leaving)
{
    int result = close_entries(leaving);
    if (result < 0)
        return result;
    int used = wait_for_users(leaving);
    /* A jump of ours that another tool has moved leads to our code, too. */
    result = unmap_ours(leaving, used != 0 || leaving->left->skipped);
    return used < 0 ? used : result;
}

static int leave_process(struct loader_leaving *leaving, struct helper *helper, pid_t pid)
{
    *leaving->left = (struct loader_left){0};
    int result = loader_stop(&leaving->access, helper, pid, leaving->held, leaving->error);
    if (result == BASE_OK)
        result = leave_stopped(leaving);
    loader_resume(&leaving->access, leaving->held);
    free(leaving->ours.items);
    free(leaving->first.items);
    free(leaving->last.items);
    free(leaving->functions);
    free(leaving->suspects);
    loader_returns_free(&leaving->returns);
    loader_users_free(&leaving->users);
    return result;
}

int loader_leave(struct helper *helper, pid_t pid, bool held, struct loader_left *left,
                 struct base_error *error)
{
    struct loader_leaving leaving = {.held = held, .left = left, .error = error};
    return leave_process(&leaving, helper, pid);
}

int loader_remove_remains(struct helper *helper, pid_t pid, bool held, struct base_error *error)
{
    struct loader_left left;
    struct loader_leaving leaving = {.held = held, .remains = true, .left = &left, .error = error};
    int result = leave_process(&leaving, helper, pid);
    if (result == BASE_OK && left.bytes_left)
        return base_fail(
            error, BASE_EBUSY,
            "an agent that a killed tally left in process %d cannot be removed yet: try again later", pid);
    return result;
}
