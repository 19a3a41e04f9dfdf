/* Tally's side: each function is one request. */
#include "patch_trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "patch_helper_ask.h"
#include "patch_helper_wire.h"
#include "patch_inject.h"

/* A request that is answered by its code alone. */
static int order(struct patch_helper *helper, enum patch_helper_command command, pid_t pid, uint64_t first,
                 uint64_t second, struct base_error *error)
{
    struct patch_helper_message message = {.code = command, .pid = pid, .values = {first, second}};
    return patch_helper_ask_values(helper, &message, NULL, error);
}

/* One about some ranges, and a value: a thread, or what else the command takes. */
static int order_ranges(struct patch_helper *helper, enum patch_helper_command command, pid_t pid,
                        uint64_t value, const struct patch_step_range *ranges, size_t count,
                        struct base_error *error)
{
    struct patch_helper_message message = {
        .code = command, .pid = pid, .values = {value}, .size = count * sizeof *ranges};
    return patch_helper_ask_values(helper, &message, ranges, error);
}

/* --- following --- */

int patch_trace_follow(struct patch_helper *helper, pid_t pid, struct base_error *error)
{
    return order(helper, PATCH_HELPER_FOLLOW, pid, 0, 0, error);
}

static bool is_told_over(const struct patch_trace_event *event, pid_t pid)
{
    return event->pid == pid && (event->kind == PATCH_TRACE_EXEC || event->kind == PATCH_TRACE_END);
}

int patch_trace_leave(struct patch_helper *helper, pid_t pid, struct base_error *error)
{
    int result = order(helper, PATCH_HELPER_LEAVE, pid, 0, 0, error);
    size_t kept = helper->event_first;
    if (result < 0)
        return result;
    for (size_t i = helper->event_first; i < helper->event_count; i++)
        if (helper->events[i].pid != pid)
            helper->events[kept++] = helper->events[i];
    helper->event_count = kept;
    return result;
}

int patch_trace_free_children(struct patch_helper *helper, pid_t pid, struct base_error *error)
{
    return order(helper, PATCH_HELPER_FREE_CHILDREN, pid, 0, 0, error);
}

bool patch_trace_pending(const struct patch_helper *helper)
{
    return helper->event_first < helper->event_count || helper->events_lost;
}

