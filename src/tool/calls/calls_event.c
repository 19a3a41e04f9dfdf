/* What happens in processes that are followed: new programs, forks, threads, ends. The helper reports it in
 * order (trace_event.h); a process or thread that is reported as created waits for its release. */
#include "calls_inside.h"

#include <stdlib.h>

#include "base_clock.h"
#include "calls_detach.h"
#include "calls_doorbell.h"
#include "calls_remove.h"
#include "helper_trace.h"
#include "perf_record.h"
#include "proc_target.h"
#include "proc_translator.h"
#include "sample_privileges.h"
#include "space_build.h"
#include "space_fork.h"
#include "space_place.h"
#include "space_slots.h"
#include "space_survey.h"
#include "space_threads.h"
#include "wire_loss.h"

/* A new image: old counts are published later, new ones begin. Where the loader has a doorbell, nothing of
 * the program runs before it has notified: everything is planned then, at once, and only memory is mapped
 * now, because the process is held anyway. */
static int begin_image(struct calls *calls, pid_t pid, struct base_error *error)
{
    struct space *space = space_new(&calls->session, pid);
    if (!space || !calls_members_add(calls, pid, space)) {
        free(space);
        return base_fail(error, BASE_ENOMEM, "out of memory");
    }
    space->launched = true;
    int result = proc_translator_refuse(pid, error);
    if (result == BASE_OK)
        result = space_look(space, &calls->session, error);
    bool loads = result == BASE_OK && calls_program_plan(space, &calls->session);
    if (result == BASE_OK)
        result = calls_program_free_traced(calls, space, error);
    if (result == BASE_OK)
        result = calls_doorbell_install(space, &calls->session, calls->listener, SPACE_CODE_AHEAD, error);
    if (result > 0) {
        space_place_ahead(space, &calls->session);
        return result;
    }
    if (result == 0 && loads && calls->client.left) /* no notification will come */
        calls->client.left(calls->client.context, pid);
    if (result == 0)
        result = space_survey(space, &calls->session, error);
    if (result >= 0)
        result = calls_program_refuse(calls, space, error);
    return result < 0 ? result : space_build_all(space, &calls->session, true, error);
}

static void on_exec(struct calls *calls, const struct trace_event *event)
{
    struct base_error why = {0};
    uint64_t began = base_clock_now();
    calls_members_remove(calls, event->pid);
    if (trace_event_lost_privileges(event))
        sample_privileges_lost(calls->session.profile, event->pid, event->flags & TRACE_FLAG_PRIVILEGES_LOST);
    if (calls->client.exec)
        calls->client.exec(calls->client.context, event->pid);
    if (begin_image(calls, event->pid, &why) < 0)
        calls_members_give_up(calls, event->pid, &why);
    else
        helper_trace_release(&calls->session.helper, event->pid, NULL, NULL);
    calls->setup_ns += base_clock_now() - began;
}

static int begin_fork(struct calls *calls, struct space *parent, const struct trace_event *event,
                      struct base_error *error)
{
    struct space *child;
    int result = space_fork(parent, &calls->session, event->pid, &child, error);
    if (result < 0)
        return result;
    if (!calls_members_add(calls, event->pid, child)) {
        space_free(child);
        return base_fail(error, BASE_ENOMEM, "out of memory");
    }
    child->first_tid = event->pid;
    result = space_threads_inherit(child, &calls->session, error);
    if (result == BASE_OK)
        result = calls_doorbell_listen(child, calls->listener, error);
    if (result == BASE_OK && child->form == STUB_LOCK)
        result = calls_form_keep_gs(calls, child, error);
    return result < 0 || child->form != STUB_THREAD
               ? result
               : space_threads_refill(child, &calls->session, true, error);
}

