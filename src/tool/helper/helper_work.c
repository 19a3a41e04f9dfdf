#include "helper_work.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base_clock.h"
#include "helper.h"
#include "helper_trace.h"
#include "proc_gap.h"
#include "proc_target.h"
#include "trace_detach.h"
#include "trace_inject.h"
#include "trace_jumps.h"

#define READ_MOST (64u << 20)
#define LINGER_NS UINT64_C(5000000000)

/* All that the work for a request may need. */
struct work {
    struct helper_server *server;
    struct trace_follow_space *space; /* what it is for; NULL: there is none */
    const struct helper_message *request;
    const void *bytes;
    int file; /* -1: none came */
    struct helper_answer *answer;
};

static int no_memory(struct base_error *error)
{
    return base_fail(error, BASE_ENOMEM, "out of memory");
}

/* --- one process, stopped for a moment --- */

static int stop_once(struct trace_follow_space *once, pid_t pid, struct base_error *error)
{
    if (once->stop.holding)
        return base_fail(error, BASE_EUSAGE, "process %d is stopped already", once->stop.pid);
    if (once->stop.count && once->stop.pid != pid)
        return base_fail(error, BASE_EUSAGE, "this helper still waits for threads of process %d",
                         once->stop.pid);
    once->timed_out = false;
    int result = trace_stop_begin(&once->stop, pid, error);
    if (result < 0)
        return result;
    pid_t tid = pid;
    for (size_t i = 0; i < once->stop.count; i++) /* the first thread may have ended */
        if (once->stop.threads[i].process == pid && once->stop.threads[i].state != TRACE_STOP_GONE) {
            tid = once->stop.threads[i].tid;
            break;
        }
    result = trace_memory_open(&once->memory, tid, error);
    if (result < 0)
        trace_stop_end(&once->stop);
    return result;
}

static void count_threads(const struct trace_stop *stop, struct helper_answer *answer)
{
    answer->message.values[0] = stop->count;
    answer->message.values[1] = stop->attempts;
}

static void resume_once(struct trace_follow_space *once, struct helper_answer *answer)
{
    uint64_t began = once->stop.began;
    count_threads(&once->stop, answer);
    trace_memory_close(&once->memory);
    answer->message.values[3] = trace_stop_end(&once->stop);
    answer->message.values[2] = base_clock_now() - began;
}

void helper_work_resume(struct helper_server *server)
{
    struct helper_answer nobody = {.file = -1};
    resume_once(&server->once, &nobody);
    server->once.timed_out = true;
}

/* Threads of a process that has just been left are traced by this helper until their next trap; on a busy
 * machine that takes a while, and they cannot be seized before. */
static int wait_until_left(struct trace_follow *follow, pid_t pid, struct base_error *error)
{
    uint64_t began = base_clock_now();
    const struct trace_follow_process *process;
    while ((process = trace_follow_process(follow, pid)) && process->leaving) {
        if (base_clock_now() - began > LINGER_NS)
            return base_fail(
                error, BASE_EBUSY,
                "a thread of process %d sleeps in the kernel, and cannot be detached before it wakes", pid);
        trace_follow_leave(follow, pid);
    }
    return BASE_OK;
}

static int do_stop(struct work *work, struct base_error *error)
{
    int result = wait_until_left(&work->server->follow, (pid_t)work->request->values[0], error);
    if (result < 0)
        return result;
    result = stop_once(&work->server->once, (pid_t)work->request->values[0], error);
    count_threads(&work->server->once.stop, work->answer);
    return result;
}

static int do_resume(struct work *work, struct base_error *error)
{
    if (work->request->pid)
        return base_fail(error, BASE_EUSAGE, "process %d is followed", work->request->pid);
    resume_once(&work->server->once, work->answer);
    return BASE_OK;
}

/* --- changes --- */

