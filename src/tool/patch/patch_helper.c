/* Tally's side. */
#include "patch_helper.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base_wait.h"
#include "patch_helper_ask.h"
#include "patch_helper_wire.h"
#include "patch_trace.h"

/* A filter that refuses messages would have the helper end without a word. */
static int try_messages(int socket)
{
    char byte;
    if (patch_helper_wire_put(socket, "", 0, 0) < 0)
        return -1;
    return patch_helper_wire_get(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno != EAGAIN ? -1 : 0;
}

static int make_ends(int ends[2], struct base_error *error)
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return base_fail_errno(error, errno, "socketpair");
    if (!try_messages(ends[0]))
        return BASE_OK;
    int number = errno;
    close(ends[0]);
    close(ends[1]);
    return base_fail_errno(error, number, "sendmsg or recvmsg, to the helper process of tally");
}

int patch_helper_begin(struct patch_helper *helper, struct base_error *error)
{
    int ends[2];
    *helper = (struct patch_helper){.socket = -1};
    int result = make_ends(ends, error);
    if (result < 0)
        return result;
    pid_t pid = fork();
    if (pid == 0)
        patch_helper_serve(ends[1]);
    int number = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return base_fail_errno(error, number, "fork");
    }
    *helper = (struct patch_helper){.pid = pid, .socket = ends[0]};
    return BASE_OK;
}

void patch_helper_end(struct patch_helper *helper)
{
    if (helper->socket >= 0) {
        shutdown(helper->socket, SHUT_RDWR); /* a child that has not called exec yet holds it open */
        close(helper->socket);
    }
    if (helper->pid > 0)
        while (base_wait(helper->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    free(helper->events);
    *helper = (struct patch_helper){.socket = -1};
}

/* --- stopping --- */

int patch_helper_check(struct patch_helper *helper, pid_t pid, struct base_error *error)
{
    struct patch_helper_message message = {.code = PATCH_HELPER_CHECK, .values = {(uint64_t)pid}};
    return patch_helper_ask_values(helper, &message, NULL, error);
}

int patch_helper_stop(struct patch_helper *helper, pid_t pid, struct patch_helper_stopped *result,
                      struct base_error *error)
{
    struct patch_helper_message message = {.code = PATCH_HELPER_STOP, .values = {(uint64_t)pid}};
    int code = patch_helper_ask_values(helper, &message, NULL, error);
    if (code == BASE_OK)
        patch_helper_ask_stopped(&message, result);
    return code;
}

int patch_helper_resume(struct patch_helper *helper, struct patch_helper_stopped *result,
                        struct base_error *error)
{
    struct patch_helper_message message = {.code = PATCH_HELPER_RESUME};
    int code = patch_helper_ask_values(helper, &message, NULL, error);
    if (code == BASE_OK)
        patch_helper_ask_stopped(&message, result);
    return code;
}

int patch_helper_switch(struct patch_helper *helper, pid_t pid, bool on, struct patch_helper_stopped *result,
                        struct base_error *error)
{
    struct patch_helper_message message = {.code = PATCH_HELPER_SWITCH, .values = {(uint64_t)pid, on}};
    int code = patch_helper_ask_values(helper, &message, NULL, error);
    if (code == BASE_OK)
        patch_helper_ask_stopped(&message, result);
    return code;
}

/* --- what patch_trace.h does too; 0 is the one that stands --- */

int patch_helper_stage(struct patch_helper *helper, const struct patch_memory_change *changes, size_t count,
                       struct base_error *error)
{
    return patch_trace_stage(helper, 0, changes, count, error);
}

int patch_helper_apply(struct patch_helper *helper, struct base_error *error)
{
    return patch_trace_apply(helper, 0, error);
}

int patch_helper_undo(struct patch_helper *helper, struct base_error *error)
{
    return patch_trace_undo(helper, 0, error);
}

int patch_helper_threads(struct patch_helper *helper, struct patch_stop_thread **threads, size_t *count,
                         struct base_error *error)
{
    return patch_trace_threads(helper, 0, threads, count, error);
}

int patch_helper_read_registers(struct patch_helper *helper, pid_t tid, struct user_regs_struct *registers,
                                struct base_error *error)
{
    return patch_trace_read_registers(helper, 0, tid, registers, error);
}

int patch_helper_write_registers(struct patch_helper *helper, pid_t tid,
                                 const struct user_regs_struct *registers, struct base_error *error)
{
    return patch_trace_write_registers(helper, 0, tid, registers, error);
}

int patch_helper_read(struct patch_helper *helper, uint64_t address, void *bytes, size_t size,
                      struct base_error *error)
{
    return patch_trace_read(helper, 0, address, bytes, size, error);
}

int patch_helper_write(struct patch_helper *helper, uint64_t address, const void *bytes, size_t size,
                       struct base_error *error)
{
    return patch_trace_write(helper, 0, address, bytes, size, error);
}

int patch_helper_map(struct patch_helper *helper, const struct patch_helper_room *room, uint64_t *address,
                     struct base_error *error)
{
    return patch_trace_map(helper, 0, room, address, error);
}

int patch_helper_share(struct patch_helper *helper, const struct patch_helper_room *room, uint64_t *address,
                       int *file, struct base_error *error)
{
    return patch_trace_share(helper, 0, room, address, file, error);
}

int patch_helper_unmap(struct patch_helper *helper, uint64_t address, uint64_t size, struct base_error *error)
{
    return patch_trace_unmap(helper, 0, address, size, error);
}

int patch_helper_protect(struct patch_helper *helper, uint64_t address, uint64_t size, int protection,
                         struct base_error *error)
{
    return patch_trace_protect(helper, 0, address, size, protection, error);
}