/* The copy becomes what it would have been without us. False: something of ours stays in it. */
static bool clean_fork(struct calls *calls, const struct space *parent, pid_t pid)
{
    struct space child = *parent;
    struct calls_remains remains;
    child.pid = pid;
    child.copied = true;
    child.doorbell = NULL; /* the parent's words: they are not to be touched */
    int result = calls_remove(&child, &calls->session, true, &remains, NULL);
    if (result == BASE_EBUSY) /* it did not wait for a silent tally */
        result = calls_remove(&child, &calls->session, false, &remains, NULL);
    if (result < 0 && result != BASE_ENOTFOUND)
        remains_left_add(&calls->left, pid, 0, !remains.changes);
    calls_members_publish_remains(calls, pid, &remains);
    return result == BASE_OK && !remains.memory_bytes;
}

/* A child that is reported after its parent was attached to, and was created before that, has nothing of ours,
 * or what its parent had then: it is attached to as a process of its own. 1: it is not to be followed. */
static int begin_child(struct calls *calls, struct space *parent, const struct trace_event *event,
                       struct base_error *error)
{
    int result = begin_fork(calls, parent, event, error);
    if (result == BASE_OK)
        return result;
    bool clean = clean_fork(calls, parent, event->pid);
    if (result != BASE_EUSAGE || !clean)
        return result;
    if (calls_program_traces(calls, parent)) { /* it may be about to trace this one */
        calls_program_publish_freed(calls, event->parent);
        return 1;
    }
    calls_members_remove(calls, event->pid);
    base_error_clear(error);
    helper_trace_write_at_exit(&calls->session.helper, event->pid, 0, 0, NULL); /* inherited, and unmapped */
    return calls_attach_child(calls, event->pid, error);
}

static void on_fork(struct calls *calls, const struct trace_event *event)
{
    struct base_error why = {0};
    struct space *parent = calls_members_space(calls, event->parent);
    bool freed = (event->flags & TRACE_FLAG_DETACHED) != 0;
    if (!calls->options.follow || !parent || freed) {
        if (freed)
            calls_program_publish_freed(calls, event->parent);
        if (parent)
            clean_fork(calls, parent, event->pid);
        helper_trace_leave(&calls->session.helper, event->pid, NULL);
        return;
    }
    int result = begin_child(calls, parent, event, &why);
    if (result < 0)
        calls_members_give_up(calls, event->pid, &why);
    else if (result > 0)
        helper_trace_leave(&calls->session.helper, event->pid, NULL);
    else
        helper_trace_release(&calls->session.helper, event->pid, NULL, NULL);
}

static void on_vfork(struct calls *calls, const struct trace_event *event)
{
    struct space *space = calls_members_space(calls, event->parent);
    if (event->flags & TRACE_FLAG_DETACHED)
        calls_program_publish_freed(calls, event->parent);
    else if (space && calls_members_add(calls, event->pid, space))
        space->processes++;
}

static void on_creation(struct calls *calls, const struct trace_event *event)
{
    struct space *space = calls_members_space(calls, event->pid);
    if (!space && event->pid != event->parent) {
        on_vfork(calls, event);
        space = calls_members_space(calls, event->pid);
    }
    struct space_thread *thread = space ? space_threads_find(space, event->gs) : NULL;
    if (space && !event->gs && space->form != STUB_LOCK) /* it did not wait for counters of its own */
        profile_lose(calls->session.profile, WIRE_LOSS_CALLS_SHARED, 1);
    if (!thread)
        return;
    space_threads_withdraw(space, event->tid);
    space_threads_set(space, thread, SPACE_USED);
    thread->process = event->pid;
    thread->tid = event->tid;
    struct base_error why = {0};
    if (space->form != STUB_THREAD) /* created before gs was given back, reported after it */
        return;
    int result = space_threads_refill(space, &calls->session, false, &why);
    if (result < 0 && result != BASE_ENOTFOUND)
        calls_note(calls, "counters for more threads", &why);
}

