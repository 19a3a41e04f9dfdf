#include "serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { REQUEST_MOST = 8192, PATIENCE_S = 3, RANDOM_BYTES = 16, WAITING = 16 };

/* --- the address --- */

static bool make_path(struct serve *serve)
{
    unsigned char random[RANDOM_BYTES];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return false;
    char *next = serve->path;
    *next++ = '/';
    for (size_t i = 0; i < sizeof random; i++)
        next += snprintf(next, 3, "%02x", random[i]);
    snprintf(next, 2, "/");
    return true;
}

static bool listen_at(int descriptor, uint16_t port, uint16_t *got)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int yes = 1;
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(descriptor, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(descriptor, WAITING) < 0 || getsockname(descriptor, (struct sockaddr *)&address, &length) < 0)
        return false;
    *got = ntohs(address.sin_port);
    return true;
}

int serve_open(struct serve *serve, uint16_t port, struct base_error *error)
{
    uint16_t got = 0;
    serve->listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (serve->listening < 0)
        return base_fail_errno(error, errno, "cannot make a socket");
    if (!make_path(serve) || !listen_at(serve->listening, port, &got)) {
        int number = errno;
        close(serve->listening);
        return base_fail_errno(error, number, "cannot listen at port %u of 127.0.0.1", port);
    }
    snprintf(serve->address, sizeof serve->address, "http://127.0.0.1:%u%s", got, serve->path);
    return BASE_OK;
}

void serve_close(struct serve *serve)
{
    close(serve->listening);
    serve->listening = -1;
}

/* --- one request --- */

static double monotonic_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* The head of a request, up to its empty line. False: it did not come, or was too long. */
static bool read_head(int descriptor, char *head)
{
    double end = monotonic_seconds() + PATIENCE_S;
    size_t length = 0;
    while (length < REQUEST_MOST && monotonic_seconds() < end) {
        ssize_t got = recv(descriptor, head + length, REQUEST_MOST - length, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        length += (size_t)got;
        head[length] = '\0';
        if (strstr(head, "\r\n\r\n"))
            return true;
    }
    return false;
}

static void serve_write_all(int descriptor, const void *bytes, size_t length)
{
    const char *next = bytes;
    while (length) {
        ssize_t sent = send(descriptor, next, length, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return;
        next += sent;
        length -= (size_t)sent;
    }
}

static void write_head(int descriptor, const char *status, size_t length)
{
    char head[512];
    int used = snprintf(head, sizeof head,
                        "HTTP/1.1 %s\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: %zu\r\n"
                        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
                        "Referrer-Policy: no-referrer\r\nConnection: close\r\n\r\n",
                        status, length);
    serve_write_all(descriptor, head, (size_t)used);
}

/* What is behind a method: the path asked for is ours, or not. */
static bool asks_for(const struct serve *serve, const char *target)
{
    size_t length = strlen(serve->path);
    return !strncmp(target, serve->path, length) && target[length] == ' ';
}

static void answer_http_request(const struct serve *serve, int descriptor, const char *head,
                                const void *document, size_t length)
{
    bool get = !strncmp(head, "GET ", 4), only_head = !strncmp(head, "HEAD ", 5);
    if (!get && !only_head)
        write_head(descriptor, "405 Method Not Allowed", 0);
    else if (!asks_for(serve, head + (get ? 4 : 5)))
        write_head(descriptor, "404 Not Found", 0);
    else {
        write_head(descriptor, "200 OK", length);
        if (get)
            serve_write_all(descriptor, document, length);
    }
}

void serve_answer(const struct serve *serve, const void *document, size_t length)
{
    char head[REQUEST_MOST + 1];
    struct timeval patience = {.tv_sec = PATIENCE_S};
    int descriptor = accept4(serve->listening, NULL, NULL, SOCK_CLOEXEC);
    if (descriptor < 0)
        return;
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (read_head(descriptor, head)) {
        answer_http_request(serve, descriptor, head, document, length);
        shutdown(descriptor, SHUT_WR); /* what was asked beyond the head must not reset what is on its way */
        for (double end = monotonic_seconds() + PATIENCE_S;
             monotonic_seconds() < end && recv(descriptor, head, sizeof head, 0) > 0;)
            ;
    }
    close(descriptor);
}