static int copy_list(const struct work *work, struct trace_staged *staged, struct base_error *error)
{
    uint64_t size = work->request->size;
    if (size % sizeof *staged->changes)
        return base_fail(error, BASE_EUSAGE, "invalid list of changes: the last one is incomplete");
    *staged = (struct trace_staged){malloc(size ? size : 1), (size_t)(size / sizeof *staged->changes), false};
    if (!staged->changes)
        return no_memory(error);
    if (size)
        memcpy(staged->changes, work->bytes, size);
    return BASE_OK;
}

static int do_stage(struct work *work, struct base_error *error)
{
    struct trace_staged staged;
    int result = work->file < 0
                     ? copy_list(work, &staged, error)
                     : trace_staged_map(&staged, work->file, (size_t)work->request->values[0], error);
    if (result < 0)
        return result;
    trace_staged_free(&work->space->staged);
    work->space->staged = staged;
    return BASE_OK;
}

static int change_staged(struct trace_follow_space *space, bool on, struct base_error *error)
{
    struct trace_staged *staged = &space->staged;
    int result = trace_jumps_leave(&space->stop, &space->memory, staged->changes, staged->count, on, error);
    if (result < 0)
        return result;
    if (on)
        return trace_memory_apply(&space->memory, staged->changes, staged->count, NULL, error);
    return trace_memory_undo(&space->memory, staged->changes, staged->count, NULL, error);
}

static int do_change(struct work *work, struct base_error *error)
{
    return change_staged(work->space, work->request->code == HELPER_APPLY, error);
}

/* --- threads and memory --- */

static int do_threads(struct work *work, struct base_error *error)
{
    (void)error;
    const struct trace_stop *stop = &work->space->stop;
    work->answer->bytes = stop->threads;
    work->answer->message.size = stop->count * sizeof *stop->threads;
    return BASE_OK;
}

static int allocate_answer(struct helper_answer *answer, uint64_t size, struct base_error *error)
{
    answer->owned = size <= READ_MOST ? malloc(size ? size : 1) : NULL;
    if (!answer->owned)
        return no_memory(error);
    answer->bytes = answer->owned;
    answer->message.size = size;
    return BASE_OK;
}

static int do_read_registers(struct work *work, struct base_error *error)
{
    int result = allocate_answer(work->answer, sizeof(struct user_regs_struct), error);
    if (result < 0)
        return result;
    return trace_stop_read(&work->space->stop, (pid_t)work->request->values[0], work->answer->owned, error);
}

static int do_write_registers(struct work *work, struct base_error *error)
{
    if (work->request->size != sizeof(struct user_regs_struct))
        return base_fail(error, BASE_EUSAGE, "invalid registers");
    return trace_stop_write(&work->space->stop, (pid_t)work->request->values[0], work->bytes, error);
}

static int do_read(struct work *work, struct base_error *error)
{
    const uint64_t *values = work->request->values;
    int result = allocate_answer(work->answer, values[1], error);
    if (result < 0)
        return result;
    return trace_memory_read(&work->space->memory, values[0], work->answer->owned, (size_t)values[1], error);
}

static int do_write(struct work *work, struct base_error *error)
{
    return trace_memory_write(&work->space->memory, work->request->values[0], work->bytes,
                              (size_t)work->request->size, error);
}

/* --- mappings --- */

static int find_gap(const struct trace_inject *inject, const struct helper_message *request,
                    uint64_t *address, struct base_error *error)
{
    struct proc_gap_request gap = {request->values[0], request->values[1],
                                   request->values[2] + request->values[4],
                                   proc_target_stat(inject->process, PROC_TARGET_HEAP)};
    *address = gap.low;
    if (gap.high == 0)
        return BASE_OK;
    return proc_gap_find(&inject->maps, &gap, address,
                         error); /* the process is stopped: it has mapped nothing since */
}

