/* helper_request.h - a request to the helper, and its answer. Private to helper.c and helper_trace.c.
 * Context: tool. */
#ifndef HELPER_REQUEST_H
#define HELPER_REQUEST_H

#include <stddef.h>

#include "base_error.h"
#include "helper.h"
#include "helper_wire.h"

struct helper_reply {
    struct helper_message message;
    void *bytes; /* owned; NULL: none */
    int file;    /* owned; -1: none */
};

/* Sends the request, with `file` unless that is -1, and waits for the answer. Events that come before it are
 * queued. BASE_OK, what the helper reported, or BASE_EIO when it has ended. On BASE_OK the reply must be
 * freed. */
int helper_request(struct helper *helper, const struct helper_message *request, const void *bytes, int file,
                   struct helper_reply *reply, struct base_error *error);
void helper_request_free(struct helper_reply *reply);

/* The same, for answers that are only values: they replace those of the request. */
int helper_request_values(struct helper *helper, struct helper_message *request, const void *bytes,
                          struct base_error *error);
/* And for answers that are `size` bytes. */
int helper_request_bytes(struct helper *helper, const struct helper_message *request, void *bytes,
                         size_t size, struct base_error *error);

/* The next message, whatever it is; events are queued. 1: it was events, 0: an answer. */
int helper_request_receive(struct helper *helper, struct helper_reply *reply, struct base_error *error);

/* An answer's values as struct helper_stopped; `result` may be NULL. */
void helper_request_stopped(const struct helper_message *message, struct helper_stopped *result);

#endif
