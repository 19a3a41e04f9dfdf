/* Tally's side: each function is one request. */
#include "helper_trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "helper_ask.h"
#include "helper_wire.h"
#include "trace_inject.h"

/* A request that is answered by its code alone. */
static int order(struct helper *helper, enum helper_command command, pid_t pid, uint64_t first,
                 uint64_t second, struct base_error *error)
{
    struct helper_message message = {.code = command, .pid = pid, .values = {first, second}};
    return helper_ask_values(helper, &message, NULL, error);
}

/* One about some ranges, and a value: a thread, or what else the command takes. */
static int order_ranges(struct helper *helper, enum helper_command command, pid_t pid, uint64_t value,
                        const struct trace_step_range *ranges, size_t count, struct base_error *error)
{
    struct helper_message message = {
        .code = command, .pid = pid, .values = {value}, .size = count * sizeof *ranges};
    return helper_ask_values(helper, &message, ranges, error);
}

/* --- following --- */

int helper_trace_follow(struct helper *helper, pid_t pid, struct base_error *error)
{
    return order(helper, HELPER_FOLLOW, pid, 0, 0, error);
}

static bool is_replaced_by(const struct trace_event *event, pid_t pid)
{
    return event->pid == pid && (event->kind == TRACE_EXEC || event->kind == TRACE_END);
}

int helper_trace_leave(struct helper *helper, pid_t pid, struct base_error *error)
{
    int result = order(helper, HELPER_LEAVE, pid, 0, 0, error);
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
    return order(helper, HELPER_DETACH_CHILDREN, pid, 0, 0, error);
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
        int result = helper_ask_receive(helper, &reply, error);
        if (result < 0)
            return result;
        if (result == 0)
            helper_ask_free(&reply); /* nobody asked */
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
    return helper_ask_values(helper, &message, gs, error);
}

int helper_trace_left(struct helper *helper, pid_t pid, uint64_t *count, struct base_error *error)
{
    struct helper_message message = {.code = HELPER_LEFT, .pid = pid};
    int result = helper_ask_values(helper, &message, NULL, error);
    if (result == BASE_OK)
        *count = message.values[0];
    return result;
}

int helper_trace_set_gs(struct helper *helper, pid_t tid, uint64_t gs, struct base_error *error)
{
    return order(helper, HELPER_SET_GS, 0, (uint64_t)tid, gs, error);
}

int helper_trace_clear_gs(struct helper *helper, pid_t pid, uint64_t offset,
                          const struct trace_step_range *ranges, size_t count, struct base_error *error)
{
    return order_ranges(helper, HELPER_CLEAR_GS, pid, offset, ranges, count, error);
}

/* --- holding --- */

int helper_trace_hold(struct helper *helper, pid_t pid, struct helper_stopped *result,
                      struct base_error *error)
{
    struct helper_message message = {.code = HELPER_HOLD, .pid = pid};
    int code = helper_ask_values(helper, &message, NULL, error);
    if (code < 0)
        return code;
    for (size_t i = helper->event_first; i < helper->event_count; i++)
        if (is_replaced_by(&helper->events[i], pid))
            return base_fail(error, BASE_ENOTFOUND, "process %d is not what it was any more", pid);
    helper_ask_stopped(&message, result);
    return code;
}

int helper_trace_release(struct helper *helper, pid_t pid, struct helper_stopped *result,
                         struct base_error *error)
{
    struct helper_message message = {.code = HELPER_RELEASE, .pid = pid};
    int code = helper_ask_values(helper, &message, NULL, error);
    if (code == BASE_OK)
        helper_ask_stopped(&message, result);
    return code;
}

int helper_trace_step_out(struct helper *helper, pid_t pid, pid_t tid, const struct trace_step_range *ranges,
                          size_t count, struct base_error *error)
{
    return order_ranges(helper, HELPER_STEP_OUT, pid, (uint64_t)tid, ranges, count, error);
}

int helper_trace_suspend(struct helper *helper, struct base_error *error)
{
    return order(helper, HELPER_SUSPEND, 0, 0, 0, error);
}

/* --- endings --- */

int helper_trace_report_endings(struct helper *helper, struct base_error *error)
{
    return order(helper, HELPER_REPORT_ENDINGS, 0, 0, 0, error);
}

int helper_trace_let_end(struct helper *helper, pid_t pid, struct base_error *error)
{
    return order(helper, HELPER_LET_END, pid, 0, 0, error);
}

