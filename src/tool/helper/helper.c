/* Tally's side. */
#include "helper.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base_wait.h"
#include "helper_ask.h"
#include "helper_trace.h"
#include "helper_wire.h"

/* A filter that refuses messages would have the helper end without a word. */
static int try_messages(int socket)
{
    char byte;
    if (helper_wire_put(socket, "", 0, 0) < 0)
        return -1;
    return helper_wire_get(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno != EAGAIN ? -1 : 0;
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

int helper_begin(struct helper *helper, struct base_error *error)
{
    int ends[2];
    *helper = (struct helper){.socket = -1};
    int result = make_ends(ends, error);
    if (result < 0)
        return result;
    pid_t pid = fork();
    if (pid == 0)
        helper_serve(ends[1]);
    int number = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return base_fail_errno(error, number, "fork");
    }
    *helper = (struct helper){.pid = pid, .socket = ends[0]};
    return BASE_OK;
}

void helper_end(struct helper *helper)
{
    if (helper->socket >= 0) {
        shutdown(helper->socket, SHUT_RDWR); /* a child that has not called exec yet holds it open */
        close(helper->socket);
    }
    if (helper->pid > 0)
        while (base_wait(helper->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    free(helper->events);
    *helper = (struct helper){.socket = -1};
}

/* --- stopping --- */

int helper_check(struct helper *helper, pid_t pid, struct base_error *error)
{
    struct helper_message message = {.code = HELPER_CHECK, .values = {(uint64_t)pid}};
    return helper_ask_values(helper, &message, NULL, error);
}

int helper_stop(struct helper *helper, pid_t pid, struct helper_stopped *result, struct base_error *error)
{
    struct helper_message message = {.code = HELPER_STOP, .values = {(uint64_t)pid}};
    int code = helper_ask_values(helper, &message, NULL, error);
    if (code == BASE_OK)
        helper_ask_stopped(&message, result);
    return code;
}

int helper_resume(struct helper *helper, struct helper_stopped *result, struct base_error *error)
{
    struct helper_message message = {.code = HELPER_RESUME};
    int code = helper_ask_values(helper, &message, NULL, error);
    if (code == BASE_OK)
        helper_ask_stopped(&message, result);
    return code;
}

int helper_switch(struct helper *helper, pid_t pid, bool on, struct helper_stopped *result,
                  struct base_error *error)
{
    struct helper_message message = {.code = HELPER_SWITCH, .values = {(uint64_t)pid, on}};
    int code = helper_ask_values(helper, &message, NULL, error);
    if (code == BASE_OK)
        helper_ask_stopped(&message, result);
    return code;
}

/* --- what helper_trace.h does too; 0 is the one that stands --- */

int helper_stage(struct helper *helper, const struct trace_memory_change *changes, size_t count,
                 struct base_error *error)
{
    return helper_trace_stage(helper, 0, changes, count, error);
}

int helper_apply(struct helper *helper, struct base_error *error)
{
    return helper_trace_apply(helper, 0, error);
}

int helper_undo(struct helper *helper, struct base_error *error)
{
    return helper_trace_undo(helper, 0, error);
}

int helper_threads(struct helper *helper, struct trace_stop_thread **threads, size_t *count,
                   struct base_error *error)
{
    return helper_trace_threads(helper, 0, threads, count, error);
}

int helper_read_registers(struct helper *helper, pid_t tid, struct user_regs_struct *registers,
                          struct base_error *error)
{
    return helper_trace_read_registers(helper, 0, tid, registers, error);
}

int helper_write_registers(struct helper *helper, pid_t tid, const struct user_regs_struct *registers,
                           struct base_error *error)
{
    return helper_trace_write_registers(helper, 0, tid, registers, error);
}

int helper_read(struct helper *helper, uint64_t address, void *bytes, size_t size, struct base_error *error)
{
    return helper_trace_read(helper, 0, address, bytes, size, error);
}

int helper_write(struct helper *helper, uint64_t address, const void *bytes, size_t size,
                 struct base_error *error)
{
    return helper_trace_write(helper, 0, address, bytes, size, error);
}

int helper_map(struct helper *helper, const struct helper_room *room, uint64_t *address,
               struct base_error *error)
{
    return helper_trace_map(helper, 0, room, address, error);
}

int helper_share(struct helper *helper, const struct helper_room *room, uint64_t *address, int *file,
                 struct base_error *error)
{
    return helper_trace_share(helper, 0, room, address, file, error);
}

int helper_unmap(struct helper *helper, uint64_t address, uint64_t size, struct base_error *error)
{
    return helper_trace_unmap(helper, 0, address, size, error);
}

int helper_protect(struct helper *helper, uint64_t address, uint64_t size, int protection,
                   struct base_error *error)
{
    return helper_trace_protect(helper, 0, address, size, protection, error);
}