static void on_need(struct calls *calls, const struct trace_event *event)
{
    struct base_error why = {0};
    struct space *space = calls_members_space(calls, event->parent);
    pid_t pid = event->parent;
    if (!space) {
        helper_trace_leave(&calls->session.helper, event->pid, NULL);
        return;
    }
    int result = BASE_OK;
    if (space->form == STUB_THREAD) { /* no other thread is stopped, unless more must be mapped */
        result = space_threads_refill(space, &calls->session, false, &why);
    } else {
        bool lock = calls_form_code_uses_gs(calls, space); /* before the hold: it may take a while */
        result = helper_trace_hold(&calls->session.helper, pid, NULL, &why);
        if (result == BASE_OK) {
            result = calls_form_to_threads(calls, space, lock, event->tid, &why);
            helper_trace_release(&calls->session.helper, pid, NULL, NULL);
        }
    }
    /* It may have ended: the events of creation and end that are queued behind this one still count. */
    if (result < 0 && result != BASE_ENOTFOUND)
        calls_members_give_up(calls, pid, &why);
}

static void on_thread_exit(struct calls *calls, const struct trace_event *event)
{
    struct space *space = calls_members_space(calls, event->pid);
    struct space_thread *thread = space ? space_threads_find(space, event->gs) : NULL;
    if (!thread || thread->state != SPACE_USED)
        return;
    space_threads_set(space, thread, SPACE_ENDED);
    thread->ended_ns = base_clock_now();
}

/* The last chance to read what ld.so has bound since. */
static void on_ending(struct calls *calls, const struct trace_event *event)
{
    struct space *space = calls_members_space(calls, event->pid);
    if (space && space->pid == event->pid)
        space_slots_read(space);
    helper_trace_let_end(&calls->session.helper, event->pid, NULL);
}

static void on_found(struct calls *calls, const struct trace_event *event)
{
    struct space *space = calls_members_space(calls, event->pid);
    if (space && space->form == STUB_THREAD)
        space_threads_assign(space, &calls->session, event->pid, event->tid, NULL);
    profile_lose(calls->session.profile, WIRE_LOSS_CALLS_SHARED, 1);
}

/* Where no event of the kernel reports to the table of processes what happened. */
static void report_to_processes(struct calls *calls, const struct trace_event *event)
{
    char name[32] = "";
    struct perf_task task = {.pid = (uint32_t)event->pid,
                             .tid = (uint32_t)(event->tid ? event->tid : event->pid),
                             .parent_pid = (uint32_t)event->parent,
                             .parent_tid = (uint32_t)event->parent,
                             .time = base_clock_now()};
    struct perf_comm comm = {(uint32_t)event->pid, (uint32_t)event->pid, true, name};
    switch ((enum trace_event_kind)event->kind) {
    case TRACE_FORK:
    case TRACE_VFORK:
    case TRACE_CREATED:
        sample_processes_on_fork(calls->processes, &task);
        break;
    case TRACE_EXEC:
        proc_target_name(event->pid, event->pid, name, sizeof name);
        sample_processes_on_comm(calls->processes, &comm, task.time);
        break;
    case TRACE_END:
        task.tid = task.pid;
        sample_processes_on_exit(calls->processes, &task);
        break;
    default:
        break;
    }
}

static void note_activity(struct calls *calls, const struct trace_event *event)
{
    struct space *space = calls_members_space(calls, event->parent ? event->parent : event->pid);
    if (space && event->kind != TRACE_EXITED && event->kind != TRACE_ENDING && event->kind != TRACE_END)
        calls_detach_note_activity(space);
}

void calls_event(struct calls *calls, const struct trace_event *event)
{
    note_activity(calls, event);
    if (calls->options.unpublished)
        report_to_processes(calls, event);
    switch ((enum trace_event_kind)event->kind) {
    case TRACE_EXEC:
        on_exec(calls, event);
        break;
    case TRACE_FORK:
        on_fork(calls, event);
        break;
    case TRACE_VFORK:
        on_vfork(calls, event);
        break;
    case TRACE_CREATED:
        on_creation(calls, event);
        break;
    case TRACE_NEED:
        on_need(calls, event);
        break;
    case TRACE_EXITED:
        on_thread_exit(calls, event);
        break;
    case TRACE_FOUND:
        on_found(calls, event);
        break;
    case TRACE_ENDING:
        on_ending(calls, event);
        break;
    case TRACE_END:
        calls_members_remove(calls, event->pid);
        break;
    }
}
