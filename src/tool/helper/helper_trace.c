/* Tally's side: each function is one request. */
#include "helper_trace.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base_clock.h"
#include "helper_request.h"
#include "helper_wire.h"
#include "trace_inject.h"

#define IMAGE_END_NS UINT64_C(1000000000)
#define POLL_MS      50

/* A request that is answered by its code alone. */
static int request_code(struct helper *helper, enum helper_command command, pid_t pid, uint64_t first,
                        uint64_t second, struct base_error *error)
{
    struct helper_message message = {.code = command, .pid = pid, .values = {first, second}};
    return helper_request_values(helper, &message, NULL, error);
}

/* The same about ranges of addresses. */
static int request_ranges(struct helper *helper, struct helper_message message,
                          const struct trace_step_range *ranges, size_t count, struct base_error *error)
{
    message.size = count * sizeof *ranges;
    return helper_request_values(helper, &message, ranges, error);
}

/* --- following --- */

int helper_trace_follow(struct helper *helper, pid_t pid, struct base_error *error)
{
    return request_code(helper, HELPER_FOLLOW, pid, 0, 0, error);
}

/* The first event about the process in the queue that is of one of two kinds; NULL: there is none. */
static const struct trace_event *find_event(const struct helper *helper, pid_t pid,
                                            enum trace_event_kind kind, enum trace_event_kind other)
{
    for (size_t i = helper->event_first; i < helper->event_count; i++) {
        const struct trace_event *event = &helper->events[i];
        if (event->pid == pid && (event->kind == kind || event->kind == other))
            return event;
    }
    return NULL;
}

bool helper_trace_runs_another(struct helper *helper, pid_t pid)
{
    /* The threads of the old image end a moment before the new one begins. */
    const uint64_t until = base_clock_now() + IMAGE_END_NS;
    const struct trace_event *end;
    while (!(end = find_event(helper, pid, TRACE_EXEC, TRACE_END)) && base_clock_now() < until) {
        struct pollfd socket = {.fd = helper->socket, .events = POLLIN};
        struct helper_reply reply;
        if (poll(&socket, 1, POLL_MS) <= 0)
            continue;
        if (helper_request_receive(helper, &reply, NULL) < 0)
            return false;
        helper_request_free(&reply); /* it is no answer to a request */
    }
    return end && end->kind == TRACE_EXEC;
}

int helper_trace_leave(struct helper *helper, pid_t pid, struct base_error *error)
{
    int result = request_code(helper, HELPER_LEAVE, pid, 0, 0, error);
    size_t kept = helper->event_first;
    if (result < 0)
        return result;
    for (size_t i = helper->event_first; i < helper->event_count; i++)
        if (helper->events[i].pid != pid)
            helper->events[kept++] = helper->events[i];
    helper->event_count = kept;
    return result;
}

int helper_trace_detach_children(struct helper *helper, pid_t pid, struct base_error *error)
{
    return request_code(helper, HELPER_DETACH_CHILDREN, pid, 0, 0, error);
}

bool helper_trace_pending(const struct helper *helper)
{
    return helper->event_first < helper->event_count || helper->events_lost;
}

