#include "helper_wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Only the calls that messages with files need in any case: a filter can refuse no others. */
ssize_t helper_wire_put(int socket, const void *bytes, size_t size, int flags)
{
    struct iovec part = {(void *)(uintptr_t)bytes, size};
    struct msghdr head = {.msg_iov = &part, .msg_iovlen = 1};
    return sendmsg(socket, &head, flags | MSG_NOSIGNAL);
}

ssize_t helper_wire_get(int socket, void *bytes, size_t size, int flags)
{
    struct iovec part = {bytes, size};
    struct msghdr head = {.msg_iov = &part, .msg_iovlen = 1};
    return recvmsg(socket, &head, flags);
}

static int send_bytes(int socket, const void *bytes, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t sent = helper_wire_put(socket, (const char *)bytes + done, size - done, 0);
        if (sent < 0 && errno != EINTR)
            return -1;
        done += sent > 0 ? (size_t)sent : 0;
    }
    return 0;
}

int helper_wire_send(int socket, const struct helper_message *message, const void *bytes, int file)
{
    struct helper_message copy = *message;
    struct iovec part = {&copy, sizeof copy};
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr head = {.msg_iov = &part, .msg_iovlen = 1};
    if (file >= 0) {
        head.msg_control = &control;
        head.msg_controllen = sizeof control.room;
        control.header = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.header), &file, sizeof file);
    }
    ssize_t sent;
    while ((sent = sendmsg(socket, &head, MSG_NOSIGNAL)) < 0 && errno == EINTR)
        ;
    if (sent <= 0 || send_bytes(socket, (const char *)&copy + sent, sizeof copy - (size_t)sent))
        return -1;
    return send_bytes(socket, bytes, message->size);
}

static int receive_bytes(int socket, void *bytes, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t got = helper_wire_get(socket, (char *)bytes + done, size - done, 0);
        if (got == 0 || (got < 0 && errno != EINTR))
            return -1;
        done += got > 0 ? (size_t)got : 0;
    }
    return 0;
}

static int receive_header(int socket, struct helper_message *message, int *file)
{
    struct iovec part = {message, sizeof *message};
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr head = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.room};
    ssize_t got;
    while ((got = recvmsg(socket, &head, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ;
    struct cmsghdr *first = got > 0 ? CMSG_FIRSTHDR(&head) : NULL;
    if (first && first->cmsg_level == SOL_SOCKET && first->cmsg_type == SCM_RIGHTS)
        memcpy(file, CMSG_DATA(first), sizeof *file);
    if (got <= 0)
        return -1;
    return receive_bytes(socket, (char *)message + got, sizeof *message - (size_t)got);
}

/* Bytes that there is no memory for are read all the same, since the next message is behind them. */
static int skip_bytes(int socket, uint64_t size)
{
    char bytes[4096];
    int result = 0;
    for (uint64_t part; size && result == 0; size -= part) {
        part = size < sizeof bytes ? size : sizeof bytes;
        result = receive_bytes(socket, bytes, part);
    }
    return result ? -1 : 1;
}

int helper_wire_receive(int socket, struct helper_message *message, void **bytes, int *file)
{
    int received = -1;
    *bytes = NULL;
    int result = receive_header(socket, message, &received);
    if (result == 0 && message->size > HELPER_MOST)
        result = -1;
    if (result == 0 && message->size) {
        *bytes = malloc(message->size + 1);
        result = *bytes ? receive_bytes(socket, *bytes, message->size) : skip_bytes(socket, message->size);
        if (result == 0)
            ((char *)*bytes)[message->size] = '\0';
    }
    if (result) {
        free(*bytes);
        *bytes = NULL;
    }
    if (result == 0 && file)
        *file = received;
    else if (received >= 0)
        close(received);
    return result;
}
