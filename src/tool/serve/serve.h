/* serve.h - one document, to the browsers of this machine: HTTP/1.1 (RFC 9112) on 127.0.0.1.
 *
 * Other users of the machine reach that address, too: the document's path is 128 random bits, and nothing
 * else is answered with anything. Requests are answered one after the other; one that does not come to its
 * end is given up after a few seconds. Context: tool. */
#ifndef SERVE_H
#define SERVE_H

#include <stddef.h>
#include <stdint.h>

#include "base_error.h"

struct serve {
    int listening;
    char address[96]; /* "http://127.0.0.1:40123/0f3a.../" */
    char path[40];
};

/* `port` 0: any that is free. On success serve_close ends it. */
int serve_open(struct serve *serve, uint16_t port, struct base_error *error);
void serve_close(struct serve *serve);

/* Answers one request, which waits; what its sender gets is no failure of ours. */
void serve_answer(const struct serve *serve, const void *document, size_t length);

#endif