/* HELPER_MAP, HELPER_SHARE and HELPER_REMAP. */
static int map_memory(struct work *work, struct trace_inject *inject, struct base_error *error)
{
    const struct helper_message *request = work->request;
    uint64_t address = 0, size = request->values[2];
    int protection = (int)request->values[3], result = find_gap(inject, request, &address, error);
    if (result < 0)
        return result;
    bool data_first = request->values[5] && address < request->values[0];
    address += data_first ? request->values[4] : 0;
    work->answer->message.values[0] = address;
    if (request->code == HELPER_MAP)
        return trace_inject_map(inject, address, size, protection, -1, error);
    struct trace_inject_shared shared = {
        .name = "tally", .address = address, .size = size, .protection = protection};
    if (request->code == HELPER_REMAP) {
        shared.words = work->bytes;
        shared.word_count = request->size / sizeof *shared.words;
        return trace_inject_reshare(inject, &shared, &work->answer->file, error);
    }
    shared.name = request->size ? work->bytes : shared.name;
    shared.data = (struct trace_inject_data){request->values[4], data_first};
    return trace_inject_share(inject, &shared, &work->answer->file, error);
}

static int share_pieces(struct work *work, struct trace_inject *inject, struct base_error *error)
{
    const struct helper_message *request = work->request;
    const struct trace_inject_piece *pieces = (const void *)((const uint8_t *)work->bytes + HELPER_NAME);
    if (request->size < HELPER_NAME || (request->size - HELPER_NAME) % sizeof *pieces)
        return base_fail(error, BASE_EUSAGE, "invalid list of pieces");
    const struct trace_inject_shared shared = {.name = work->bytes,
                                               .address = request->values[0],
                                               .size = request->values[1],
                                               .protection = PROT_READ | PROT_WRITE,
                                               .pieces = pieces,
                                               .piece_count = (request->size - HELPER_NAME) / sizeof *pieces};
    work->answer->message.values[0] = shared.address;
    return trace_inject_share(inject, &shared, &work->answer->file, error);
}

static int do_mapping(struct work *work, struct base_error *error)
{
    struct trace_inject inject;
    const uint64_t *values = work->request->values;
    int result = trace_inject_open(&inject, &work->space->stop, &work->space->memory, error);
    if (result < 0)
        return result;
    if (work->request->code == HELPER_UNMAP)
        result = trace_inject_unmap(&inject, values[0], values[1], error);
    else if (work->request->code == HELPER_GIVE_BACK)
        result = trace_inject_give_back(&inject, values[0], values[1], error);
    else if (work->request->code == HELPER_WIPE)
        result = trace_inject_wipe(&inject, values[0], values[1], error);
    else if (work->request->code == HELPER_SHARE_PIECES)
        result = share_pieces(work, &inject, error);
    else
        result = map_memory(work, &inject, error);
    if (result < 0)
        work->answer->file = -1; /* it is closed, and its number may be another file's */
    trace_inject_close(&inject);
    return result;
}

/* The answer is the calls of the request, with the kernel's answers. */
static int do_call(struct work *work, struct base_error *error)
{
    struct trace_inject inject;
    size_t count = work->request->size / sizeof(struct helper_trace_call);
    int result = allocate_answer(work->answer, work->request->size, error);
    if (result == BASE_OK)
        result = trace_inject_open_in(&inject, &work->space->stop, &work->space->memory,
                                      (pid_t)work->request->values[0], error);
    if (result < 0)
        return result;
    struct helper_trace_call *calls = work->answer->owned;
    if (work->request->size)
        memcpy(calls, work->bytes, work->request->size);
    for (size_t i = 0; i < count && result == BASE_OK; i++)
        result = trace_inject_call(&inject, calls[i].name, (long)calls[i].number, calls[i].arguments,
                                   &calls[i].answer, error);
    trace_inject_close(&inject);
    return result;
}

/* --- following --- */

static int do_follow(struct work *work, struct base_error *error)
{
    return trace_follow_add(&work->server->follow, work->request->pid, error);
}

static int do_leave(struct work *work, struct base_error *error)
{
    (void)error;
    work->answer->message.values[3] = trace_follow_leave(&work->server->follow, work->request->pid);
    return BASE_OK;
}