/* --- loose --- */

int helper_trace_detach(struct helper *helper, pid_t pid, const struct trace_step_range *ranges, size_t count,
                        struct base_error *error)
{
    return order_ranges(helper, HELPER_DETACH, pid, 0, ranges, count, error);
}

int helper_trace_clear(struct helper *helper, pid_t pid, const struct trace_step_range *ranges, size_t count,
                       struct base_error *error)
{
    return order_ranges(helper, HELPER_CLEAR, pid, 0, ranges, count, error);
}

int helper_trace_reattach(struct helper *helper, pid_t pid, struct base_error *error)
{
    return order(helper, HELPER_REATTACH, pid, 0, 0, error);
}

/* --- changes --- */

int helper_trace_stage(struct helper *helper, pid_t pid, const struct trace_memory_change *changes,
                       size_t count, struct base_error *error)
{
    struct helper_message message = {.code = HELPER_STAGE, .pid = pid, .size = count * sizeof *changes};
    return helper_ask_values(helper, &message, changes, error);
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
        result = helper_ask(helper, &message, NULL, list->file, &reply, error);
    if (result == BASE_OK)
        helper_ask_free(&reply);
    return result;
}

int helper_trace_apply(struct helper *helper, pid_t pid, struct base_error *error)
{
    return order(helper, HELPER_APPLY, pid, 0, 0, error);
}

int helper_trace_undo(struct helper *helper, pid_t pid, struct base_error *error)
{
    return order(helper, HELPER_UNDO, pid, 0, 0, error);
}

/* --- threads and memory --- */

int helper_trace_threads(struct helper *helper, pid_t pid, struct trace_stop_thread **threads, size_t *count,
                         struct base_error *error)
{
    struct helper_message message = {.code = HELPER_THREADS, .pid = pid};
    struct helper_reply reply;
    int result = helper_ask(helper, &message, NULL, -1, &reply, error);
    if (result < 0)
        return result;
    *threads = reply.bytes;
    *count = (size_t)(reply.message.size / sizeof **threads);
    reply.bytes = NULL;
    helper_ask_free(&reply);
    return BASE_OK;
}

int helper_trace_read_registers(struct helper *helper, pid_t pid, pid_t tid,
                                struct user_regs_struct *registers, struct base_error *error)
{
    struct helper_message message = {.code = HELPER_READ_REGISTERS, .pid = pid, .values = {(uint64_t)tid}};
    return helper_ask_bytes(helper, &message, registers, sizeof *registers, error);
}

int helper_trace_write_registers(struct helper *helper, pid_t pid, pid_t tid,
                                 const struct user_regs_struct *registers, struct base_error *error)
{
    struct helper_message message = {
        .code = HELPER_WRITE_REGISTERS, .pid = pid, .values = {(uint64_t)tid}, .size = sizeof *registers};
    return helper_ask_values(helper, &message, registers, error);
}

int helper_trace_read(struct helper *helper, pid_t pid, uint64_t address, void *bytes, size_t size,
                      struct base_error *error)
{
    struct helper_message message = {.code = HELPER_READ, .pid = pid, .values = {address, size}};
    return helper_ask_bytes(helper, &message, bytes, size, error);
}

int helper_trace_write(struct helper *helper, pid_t pid, uint64_t address, const void *bytes, size_t size,
                       struct base_error *error)
{
    struct helper_message message = {.code = HELPER_WRITE, .pid = pid, .values = {address}, .size = size};
    return helper_ask_values(helper, &message, bytes, error);
}

/* --- mappings --- */

int helper_trace_map(struct helper *helper, pid_t pid, const struct helper_room *room, uint64_t *address,
                     struct base_error *error)
{
    struct helper_message message = {
        .code = HELPER_MAP,
        .pid = pid,
        .values = {room->low, room->high, room->size, (uint64_t)room->protection}};
    int result = helper_ask_values(helper, &message, NULL, error);
    if (result == BASE_OK)
        *address = message.values[0];
    return result;
}

/* What the helper has mapped, and nobody has a descriptor of. What REMAP made stays: there was something before, too. */
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

/* What comes with a descriptor. Where the helper refuses, it has undone what it did, and what is mapped there is not ours. */
static int share(struct helper *helper, const struct helper_message *message, const void *bytes,
                 uint64_t *address, int *file, struct base_error *error)
{
    struct helper_reply reply;
    int result = helper_ask(helper, message, bytes, -1, &reply, error);
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
    helper_ask_free(&reply);
    return result;
}