int patch_trace_next(struct patch_helper *helper, struct patch_trace_event *event, struct base_error *error)
{
    while (!patch_trace_pending(helper)) {
        struct patch_helper_reply reply;
        char byte;
        ssize_t ready =
            helper->socket < 0 ? 0 : patch_helper_wire_get(helper->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        if (ready < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        int result = patch_helper_ask_receive(helper, &reply, error);
        if (result < 0)
            return result;
        if (result == 0)
            patch_helper_ask_free(&reply); /* nobody asked */
    }
    if (helper->event_first == helper->event_count) {
        helper->events_lost = false;
        return base_fail(error, BASE_ENOMEM, "out of memory");
    }
    *event = helper->events[helper->event_first++];
    return 1;
}

/* --- gs bases --- */

int patch_trace_give(struct patch_helper *helper, pid_t pid, const uint64_t *gs, size_t count,
                     struct base_error *error)
{
    struct patch_helper_message message = {.code = PATCH_HELPER_GIVE, .pid = pid, .size = count * sizeof *gs};
    return patch_helper_ask_values(helper, &message, gs, error);
}

int patch_trace_left(struct patch_helper *helper, pid_t pid, uint64_t *count, struct base_error *error)
{
    struct patch_helper_message message = {.code = PATCH_HELPER_LEFT, .pid = pid};
    int result = patch_helper_ask_values(helper, &message, NULL, error);
    if (result == BASE_OK)
        *count = message.values[0];
    return result;
}

int patch_trace_set_gs(struct patch_helper *helper, pid_t tid, uint64_t gs, struct base_error *error)
{
    return order(helper, PATCH_HELPER_SET_GS, 0, (uint64_t)tid, gs, error);
}

int patch_trace_clear_gs(struct patch_helper *helper, pid_t pid, uint64_t offset,
                         const struct patch_step_range *ranges, size_t count, struct base_error *error)
{
    return order_ranges(helper, PATCH_HELPER_CLEAR_GS, pid, offset, ranges, count, error);
}

/* --- holding --- */

int patch_trace_hold(struct patch_helper *helper, pid_t pid, struct patch_helper_stopped *result,
                     struct base_error *error)
{
    struct patch_helper_message message = {.code = PATCH_HELPER_HOLD, .pid = pid};
    int code = patch_helper_ask_values(helper, &message, NULL, error);
    if (code < 0)
        return code;
    for (size_t i = helper->event_first; i < helper->event_count; i++)
        if (is_told_over(&helper->events[i], pid))
            return base_fail(error, BASE_ENOTFOUND, "process %d is not what it was any more", pid);
    patch_helper_ask_stopped(&message, result);
    return code;
}

int patch_trace_release(struct patch_helper *helper, pid_t pid, struct patch_helper_stopped *result,
                        struct base_error *error)
{
    struct patch_helper_message message = {.code = PATCH_HELPER_RELEASE, .pid = pid};
    int code = patch_helper_ask_values(helper, &message, NULL, error);
    if (code == BASE_OK)
        patch_helper_ask_stopped(&message, result);
    return code;
}

int patch_trace_step_out(struct patch_helper *helper, pid_t pid, pid_t tid,
                         const struct patch_step_range *ranges, size_t count, struct base_error *error)
{
    return order_ranges(helper, PATCH_HELPER_STEP_OUT, pid, (uint64_t)tid, ranges, count, error);
}

int patch_trace_suspend(struct patch_helper *helper, struct base_error *error)
{
    return order(helper, PATCH_HELPER_SUSPEND, 0, 0, 0, error);
}

/* --- endings --- */

int patch_trace_tell_endings(struct patch_helper *helper, struct base_error *error)
{
    return order(helper, PATCH_HELPER_TELL_ENDINGS, 0, 0, 0, error);
}

int patch_trace_let_end(struct patch_helper *helper, pid_t pid, struct base_error *error)
{
    return order(helper, PATCH_HELPER_LET_END, pid, 0, 0, error);
}

/* --- loose --- */

int patch_trace_loosen(struct patch_helper *helper, pid_t pid, const struct patch_step_range *ranges,
                       size_t count, struct base_error *error)
{
    return order_ranges(helper, PATCH_HELPER_LOOSEN, pid, 0, ranges, count, error);
}

int patch_trace_clear(struct patch_helper *helper, pid_t pid, const struct patch_step_range *ranges,
                      size_t count, struct base_error *error)
{
    return order_ranges(helper, PATCH_HELPER_CLEAR, pid, 0, ranges, count, error);
}

int patch_trace_tighten(struct patch_helper *helper, pid_t pid, struct base_error *error)
{
    return order(helper, PATCH_HELPER_TIGHTEN, pid, 0, 0, error);
}

/* --- changes --- */

int patch_trace_stage(struct patch_helper *helper, pid_t pid, const struct patch_memory_change *changes,
                      size_t count, struct base_error *error)
{
    struct patch_helper_message message = {
        .code = PATCH_HELPER_STAGE, .pid = pid, .size = count * sizeof *changes};
    return patch_helper_ask_values(helper, &message, changes, error);
}

int patch_trace_stage_list(struct patch_helper *helper, pid_t pid, struct patch_stage *list,
                           struct base_error *error)
{
    struct patch_helper_message message = {.code = PATCH_HELPER_STAGE, .pid = pid, .values = {list->count}};
    struct patch_helper_reply reply;
    int result = patch_stage_seal(list, error);
    if (result == BASE_OK && list->file < 0)
        return patch_trace_stage(helper, pid, list->buffer, list->count, error);
    if (result == BASE_OK)
        result = patch_helper_ask(helper, &message, NULL, list->file, &reply, error);
    if (result == BASE_OK)
        patch_helper_ask_free(&reply);
    return result;
}

int patch_trace_apply(struct patch_helper *helper, pid_t pid, struct base_error *error)
{
    return order(helper, PATCH_HELPER_APPLY, pid, 0, 0, error);
}

int patch_trace_undo(struct patch_helper *helper, pid_t pid, struct base_error *error)
{
    return order(helper, PATCH_HELPER_UNDO, pid, 0, 0, error);
}

/* --- threads and memory --- */

int patch_trace_threads(struct patch_helper *helper, pid_t pid, struct patch_stop_thread **threads,
                        size_t *count, struct base_error *error)
{
    struct patch_helper_message message = {.code = PATCH_HELPER_THREADS, .pid = pid};
    struct patch_helper_reply reply;
    int result = patch_helper_ask(helper, &message, NULL, -1, &reply, error);
    if (result < 0)
        return result;
    *threads = reply.bytes;
    *count = (size_t)(reply.message.size / sizeof **threads);
    reply.bytes = NULL;
    patch_helper_ask_free(&reply);
    return BASE_OK;
}

int patch_trace_read_registers(struct patch_helper *helper, pid_t pid, pid_t tid,
                               struct user_regs_struct *registers, struct base_error *error)
{
    struct patch_helper_message message = {
        .code = PATCH_HELPER_READ_REGISTERS, .pid = pid, .values = {(uint64_t)tid}};
    return patch_helper_ask_bytes(helper, &message, registers, sizeof *registers, error);
}

int patch_trace_write_registers(struct patch_helper *helper, pid_t pid, pid_t tid,
                                const struct user_regs_struct *registers, struct base_error *error)
{
    struct patch_helper_message message = {.code = PATCH_HELPER_WRITE_REGISTERS,
                                           .pid = pid,
                                           .values = {(uint64_t)tid},
                                           .size = sizeof *registers};
    return patch_helper_ask_values(helper, &message, registers, error);
}

int patch_trace_read(struct patch_helper *helper, pid_t pid, uint64_t address, void *bytes, size_t size,
                     struct base_error *error)
{
    struct patch_helper_message message = {.code = PATCH_HELPER_READ, .pid = pid, .values = {address, size}};
    return patch_helper_ask_bytes(helper, &message, bytes, size, error);
}

int patch_trace_write(struct patch_helper *helper, pid_t pid, uint64_t address, const void *bytes,
                      size_t size, struct base_error *error)
{
    struct patch_helper_message message = {
        .code = PATCH_HELPER_WRITE, .pid = pid, .values = {address}, .size = size};
    return patch_helper_ask_values(helper, &message, bytes, error);
}

/* --- mappings --- */

int patch_trace_map(struct patch_helper *helper, pid_t pid, const struct patch_helper_room *room,
                    uint64_t *address, struct base_error *error)
{
    struct patch_helper_message message = {
        .code = PATCH_HELPER_MAP,
        .pid = pid,
        .values = {room->low, room->high, room->size, (uint64_t)room->protection}};
    int result = patch_helper_ask_values(helper, &message, NULL, error);
    if (result == BASE_OK)
        *address = message.values[0];
    return result;
}

/* What the helper has mapped, and nobody has a descriptor of. What REMAP made stays: there was something before, too. */
static void unmap_shared(struct patch_helper *helper, const struct patch_helper_message *message,
                         const void *bytes, uint64_t address)
{
    const uint64_t *values = message->values;
    if (message->code == PATCH_HELPER_SHARE) {
        bool data_first = values[5] && address < values[0];
        patch_trace_unmap(helper, message->pid, address - (data_first ? values[4] : 0), values[2] + values[4],
                          NULL);
    } else if (message->code == PATCH_HELPER_SHARE_PIECES) {
        const struct patch_inject_piece *pieces = (const void *)((const char *)bytes + PATCH_HELPER_NAME);
        size_t count = (size_t)((message->size - PATCH_HELPER_NAME) / sizeof *pieces);
        for (size_t i = 0; i < count; i++)
            patch_trace_unmap(helper, message->pid, address + pieces[i].at, pieces[i].size, NULL);
    }
}

/* What comes with a descriptor. Where the helper refuses, it has undone what it did, and what is mapped there is not ours. */
static int share(struct patch_helper *helper, const struct patch_helper_message *message, const void *bytes,
                 uint64_t *address, int *file, struct base_error *error)
{
    struct patch_helper_reply reply;
    int result = patch_helper_ask(helper, message, bytes, -1, &reply, error);
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
    patch_helper_ask_free(&reply);
    return result;
}

int patch_trace_share(struct patch_helper *helper, pid_t pid, const struct patch_helper_room *room,
                      uint64_t *address, int *file, struct base_error *error)
{
    return patch_trace_share_as(helper, pid, NULL, room, address, file, error);
}

int patch_trace_share_as(struct patch_helper *helper, pid_t pid, const char *name,
                         const struct patch_helper_room *room, uint64_t *address, int *file,
                         struct base_error *error)
{
    struct patch_helper_message message = {.code = PATCH_HELPER_SHARE,
                                           .pid = pid,
                                           .values = {room->low, room->high, room->size,
                                                      (uint64_t)room->protection, room->data,
                                                      room->data_first},
                                           .size = name ? strlen(name) + 1 : 0};
    return share(helper, &message, name, address, file, error);
}

int patch_trace_share_pieces(struct patch_helper *helper, pid_t pid, const char *name, uint64_t address,
                             uint64_t size, const struct patch_inject_piece *pieces, size_t count, int *file,
                             struct base_error *error)
{
    struct patch_helper_message message = {.code = PATCH_HELPER_SHARE_PIECES,
                                           .pid = pid,
                                           .values = {address, size},
                                           .size = PATCH_HELPER_NAME + count * sizeof *pieces};
    char *bytes = calloc(1, message.size);
    if (!bytes)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    snprintf(bytes, PATCH_HELPER_NAME, "%s", name);
    memcpy(bytes + PATCH_HELPER_NAME, pieces, count * sizeof *pieces);
    int result = share(helper, &message, bytes, &address, file, error);
    free(bytes);
    return result;
}

int patch_trace_remap(struct patch_helper *helper, pid_t pid, uint64_t address, uint64_t size, int protection,
                      const struct patch_inject_word *words, size_t count, int *file,
                      struct base_error *error)
{
    struct patch_helper_message message = {.code = PATCH_HELPER_REMAP,
                                           .pid = pid,
                                           .values = {address, 0, size, (uint64_t)protection},
                                           .size = count * sizeof *words};
    return share(helper, &message, words, &address, file, error);
}

int patch_trace_unmap(struct patch_helper *helper, pid_t pid, uint64_t address, uint64_t size,
                      struct base_error *error)
{
    return order(helper, PATCH_HELPER_UNMAP, pid, address, size, error);
}

int patch_trace_protect(struct patch_helper *helper, pid_t pid, uint64_t address, uint64_t size,
                        int protection, struct base_error *error)
{
    struct patch_helper_message message = {
        .code = PATCH_HELPER_PROTECT, .pid = pid, .values = {address, size, (uint64_t)protection}};
    return patch_helper_ask_values(helper, &message, NULL, error);
}

int patch_trace_give_back(struct patch_helper *helper, pid_t pid, uint64_t address, uint64_t size,
                          struct base_error *error)
{
    return order(helper, PATCH_HELPER_GIVE_BACK, pid, address, size, error);
}

int patch_trace_wipe(struct patch_helper *helper, pid_t pid, uint64_t address, uint64_t size,
                     struct base_error *error)
{
    return order(helper, PATCH_HELPER_WIPE, pid, address, size, error);
}

int patch_trace_call(struct patch_helper *helper, pid_t pid, pid_t process, struct patch_trace_call *calls,
                     size_t count, struct base_error *error)
{
    struct patch_helper_message message = {
        .code = PATCH_HELPER_CALL, .pid = pid, .values = {(uint64_t)process}, .size = count * sizeof *calls};
    struct patch_helper_reply reply;
    int result = patch_helper_ask(helper, &message, calls, -1, &reply, error);
    if (result < 0)
        return result;
    bool whole = reply.message.size == count * sizeof *calls;
    if (whole && count)
        memcpy(calls, reply.bytes, count * sizeof *calls);
    patch_helper_ask_free(&reply);
    return whole ? BASE_OK : base_fail(error, BASE_EIO, "the helper answered half");
}

/* --- ends and costs --- */

int patch_trace_farewell(struct patch_helper *helper, pid_t pid, uint64_t address, uint64_t value,
                         struct base_error *error)
{
    return order(helper, PATCH_HELPER_FAREWELL, pid, address, value, error);
}

int patch_trace_cost(struct patch_helper *helper, pid_t pid, struct patch_trace_cost *cost,
                     struct base_error *error)
{
    struct patch_helper_message message = {.code = PATCH_HELPER_COST, .pid = pid};
    return patch_helper_ask_bytes(helper, &message, cost, sizeof *cost, error);
}