int helper_trace_next(struct helper *helper, struct trace_event *event, struct base_error *error)
{
    while (!helper_trace_pending(helper)) {
        struct helper_reply reply;
        char byte;
        ssize_t ready =
            helper->socket < 0 ? 0 : helper_wire_get(helper->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        if (ready < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        int result = helper_request_receive(helper, &reply, error);
        if (result < 0)
            return result;
        if (result == 0)
            helper_request_free(&reply); /* it is no answer to a request */
    }
    if (helper->event_first == helper->event_count) {
        helper->events_lost = false;
        return base_fail(error, BASE_ENOMEM, "out of memory");
    }
    *event = helper->events[helper->event_first++];
    return 1;
}

/* --- gs bases --- */

int helper_trace_give(struct helper *helper, pid_t pid, const uint64_t *gs, size_t count,
                      struct base_error *error)
{
    struct helper_message message = {.code = HELPER_GIVE, .pid = pid, .size = count * sizeof *gs};
    return helper_request_values(helper, &message, gs, error);
}

int helper_trace_set_gs(struct helper *helper, pid_t tid, uint64_t gs, struct base_error *error)
{
    return request_code(helper, HELPER_SET_GS, 0, (uint64_t)tid, gs, error);
}

int helper_trace_clear_gs(struct helper *helper, pid_t pid, uint64_t offset,
                          const struct trace_step_range *ranges, size_t count, struct base_error *error)
{
    const struct helper_message message = {.code = HELPER_CLEAR_GS, .pid = pid, .values = {offset}};
    return request_ranges(helper, message, ranges, count, error);
}

/* --- holding --- */

int helper_trace_hold(struct helper *helper, pid_t pid, struct helper_stopped *result,
                      struct base_error *error)
{
    struct helper_message message = {.code = HELPER_HOLD, .pid = pid};
    int code = helper_request_values(helper, &message, NULL, error);
    if (code < 0)
        return code;
    if (find_event(helper, pid, TRACE_EXEC, TRACE_END))
        return base_fail(error, BASE_ENOTFOUND, "process %d runs another image, or has ended", pid);
    helper_request_stopped(&message, result);
    return code;
}

int helper_trace_release(struct helper *helper, pid_t pid, struct helper_stopped *result,
                         struct base_error *error)
{
    struct helper_message message = {.code = HELPER_RELEASE, .pid = pid};
    if (find_event(helper, pid, TRACE_FORK, TRACE_EXEC)) { /* it is held for whoever reads that event */
        helper_request_stopped(&message, result);
        return BASE_OK;
    }
    int code = helper_request_values(helper, &message, NULL, error);
    if (code == BASE_OK)
        helper_request_stopped(&message, result);
    return code;
}

int helper_trace_step_out(struct helper *helper, pid_t pid, pid_t tid, const struct trace_step_range *ranges,
                          size_t count, struct base_error *error)
{
    const struct helper_message message = {.code = HELPER_STEP_OUT, .pid = pid, .values = {(uint64_t)tid}};
    return request_ranges(helper, message, ranges, count, error);
}

int helper_trace_suspend(struct helper *helper, struct base_error *error)
{
    return request_code(helper, HELPER_SUSPEND, 0, 0, 0, error);
}

/* --- endings --- */

int helper_trace_report_endings(struct helper *helper, struct base_error *error)
{
    return request_code(helper, HELPER_REPORT_ENDINGS, 0, 0, 0, error);
}

int helper_trace_let_end(struct helper *helper, pid_t pid, struct base_error *error)
{
    return request_code(helper, HELPER_LET_END, pid, 0, 0, error);
}

/* --- detached processes --- */

int helper_trace_detach(struct helper *helper, pid_t pid, const struct trace_step_range *ranges, size_t count,
                        struct base_error *error)
{
    const struct helper_message message = {.code = HELPER_DETACH, .pid = pid};
    return request_ranges(helper, message, ranges, count, error);
}

int helper_trace_clear(struct helper *helper, pid_t pid, const struct trace_step_range *ranges, size_t count,
                       struct base_error *error)
{
    const struct helper_message message = {.code = HELPER_CLEAR, .pid = pid};
    return request_ranges(helper, message, ranges, count, error);
}

int helper_trace_reattach(struct helper *helper, pid_t pid, struct base_error *error)
{
    return request_code(helper, HELPER_REATTACH, pid, 0, 0, error);
}

/* --- changes --- */

int helper_trace_stage(struct helper *helper, pid_t pid, const struct trace_memory_change *changes,
                       size_t count, struct base_error *error)
{
    struct helper_message message = {.code = HELPER_STAGE, .pid = pid, .size = count * sizeof *changes};
    return helper_request_values(helper, &message, changes, error);
}

int helper_trace_stage_list(struct helper *helper, pid_t pid, struct trace_stage *list,
                            struct base_error *error)
{
    struct helper_message message = {.code = HELPER_STAGE, .pid = pid, .values = {list->count}};
    struct helper_reply reply;
    int result = trace_stage_seal(list, error);
    if (result == BASE_OK && list->file < 0)
        return helper_trace_stage(helper, pid, list->buffer, list->count, error);
    if (result == BASE_OK)
        result = helper_request(helper, &message, NULL, list->file, &reply, error);
    if (result == BASE_OK)
        helper_request_free(&reply);
    return result;
}

int helper_trace_apply(struct helper *helper, pid_t pid, struct base_error *error)
{
    return request_code(helper, HELPER_APPLY, pid, 0, 0, error);
}

int helper_trace_undo(struct helper *helper, pid_t pid, struct base_error *error)
{
    return request_code(helper, HELPER_UNDO, pid, 0, 0, error);
}

/* --- threads and memory --- */

int helper_trace_threads(struct helper *helper, pid_t pid, struct trace_stop_thread **threads, size_t *count,
                         struct base_error *error)
{
    struct helper_message message = {.code = HELPER_THREADS, .pid = pid};
    struct helper_reply reply;
    int result = helper_request(helper, &message, NULL, -1, &reply, error);
    if (result < 0)
        return result;
    *threads = reply.bytes;
    *count = (size_t)(reply.message.size / sizeof **threads);
    reply.bytes = NULL;
    helper_request_free(&reply);
    return BASE_OK;
}

int helper_trace_read_registers(struct helper *helper, pid_t pid, pid_t tid,
                                struct user_regs_struct *registers, struct base_error *error)
{
    struct helper_message message = {.code = HELPER_READ_REGISTERS, .pid = pid, .values = {(uint64_t)tid}};
    return helper_request_bytes(helper, &message, registers, sizeof *registers, error);
}

int helper_trace_write_registers(struct helper *helper, pid_t pid, pid_t tid,
                                 const struct user_regs_struct *registers, struct base_error *error)
{
    struct helper_message message = {
        .code = HELPER_WRITE_REGISTERS, .pid = pid, .values = {(uint64_t)tid}, .size = sizeof *registers};
    return helper_request_values(helper, &message, registers, error);
}

int helper_trace_read(struct helper *helper, pid_t pid, uint64_t address, void *bytes, size_t size,
                      struct base_error *error)
{
    struct helper_message message = {.code = HELPER_READ, .pid = pid, .values = {address, size}};
    return helper_request_bytes(helper, &message, bytes, size, error);
}

int helper_trace_write(struct helper *helper, pid_t pid, uint64_t address, const void *bytes, size_t size,
                       struct base_error *error)
{
    struct helper_message message = {.code = HELPER_WRITE, .pid = pid, .values = {address}, .size = size};
    return helper_request_values(helper, &message, bytes, error);
}

/* --- mappings --- */

int helper_trace_map(struct helper *helper, pid_t pid, const struct helper_room *room, uint64_t *address,
                     struct base_error *error)
{
    struct helper_message message = {
        .code = HELPER_MAP,
        .pid = pid,
        .values = {room->low, room->high, room->size, (uint64_t)room->protection}};
    int result = helper_request_values(helper, &message, NULL, error);
    if (result == BASE_OK)
        *address = message.values[0];
    return result;
}

/* Unmaps what the helper has mapped, and what we have no descriptor of. What REMAP made stays, since
 * something was mapped there before. */
static void unmap_shared(struct helper *helper, const struct helper_message *message, const void *bytes,
                         uint64_t address)
{
    const uint64_t *values = message->values;
    if (message->code == HELPER_SHARE) {
        bool data_first = values[5] && address < values[0];
        helper_trace_unmap(helper, message->pid, address - (data_first ? values[4] : 0),
                           values[2] + values[4], NULL);
    } else if (message->code == HELPER_SHARE_PIECES) {
        const struct trace_inject_piece *pieces = (const void *)((const char *)bytes + HELPER_NAME);
        size_t count = (size_t)((message->size - HELPER_NAME) / sizeof *pieces);
        for (size_t i = 0; i < count; i++)
            helper_trace_unmap(helper, message->pid, address + pieces[i].at, pieces[i].size, NULL);
    }
}

/* A request whose answer has a descriptor. If the helper refuses, it has undone what it did, and what is
 * mapped there is not ours. */
static int share_memory(struct helper *helper, const struct helper_message *message, const void *bytes,
                        uint64_t *address, int *file, struct base_error *error)
{
    struct helper_reply reply;
    int result = helper_request(helper, message, bytes, -1, &reply, error);
    if (result < 0)
        return result;
    if (reply.file < 0) { /* our table of descriptors is full */
        unmap_shared(helper, message, bytes, reply.message.values[0]);
        result = base_fail(error, BASE_EIO,
                           "no descriptor is free for shared memory; raise the limit (ulimit -n)");
    } else {
        *address = reply.message.values[0];
        *file = reply.file;
        reply.file = -1;
    }
    helper_request_free(&reply);
    return result;
}

int helper_trace_share(struct helper *helper, pid_t pid, const struct helper_room *room, uint64_t *address,
                       int *file, struct base_error *error)
{
    struct helper_message message = {.code = HELPER_SHARE,
                                     .pid = pid,
                                     .values = {room->low, room->high, room->size, (uint64_t)room->protection,
                                                room->data, room->data_first},
                                     .size = room->name ? strlen(room->name) + 1 : 0};
    return share_memory(helper, &message, room->name, address, file, error);
}

int helper_trace_share_pieces(struct helper *helper, pid_t pid, const struct trace_inject_shared *shared,
                              int *file, struct base_error *error)
{
    const size_t pieces_size = shared->piece_count * sizeof *shared->pieces;
    uint64_t address = shared->address;
    struct helper_message message = {.code = HELPER_SHARE_PIECES,
                                     .pid = pid,
                                     .values = {address, shared->size},
                                     .size = HELPER_NAME + pieces_size};
    char *bytes = calloc(1, message.size);
    if (!bytes)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    snprintf(bytes, HELPER_NAME, "%s", shared->name);
    memcpy(bytes + HELPER_NAME, shared->pieces, pieces_size);
    int result = share_memory(helper, &message, bytes, &address, file, error);
    free(bytes);
    return result;
}

int helper_trace_remap(struct helper *helper, pid_t pid, const struct trace_inject_shared *shared, int *file,
                       struct base_error *error)
{
    uint64_t address = shared->address;
    struct helper_message message = {.code = HELPER_REMAP,
                                     .pid = pid,
                                     .values = {address, 0, shared->size, (uint64_t)shared->protection},
                                     .size = shared->word_count * sizeof *shared->words};
    return share_memory(helper, &message, shared->words, &address, file, error);
}

int helper_trace_unmap(struct helper *helper, pid_t pid, uint64_t address, uint64_t size,
                       struct base_error *error)
{
    return request_code(helper, HELPER_UNMAP, pid, address, size, error);
}

int helper_trace_give_back(struct helper *helper, pid_t pid, uint64_t address, uint64_t size,
                           struct base_error *error)
{
    return request_code(helper, HELPER_GIVE_BACK, pid, address, size, error);
}

int helper_trace_wipe(struct helper *helper, pid_t pid, uint64_t address, uint64_t size,
                      struct base_error *error)
{
    return request_code(helper, HELPER_WIPE, pid, address, size, error);
}

int helper_trace_call(struct helper *helper, pid_t pid, pid_t process, struct helper_trace_call *calls,
                      size_t count, struct base_error *error)
{
    struct helper_message message = {
        .code = HELPER_CALL, .pid = pid, .values = {(uint64_t)process}, .size = count * sizeof *calls};
    struct helper_reply reply;
    int result = helper_request(helper, &message, calls, -1, &reply, error);
    if (result < 0)
        return result;
    bool whole = reply.message.size == count * sizeof *calls;
    if (whole && count)
        memcpy(calls, reply.bytes, count * sizeof *calls);
    helper_request_free(&reply);
    return whole ? BASE_OK : base_fail(error, BASE_EIO, "the helper's answer is incomplete");
}

/* --- ends and costs --- */

int helper_trace_write_at_exit(struct helper *helper, pid_t pid, uint64_t address, uint64_t value,
                               struct base_error *error)
{
    return request_code(helper, HELPER_WRITE_AT_EXIT, pid, address, value, error);
}

int helper_trace_cost(struct helper *helper, pid_t pid, struct trace_cost *cost, struct base_error *error)
{
    struct helper_message message = {.code = HELPER_COST, .pid = pid};
    return helper_request_bytes(helper, &message, cost, sizeof *cost, error);
}