int helper_trace_share(struct helper *helper, pid_t pid, const struct helper_room *room, uint64_t *address,
                       int *file, struct base_error *error)
{
    return helper_trace_share_as(helper, pid, NULL, room, address, file, error);
}

int helper_trace_share_as(struct helper *helper, pid_t pid, const char *name, const struct helper_room *room,
                          uint64_t *address, int *file, struct base_error *error)
{
    struct helper_message message = {.code = HELPER_SHARE,
                                     .pid = pid,
                                     .values = {room->low, room->high, room->size, (uint64_t)room->protection,
                                                room->data, room->data_first},
                                     .size = name ? strlen(name) + 1 : 0};
    return share(helper, &message, name, address, file, error);
}

int helper_trace_share_pieces(struct helper *helper, pid_t pid, const char *name, uint64_t address,
                              uint64_t size, const struct trace_inject_piece *pieces, size_t count, int *file,
                              struct base_error *error)
{
    struct helper_message message = {.code = HELPER_SHARE_PIECES,
                                     .pid = pid,
                                     .values = {address, size},
                                     .size = HELPER_NAME + count * sizeof *pieces};
    char *bytes = calloc(1, message.size);
    if (!bytes)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    snprintf(bytes, HELPER_NAME, "%s", name);
    memcpy(bytes + HELPER_NAME, pieces, count * sizeof *pieces);
    int result = share(helper, &message, bytes, &address, file, error);
    free(bytes);
    return result;
}

int helper_trace_remap(struct helper *helper, pid_t pid, uint64_t address, uint64_t size, int protection,
                       const struct trace_inject_word *words, size_t count, int *file,
                       struct base_error *error)
{
    struct helper_message message = {.code = HELPER_REMAP,
                                     .pid = pid,
                                     .values = {address, 0, size, (uint64_t)protection},
                                     .size = count * sizeof *words};
    return share(helper, &message, words, &address, file, error);
}

int helper_trace_unmap(struct helper *helper, pid_t pid, uint64_t address, uint64_t size,
                       struct base_error *error)
{
    return order(helper, HELPER_UNMAP, pid, address, size, error);
}

int helper_trace_protect(struct helper *helper, pid_t pid, uint64_t address, uint64_t size, int protection,
                         struct base_error *error)
{
    struct helper_message message = {
        .code = HELPER_PROTECT, .pid = pid, .values = {address, size, (uint64_t)protection}};
    return helper_ask_values(helper, &message, NULL, error);
}

int helper_trace_give_back(struct helper *helper, pid_t pid, uint64_t address, uint64_t size,
                           struct base_error *error)
{
    return order(helper, HELPER_GIVE_BACK, pid, address, size, error);
}

int helper_trace_wipe(struct helper *helper, pid_t pid, uint64_t address, uint64_t size,
                      struct base_error *error)
{
    return order(helper, HELPER_WIPE, pid, address, size, error);
}

int helper_trace_call(struct helper *helper, pid_t pid, pid_t process, struct helper_trace_call *calls,
                      size_t count, struct base_error *error)
{
    struct helper_message message = {
        .code = HELPER_CALL, .pid = pid, .values = {(uint64_t)process}, .size = count * sizeof *calls};
    struct helper_reply reply;
    int result = helper_ask(helper, &message, calls, -1, &reply, error);
    if (result < 0)
        return result;
    bool whole = reply.message.size == count * sizeof *calls;
    if (whole && count)
        memcpy(calls, reply.bytes, count * sizeof *calls);
    helper_ask_free(&reply);
    return whole ? BASE_OK : base_fail(error, BASE_EIO, "the helper answered half");
}

/* --- ends and costs --- */

int helper_trace_write_at_exit(struct helper *helper, pid_t pid, uint64_t address, uint64_t value,
                               struct base_error *error)
{
    return order(helper, HELPER_WRITE_AT_EXIT, pid, address, value, error);
}

int helper_trace_cost(struct helper *helper, pid_t pid, struct trace_cost *cost, struct base_error *error)
{
    struct helper_message message = {.code = HELPER_COST, .pid = pid};
    return helper_ask_bytes(helper, &message, cost, sizeof *cost, error);
}