static int do_hold(struct work *work, struct base_error *error)
{
    int result = trace_follow_hold(&work->server->follow, work->space, error);
    count_threads(&work->space->stop, work->answer);
    return result;
}

static int do_release(struct work *work, struct base_error *error)
{
    (void)error;
    count_threads(&work->space->stop, work->answer);
    work->answer->message.values[2] = base_clock_now() - work->space->stop.began;
    trace_follow_release(&work->server->follow, work->space);
    for (size_t i = 0; i < work->space->stop.count; i++)
        work->answer->message.values[3] += work->space->stop.threads[i].state == TRACE_STOP_KERNEL;
    return BASE_OK;
}

static int do_give(struct work *work, struct base_error *error)
{
    const uint64_t *gs = work->bytes;
    return trace_follow_give(&work->server->follow, work->space, gs, work->request->size / sizeof *gs, error);
}

static int do_set_gs(struct work *work, struct base_error *error)
{
    return trace_follow_set_gs(&work->server->follow, (pid_t)work->request->values[0],
                               work->request->values[1], error);
}

static int do_clear_gs(struct work *work, struct base_error *error)
{
    const struct trace_step_range *ranges = work->bytes;
    return trace_follow_clear_gs(work->space, work->request->values[0], ranges,
                                 work->request->size / sizeof *ranges, error);
}

static int do_step_out(struct work *work, struct base_error *error)
{
    const struct trace_step_range *ranges = work->bytes;
    return trace_step_out(&work->space->stop, (pid_t)work->request->values[0], ranges,
                          work->request->size / sizeof *ranges, error);
}

static int do_write_at_exit(struct work *work, struct base_error *error)
{
    (void)error;
    work->space->exit_write = work->request->values[0];
    work->space->exit_value = work->request->values[1];
    return BASE_OK;
}

static int do_detach(struct work *work, struct base_error *error)
{
    const struct trace_step_range *ranges = work->bytes;
    return trace_follow_detach(&work->server->follow, work->space, ranges,
                               work->request->size / sizeof *ranges, error);
}

static int do_report_endings(struct work *work, struct base_error *error)
{
    (void)error;
    trace_follow_report_endings(&work->server->follow);
    return BASE_OK;
}

static int do_suspend(struct work *work, struct base_error *error)
{
    (void)error;
    work->server->suspended = true;
    return BASE_OK;
}

static int do_let_end(struct work *work, struct base_error *error)
{
    (void)error;
    trace_follow_let_end(trace_follow_process(&work->server->follow, work->request->pid));
    return BASE_OK;
}

static int do_detach_children(struct work *work, struct base_error *error)
{
    (void)error;
    trace_follow_detach_children(trace_follow_process(&work->server->follow, work->request->pid));
    return BASE_OK;
}

static int do_clear(struct work *work, struct base_error *error)
{
    const struct trace_step_range *ranges = work->bytes;
    return trace_detach_check(work->space, ranges, work->request->size / sizeof *ranges, error);
}

static int do_reattach(struct work *work, struct base_error *error)
{
    return trace_follow_reattach(&work->server->follow, work->space, error);
}

static int do_cost(struct work *work, struct base_error *error)
{
    struct trace_cost cost;
    if (!trace_follow_cost(&work->server->follow, work->request->pid, &cost))
        return base_fail(error, BASE_ENOTFOUND, "process %d is not followed", work->request->pid);
    int result = allocate_answer(work->answer, sizeof cost, error);
    if (result == BASE_OK)
        memcpy(work->answer->owned, &cost, sizeof cost);
    return result;
}

/* --- the table of commands --- */

/* What a command needs: nothing, a followed process, or a stopped one. */
enum needs { NOTHING, FOLLOWED, STOPPED };

