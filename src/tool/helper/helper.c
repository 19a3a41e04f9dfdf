/* Tally's side. */
#include "helper.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base_wait.h"
#include "helper_request.h"
#include "helper_wire.h"

/* If a filter refused messages, the helper would end without reporting anything. */
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

int helper_stop(struct helper *helper, pid_t pid, struct helper_stopped *result, struct base_error *error)
{
    struct helper_message message = {.code = HELPER_STOP, .values = {(uint64_t)pid}};
    int code = helper_request_values(helper, &message, NULL, error);
    if (code == BASE_OK)
        helper_request_stopped(&message, result);
    return code;
}

int helper_resume(struct helper *helper, struct helper_stopped *result, struct base_error *error)
{
    struct helper_message message = {.code = HELPER_RESUME};
    int code = helper_request_values(helper, &message, NULL, error);
    if (code == BASE_OK)
        helper_request_stopped(&message, result);
    return code;
}