static const struct {
    int (*work)(struct work *work, struct base_error *error);
    enum needs needs;
} works[HELPER_COMMANDS] = {
    [HELPER_STOP] = {do_stop, NOTHING},
    [HELPER_RESUME] = {do_resume, STOPPED},
    [HELPER_STAGE] = {do_stage, FOLLOWED},
    [HELPER_APPLY] = {do_change, STOPPED},
    [HELPER_UNDO] = {do_change, STOPPED},
    [HELPER_THREADS] = {do_threads, STOPPED},
    [HELPER_READ_REGISTERS] = {do_read_registers, STOPPED},
    [HELPER_WRITE_REGISTERS] = {do_write_registers, STOPPED},
    [HELPER_READ] = {do_read, STOPPED},
    [HELPER_WRITE] = {do_write, STOPPED},
    [HELPER_MAP] = {do_mapping, STOPPED},
    [HELPER_SHARE] = {do_mapping, STOPPED},
    [HELPER_SHARE_PIECES] = {do_mapping, STOPPED},
    [HELPER_UNMAP] = {do_mapping, STOPPED},
    [HELPER_GIVE_BACK] = {do_mapping, STOPPED},
    [HELPER_WIPE] = {do_mapping, STOPPED},
    [HELPER_FOLLOW] = {do_follow, NOTHING},
    [HELPER_LEAVE] = {do_leave, FOLLOWED},
    [HELPER_GIVE] = {do_give, FOLLOWED},
    [HELPER_SET_GS] = {do_set_gs, NOTHING},
    [HELPER_HOLD] = {do_hold, FOLLOWED},
    [HELPER_RELEASE] = {do_release, STOPPED},
    [HELPER_REMAP] = {do_mapping, STOPPED},
    [HELPER_STEP_OUT] = {do_step_out, STOPPED},
    [HELPER_WRITE_AT_EXIT] = {do_write_at_exit, FOLLOWED},
    [HELPER_COST] = {do_cost, NOTHING},
    [HELPER_DETACH] = {do_detach, FOLLOWED},
    [HELPER_REATTACH] = {do_reattach, FOLLOWED},
    [HELPER_CLEAR] = {do_clear, STOPPED},
    [HELPER_REPORT_ENDINGS] = {do_report_endings, NOTHING},
    [HELPER_CALL] = {do_call, STOPPED},
    [HELPER_LET_END] = {do_let_end, FOLLOWED},
    [HELPER_DETACH_CHILDREN] = {do_detach_children, FOLLOWED},
    [HELPER_CLEAR_GS] = {do_clear_gs, STOPPED},
    [HELPER_SUSPEND] = {do_suspend, NOTHING},
};

static struct trace_follow_space *find_space(struct helper_server *server, pid_t pid)
{
    const struct trace_follow_process *process = trace_follow_process(&server->follow, pid);
    if (pid == 0)
        return &server->once;
    return process && !process->leaving ? process->space : NULL;
}

static int refuse_request(const struct helper_message *request, const struct trace_follow_space *space,
                          struct base_error *error)
{
    if (!space)
        return base_fail(error, BASE_ENOTFOUND, "process %d is not followed (any more)", request->pid);
    if (space->timed_out)
        return base_fail(error, BASE_EBUSY,
                         "process %d was resumed because tally did nothing for a while (was tally stopped?)",
                         space->stop.pid);
    return base_fail(error, BASE_EUSAGE, request->pid ? "process %d is not held" : "no process is stopped",
                     request->pid);
}

int helper_work(struct helper_server *server, const struct helper_message *request, const void *bytes,
                int file, struct helper_answer *answer, struct base_error *error)
{
    if (request->code < 0 || request->code >= HELPER_COMMANDS)
        return base_fail(error, BASE_EUSAGE, "no such command");
    struct work work = {server, find_space(server, request->pid), request, bytes, file, answer};
    enum needs needs = works[request->code].needs;
    if ((needs != NOTHING && !work.space) || (needs == STOPPED && !work.space->stop.holding))
        return refuse_request(request, work.space, error);
    if (needs == STOPPED && trace_follow_open_memory(work.space, error) < 0)
        return BASE_EIO;
    return works[request->code].work(&work, error);
}
